package cli

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
)

// What the model has found, each as short as it can be told.

// A backup brings back an application that has long been settled. It counts once, whether or not a settlement is still
// to be cleaned up, or it makes up for one that is lost.
func TestWhatAFallenBackRedisHoldsOnceMoreHidesNoGap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(9)
	w.users(1, 2, 3)
	w.apply(couponID, 1)
	line, err := w.rdb.Dump(t.Context(), w.queue(couponID)).Result()
	require.NoError(t, err)
	w.settleNow()
	w.apply(couponID, 2)
	require.NoError(t, w.rdb.RestoreReplace(t.Context(), w.queue(couponID), 0, line).Err())
	w.apply(couponID, 3)

	code, report := w.settleNowCode()
	require.Equal(t, 3, code)
	require.Equal(t, coupon.HeldBack, report.Coupons[0].Status)
	require.EqualValues(t, 1, report.Coupons[0].Gap)
	require.Equal(t, []uint64{1}, w.issued(couponID), "user 3 got a seat before anybody knew what became of user 2")
}

// Whose row cannot be stored holds nothing, so that another application of the same user cannot be one of a holder.
func TestWhoIsRefusedByTheDatabaseIsNotRecordedAsAHolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuseOddUsers()
	couponID := w.coupon(1)
	w.users(1, 2)
	w.apply(couponID, 1, 2)
	w.settleNow()
	require.NoError(t, w.rdb.HSet(t.Context(), "state:{"+w.queue(couponID)+"}", "sold", 0).Err()) // as after Redis lost it
	w.apply(couponID, 2)
	w.settleNow()
	require.Equal(t, []uint64{2, 2}, w.outcome(couponID, "NOT_SELECTED"))

	w.exec("INSERT INTO odd_user (id) VALUES (2)")
	w.exec("UPDATE coupon SET total_quantity = 2 WHERE id = ?", couponID)
	w.settleNow()
	require.Empty(t, w.outcome(couponID, "ALREADY_ISSUED"), "user 2 holds nothing")
	w.verify()
}

// diesAfterReview is a line whose process dies when it has put somebody under review.
type diesAfterReview struct{ *candidates.Store }

func (d diesAfterReview) Review(ctx context.Context, couponID coupon.CouponID, run coupon.RunID, at time.Time, failed []coupon.Failure) (int64, error) {
	n, err := d.Store.Review(ctx, couponID, run, at, failed)
	if len(failed) > 0 {
		err = errors.Join(err, crashed{})
	}
	return n, err
}

// Who was not selected before and whose row is refused now is told to Redis before the commit. A crash in between
// leaves the application in both places: a clean-up to come, no violation.
func TestACrashAfterARefusedRowOfSomebodyNotSelectedBeforeViolatesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuseOddUsers()
	couponID := w.coupon(1)
	w.users(1, 2)
	w.apply(couponID, 1, 2)
	w.settleNow()
	w.exec("INSERT INTO odd_user (id) VALUES (2)")
	w.exec("UPDATE coupon SET total_quantity = 2 WHERE id = ?", couponID)

	m := machine{world: w}
	s := m.inProcess()
	s.Line = diesAfterReview{w.store}
	report, err := s.RunOnce(t.Context(), settle.Order{Trigger: coupon.Cron, CutoffNow: true})
	require.NoError(t, err)
	require.Equal(t, coupon.Failed, report.Coupons[0].Status)
	code, verdicts := w.verifyCode()
	require.Zero(t, code, "%+v", verdicts.Coupons[0].Findings)

	w.exec("DELETE FROM odd_user")
	w.settleNow()
	require.Equal(t, []uint64{1, 2}, w.issued(couponID))
	w.verify()
}

// Redis has fallen back: who was not selected stands in the queue again. Refused on return, they are under review alone.
func TestWhoIsRefusedOnReturnDoesNotWaitAsWell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuseOddUsers()
	couponID := w.coupon(1)
	w.users(1, 2)
	w.apply(couponID, 1, 2)
	line, err := w.rdb.Dump(t.Context(), w.queue(couponID)).Result()
	require.NoError(t, err)
	w.settleNow()
	require.NoError(t, w.rdb.RestoreReplace(t.Context(), w.queue(couponID), 0, line).Err())
	w.exec("INSERT INTO odd_user (id) VALUES (2)")
	w.exec("UPDATE coupon SET total_quantity = 2 WHERE id = ?", couponID)
	w.settleNow()
	require.Empty(t, w.waiting(couponID))
	require.Len(t, w.underReview(couponID), 1)
	w.verify()
}

// A run that dies when it has put somebody under review who was not selected before has tried the row: the next counts on.
func TestARowRefusedOnReturnIsCountedByEveryRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuseOddUsers()
	couponID := w.coupon(1)
	w.users(1, 2)
	w.apply(couponID, 1, 2)
	w.settleNow()
	w.exec("INSERT INTO odd_user (id) VALUES (2)")
	w.exec("UPDATE coupon SET total_quantity = 2 WHERE id = ?", couponID)
	m := machine{world: w}
	s := m.inProcess()
	s.Line = diesAfterReview{w.store}
	_, err := s.RunOnce(t.Context(), settle.Order{Trigger: coupon.Cron, CutoffNow: true})
	require.NoError(t, err)
	require.Equal(t, []uint64{2}, w.outcome(couponID, "NOT_SELECTED"))
	require.Equal(t, 1, w.reason(couponID, "2").Refused)
	w.settleNow()
	require.Empty(t, w.outcome(couponID, "NOT_SELECTED"))
	require.Equal(t, 2, w.reason(couponID, "2").Refused)
	w.verify()
}
