package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// yesterday creates a coupon and users who applied for it before the last midnight in Seoul. Users are numbered from 1, in
// order of arrival.
func (n *night) yesterday(seats, users int) (couponID uint64) {
	n.t.Helper()
	now := time.Now().In(seoul)
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, seoul)
	opens, closes := midnight.Add(-12*time.Hour), midnight.Add(-time.Hour)
	done, err := n.db.ExecContext(n.t.Context(), "INSERT INTO coupon (name, total_quantity, apply_opens_at, apply_closes_at) VALUES (?, ?, ?, ?)",
		"심야 쿠폰", seats, opens.UTC(), closes.UTC())
	require.NoError(n.t, err)
	id, err := done.LastInsertId()
	require.NoError(n.t, err)
	couponID = uint64(id)
	_, _, err = n.store.Publish(n.t.Context(), coupon.Window{Coupon: couponID, Version: 1, Opens: opens, Closes: closes}, coupon.Promise{})
	require.NoError(n.t, err)

	line := make([]redis.Z, users)
	for i := range line {
		line[i] = redis.Z{Score: float64(opens.Add(time.Duration(i+1) * time.Second).UnixMicro()), Member: strconv.Itoa(i + 1)}
		_, err := n.db.ExecContext(n.t.Context(), "INSERT INTO `user` (id) VALUES (?)", i+1)
		require.NoError(n.t, err)
	}
	require.NoError(n.t, n.rdb.ZAdd(n.t.Context(), queue(couponID), line...).Err())
	require.NoError(n.t, n.rdb.HIncrBy(n.t.Context(), "state:{"+queue(couponID)+"}", "accepted", int64(users)).Err())
	return couponID
}

func queue(couponID uint64) string { return fmt.Sprintf("candidates:coupon:%d", couponID) }

// issued returns the users with the coupon, by position.
func (n *night) issued(couponID uint64) []int {
	n.t.Helper()
	rows, err := n.db.QueryContext(n.t.Context(), "SELECT user_id FROM user_coupon WHERE coupon_id = ? ORDER BY position", couponID)
	require.NoError(n.t, err)
	defer rows.Close()
	var users []int
	for rows.Next() {
		var user int
		require.NoError(n.t, rows.Scan(&user))
		users = append(users, user)
	}
	require.NoError(n.t, rows.Err())
	return users
}

// mustBeSettled demands that the first users have the coupon, each once, and that every invariant holds.
func (n *night) mustBeSettled(couponID uint64, seats int) {
	n.t.Helper()
	first := make([]int, seats)
	for i := range first {
		first[i] = i + 1
	}
	require.True(n.t, slices.Equal(first, n.issued(couponID)), "issued: %v", n.issued(couponID))
	n.mustHold()
}

// holdCoupon holds the row lock of the coupon until release.
func (n *night) holdCoupon(couponID uint64) (release func()) {
	n.t.Helper()
	tx, err := n.db.BeginTx(n.t.Context(), nil)
	require.NoError(n.t, err)
	_, err = tx.Exec("SELECT id FROM coupon WHERE id = ? FOR UPDATE", couponID)
	require.NoError(n.t, err)
	n.t.Cleanup(func() { _ = tx.Rollback() }) // if the test has failed before
	return func() { require.NoError(n.t, tx.Rollback()) }
}

// holdMiddle stops a settlement within its transaction, after it has written rows, at the coupon of this user, until release.
func (n *night) holdMiddle(user int) (release func()) {
	n.t.Helper()
	_, err := n.db.ExecContext(n.t.Context(), fmt.Sprintf(`CREATE TRIGGER middle BEFORE INSERT ON user_coupon FOR EACH ROW
		IF NEW.user_id = %d THEN DO GET_LOCK('middle', 600) + RELEASE_LOCK('middle'); END IF`, user))
	require.NoError(n.t, err)
	holder, err := n.db.Conn(n.t.Context())
	require.NoError(n.t, err)
	n.t.Cleanup(func() { _ = holder.Close() })
	do := func(function string) {
		var done int
		require.NoError(n.t, holder.QueryRowContext(n.t.Context(), "SELECT "+function).Scan(&done))
		require.Equal(n.t, 1, done, function)
	}
	do("GET_LOCK('middle', 0)")
	return func() { do("RELEASE_LOCK('middle')") }
}

// awaitMiddle waits until a settlement has stopped there.
func (n *night) awaitMiddle() {
	n.t.Helper()
	n.awaitSessions(1, "trx_rows_modified > 0 AND STATE = 'User lock'")
}

// awaitLocked waits until this number of sessions waits for a row lock.
func (n *night) awaitLocked(sessions int) {
	n.t.Helper()
	n.awaitSessions(sessions, "trx_state = 'LOCK WAIT'")
}

func (n *night) awaitSessions(wanted int, where string) {
	n.t.Helper()
	n.await(fmt.Sprintf("%d sessions are where %s", wanted, where), func(ctx context.Context) bool {
		var found int
		err := n.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.INNODB_TRX
			JOIN information_schema.PROCESSLIST ON ID = trx_mysql_thread_id WHERE `+where).Scan(&found)
		return err == nil && found >= wanted
	})
}
