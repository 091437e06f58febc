package e2e

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// yesterday adds a coupon and users who applied for it before the last midnight in Seoul. Users are numbered from 1, in
// order of arrival.
func (n *night) yesterday(seats int, users coupon.UserID) (couponID coupon.CouponID) {
	n.t.Helper()
	year, month, day := time.Now().In(jajeongtest.Zone).Date()
	midnight := time.Date(year, month, day, 0, 0, 0, 0, jajeongtest.Zone)
	opens := midnight.Add(-12 * time.Hour)
	couponID = n.AddCouponBetween(seats, opens, midnight.Add(-time.Hour))
	line := jajeongtest.Between(1, users)
	n.AddUsers(line...)
	queue := make([]redis.Z, len(line))
	for i, user := range line {
		queue[i] = redis.Z{Score: float64(opens.Add(time.Duration(user) * time.Second).UnixMicro()),
			Member: user.Member()}
	}
	require.NoError(n.t, n.Redis.ZAdd(n.t.Context(), n.Queue(couponID), queue...).Err())
	n.AddPromises(couponID, int64(users))
	return couponID
}

// mustBeSettled demands that the first users have the coupon, each once, and that every invariant holds.
func (n *night) mustBeSettled(couponID coupon.CouponID, seats int) {
	n.t.Helper()
	require.Equal(n.t, jajeongtest.Between(1, coupon.UserID(seats)), n.Issued(couponID))
	n.mustHold()
}

// holdMiddle stops a settlement within its transaction, after it has written rows, at the coupon of this user, until
// release.
func (n *night) holdMiddle(user int) (release func()) {
	n.t.Helper()
	n.Exec(fmt.Sprintf(`CREATE TRIGGER middle BEFORE INSERT ON user_coupon FOR EACH ROW
		IF NEW.user_id = %d THEN DO GET_LOCK('middle', 600) + RELEASE_LOCK('middle'); END IF`, user))
	holder, err := n.DB.Conn(n.t.Context())
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
		err := n.DB.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.INNODB_TRX
			JOIN information_schema.PROCESSLIST ON ID = trx_mysql_thread_id WHERE `+where).Scan(&found)
		return err == nil && found >= wanted
	})
}
