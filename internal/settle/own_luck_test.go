package settle_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// A proxy cuts the connection at each statement of one coupon. The server works, and the other coupons are settled.
func TestSettle_ConnectionLossOfOneCouponDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	d := jajeongtest.NewOnPrivateRedis(t)
	d.AddUsers(1, 2)
	var coupons []coupon.CouponID
	for range 3 {
		couponID := d.AddCoupon(1)
		d.Apply(couponID, 1, 2)
		coupons = append(coupons, couponID)
	}
	unlucky := fmt.Appendf(nil, "SELECT %d, j.user_id, 0 + ", coupons[0])
	_, proxied := d.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if turn.Proxy == jajeongtest.ToMySQL && bytes.Contains(turn.Request, unlucky) {
			return faultproxy.DropRequest(nil)
		}
		return faultproxy.Pass()
	})
	s := proxied.Settler(func(s *settle.Settler) { s.Parallel = 1 })
	report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
	require.NoError(t, err)
	require.Equal(t, []coupon.Class{coupon.Infrastructure}, report.Classes())
	requireResults(d, coupons[0], results{waiting: []string{"1", "2"}}, "MySQL is not away")
	require.Equal(t, []coupon.UserID{1}, d.Issued(coupons[1]))
	require.Equal(t, []coupon.UserID{1}, d.Issued(coupons[2]))
	require.Empty(t, d.IDs("SELECT id FROM settlement_run WHERE status = 'RUNNING'"))

	d.SettleNow()
	requireSettled(d, coupons[0], results{issued: []coupon.UserID{1}, notSelected: []coupon.UserID{2}})
}

func TestRetry_IsAuditedOnceAfterLostCommitReply(t *testing.T) {
	t.Parallel()
	d := jajeongtest.NewOnPrivateRedis(t)
	d.AddUsers(1)
	couponID := d.AddCoupon(1)
	d.Apply(couponID, 2)
	d.SettleNow()
	lost := false
	_, proxied := d.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if turn.Proxy == jajeongtest.ToMySQL && bytes.HasSuffix(turn.Request, []byte("\x03COMMIT")) && !lost {
			lost = true
			return faultproxy.DropReply(nil)
		}
		return faultproxy.Pass()
	})
	proxied.Retry(couponID, "2")
	require.True(t, lost)
	require.Len(t, d.IDs("SELECT id FROM audit_event WHERE action = 'DLQ_RETRIED' AND run_id IS NOT NULL"), 1)
}

// A score with a fraction is on one side of a boundary.
func TestVerify_CountsFractionalArrivalOnce(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(2, between(1, 5)...)
	d.SettleNow()
	var last time.Time
	require.NoError(t, d.DB.QueryRow("SELECT MAX(applied_at) FROM application_outcome").Scan(&last))
	require.NoError(t, d.Redis.ZAdd(t.Context(), d.Queue(couponID),
		redis.Z{Score: float64(last.UnixMicro()) + 0.5, Member: "77"}).Err())
	require.NoError(t, d.Redis.ZAdd(t.Context(), d.Queue(couponID),
		redis.Z{Score: float64(last.UnixMicro() - 10), Member: "78"}).Err())
	verdict := d.Check()[0]
	require.EqualValues(t, 2, verdict.Account.Waiting)
	require.EqualValues(t, -2, verdict.Gap)
}
