package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/testenv"
)

// yesterday is a coupon for which so many users stand in line, who all applied before the last midnight in Seoul. Users
// are numbered from 1, in order of arrival.
func (n *night) yesterday(seats, users int) (coupon uint64) {
	n.t.Helper()
	now := time.Now().In(seoul)
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, seoul)
	opens, closes := midnight.Add(-12*time.Hour), midnight.Add(-time.Hour)
	done, err := n.db.ExecContext(n.t.Context(), "INSERT INTO coupon (name, total_quantity, apply_opens_at, apply_closes_at) VALUES (?, ?, ?, ?)",
		"심야 쿠폰", seats, opens.UTC(), closes.UTC())
	require.NoError(n.t, err)
	id, err := done.LastInsertId()
	require.NoError(n.t, err)
	coupon = uint64(id)
	_, _, err = n.store.Publish(n.t.Context(), candidates.Window{Coupon: coupon, Version: 1, Opens: opens, Closes: closes}, candidates.Promise{})
	require.NoError(n.t, err)

	line := make([]redis.Z, users)
	for i := range line {
		line[i] = redis.Z{Score: float64(opens.Add(time.Duration(i+1) * time.Second).UnixMicro()), Member: strconv.Itoa(i + 1)}
		_, err := n.db.ExecContext(n.t.Context(), "INSERT INTO `user` (id) VALUES (?)", i+1)
		require.NoError(n.t, err)
	}
	require.NoError(n.t, n.rdb.ZAdd(n.t.Context(), queue(coupon), line...).Err())
	require.NoError(n.t, n.rdb.HIncrBy(n.t.Context(), "state:{"+queue(coupon)+"}", "accepted", int64(users)).Err())
	return coupon
}

func queue(coupon uint64) string { return fmt.Sprintf("candidates:coupon:%d", coupon) }

// issued is who holds the coupon, in order of position.
func (n *night) issued(coupon uint64) []int {
	n.t.Helper()
	rows, err := n.db.QueryContext(n.t.Context(), "SELECT user_id FROM user_coupon WHERE coupon_id = ? ORDER BY position", coupon)
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

// mustBeSettled demands that the first in line hold the coupon, each once, and that every invariant holds.
func (n *night) mustBeSettled(coupon uint64, seats int) {
	n.t.Helper()
	first := make([]int, seats)
	for i := range first {
		first[i] = i + 1
	}
	require.True(n.t, slices.Equal(first, n.issued(coupon)), "issued: %v", n.issued(coupon))
	n.mustHold()
}

// holdSeat keeps an uncommitted row in the way of the settlement, of a user in the middle of the line: it comes to stand
// within its transaction, with rows written before. release lets it go on.
func (n *night) holdSeat(coupon uint64, user int) (release func()) {
	n.t.Helper()
	return n.hold("INSERT INTO user_coupon (coupon_id, user_id) VALUES (?, ?)", coupon, user)
}

// holdCoupon holds the row lock that parts settlements.
func (n *night) holdCoupon(coupon uint64) (release func()) {
	n.t.Helper()
	return n.hold("UPDATE coupon SET name = name WHERE id = ?", coupon)
}

func (n *night) hold(query string, args ...any) (release func()) {
	n.t.Helper()
	tx, err := n.db.BeginTx(n.t.Context(), nil)
	require.NoError(n.t, err)
	_, err = tx.Exec(query, args...)
	require.NoError(n.t, err)
	n.t.Cleanup(func() { _ = tx.Rollback() }) // if the test has not come so far
	return func() { require.NoError(n.t, tx.Rollback()) }
}

// awaitLockWaits waits until so many sessions wait for the lock of a row.
func (n *night) awaitLockWaits(sessions int) {
	n.t.Helper()
	testenv.Eventually(n.t, awaitWithin, fmt.Sprintf("%d sessions wait for a lock", sessions), func() bool {
		var waiting int
		err := n.db.QueryRowContext(n.t.Context(), "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'").Scan(&waiting)
		return err == nil && waiting >= sessions
	})
}
