package settle_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
)

// The failures that the model test has found, each in its shortest form.

// A backup of Redis restores an application that was settled before. It counts once; otherwise it would hide a lost
// one.
func TestSettle_RestoredApplicationHidesNoGap(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(9)
	d.AddUsers(1, 2, 3)
	d.Apply(couponID, 1)
	line, err := d.Redis.Dump(t.Context(), d.Queue(couponID)).Result()
	require.NoError(t, err)
	d.SettleNow()
	d.Apply(couponID, 2)
	require.NoError(t, d.Redis.RestoreReplace(t.Context(), d.Queue(couponID), 0, line).Err())
	d.Apply(couponID, 3)

	report := d.SettleFailing(coupon.Invariant)
	require.Equal(t, coupon.HeldBack, report.Coupons[0].Status)
	require.EqualValues(t, 1, report.Coupons[0].Gap)
	require.Equal(t, []coupon.UserID{1}, d.Issued(couponID), "user 3 must wait until the loss of user 2 is settled")
}

// A user with a refused row has no coupon, so another application of that user is not ALREADY_ISSUED.
func TestSettle_RefusedRowIsNoHolder(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.RefuseOddUsers()
	couponID := d.AddQueue(1, 1, 2)
	d.SettleNow()
	require.NoError(t, d.Redis.HSet(t.Context(), d.Key("state", couponID), "sold", 0).Err()) // as after a loss in Redis
	d.Apply(couponID, 2)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{2, 2}, d.Outcome(couponID, "NOT_SELECTED"))

	d.Exec("INSERT INTO odd_user (id) VALUES (2)")
	d.SetSeats(couponID, 2)
	d.SettleNow()
	require.Empty(t, d.Outcome(couponID, "ALREADY_ISSUED"), "user 2 has no coupon")
	d.Verify()
}

// A backup of Redis restores an application of a user who is settled at a later arrival: in the queue the two count
// once. In the DLQ they are two, and the excess would hide a lost application.
func TestSettle_CountsForItselfWhoIsReviewedBesideALaterOutcome(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(1, 1, 2)
	first := d.Arrivals(couponID)["1"]
	d.SettleNow()
	require.NoError(t, d.Redis.ZAdd(t.Context(), d.Queue(couponID), redis.Z{Member: "2", Score: float64(first - 1)}).Err())
	d.SettleNow()
	require.Contains(t, d.UnderReview(couponID), "2")
	d.Verify()
	require.Equal(t, "3", d.Redis.HGet(t.Context(), d.Key("state", couponID), "accepted").Val())
}

var errDied = &coupon.Error{Class: coupon.Infrastructure, Err: errors.New("the process died")}

// diesAfterReview is a line whose process dies after it has moved applications to the DLQ.
type diesAfterReview struct{ settle.Line }

func (l diesAfterReview) Review(ctx context.Context, couponID coupon.CouponID, run coupon.RunID, at time.Time,
	failed []coupon.Failure) (int64, error) {
	n, err := l.Line.Review(ctx, couponID, run, at, failed)
	if len(failed) > 0 {
		err = errors.Join(err, errDied)
	}
	return n, err
}

// A backup of Redis restores an application that was not selected. Its row is refused, and it is in the DLQ alone.
func TestSettle_RestoredApplicationWithRefusedRowLeavesQueue(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.RefuseOddUsers()
	couponID := d.AddQueue(1, 1, 2)
	line, err := d.Redis.Dump(t.Context(), d.Queue(couponID)).Result()
	require.NoError(t, err)
	d.SettleNow()
	require.NoError(t, d.Redis.RestoreReplace(t.Context(), d.Queue(couponID), 0, line).Err())
	d.Exec("INSERT INTO odd_user (id) VALUES (2)")
	d.SetSeats(couponID, 2)
	d.SettleNow()
	require.Empty(t, d.Waiting(couponID))
	require.Len(t, d.UnderReview(couponID), 1)
	d.Verify()
}

// The refused row of a user who was not selected before is written to Redis before the COMMIT. After a crash in
// between, the application is in both: a pending clean-up and no violation. The attempt counts.
func TestSettle_CrashAfterRefusedRowViolatesNothing(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.RefuseOddUsers()
	couponID := d.AddQueue(1, 1, 2)
	d.SettleNow()
	d.Exec("INSERT INTO odd_user (id) VALUES (2)")
	d.SetSeats(couponID, 2)

	s := d.Settler()
	s.Line = diesAfterReview{s.Line}
	report, err := s.RunOnce(t.Context(), nightNow)
	require.NoError(t, err)
	require.Equal(t, coupon.Failed, report.Coupons[0].Status)
	require.False(t, d.Check()[0].Violated())
	require.Equal(t, []coupon.UserID{2}, d.Outcome(couponID, "NOT_SELECTED"))
	require.Equal(t, 1, d.Reason(couponID, "2").Refused)

	d.SettleNow()
	require.Empty(t, d.Outcome(couponID, "NOT_SELECTED"))
	require.Equal(t, 2, d.Reason(couponID, "2").Refused)
	d.Verify()
	d.Exec("DELETE FROM odd_user")
	d.SettleNow()
	requireSettled(d, couponID, results{issued: []coupon.UserID{1, 2}})
}
