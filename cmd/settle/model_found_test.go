package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/settle"
)

// What the model has found, each as short as it can be told.

// A backup brings back an application that has long been settled. It counts once, whether or not a settlement is still
// to be cleaned up, or it makes up for one that is lost.
func TestWhatAFallenBackRedisHoldsOnceMoreHidesNoGap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(9)
	w.users(1, 2, 3)
	w.apply(coupon, 1)
	line, err := w.rdb.Dump(t.Context(), w.queue(coupon)).Result()
	require.NoError(t, err)
	w.settleNow()
	w.apply(coupon, 2)
	require.NoError(t, w.rdb.RestoreReplace(t.Context(), w.queue(coupon), 0, line).Err())
	w.apply(coupon, 3)

	code, report := w.settleNowCode()
	require.Equal(t, 3, code)
	require.Equal(t, settle.HeldBack, report.Coupons[0].Status)
	require.EqualValues(t, 1, report.Coupons[0].Gap)
	require.Equal(t, []uint64{1}, w.issued(coupon), "user 3 got a seat before anybody knew what became of user 2")
}

// Whose row cannot be stored holds nothing, so that another application of the same user cannot be one of a holder.
func TestWhoIsRefusedByTheDatabaseIsNotRecordedAsAHolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuseOddUsers()
	coupon := w.coupon(1)
	w.users(1, 2)
	w.apply(coupon, 1, 2)
	w.settleNow()
	require.NoError(t, w.rdb.HSet(t.Context(), "state:{"+w.queue(coupon)+"}", "sold", 0).Err()) // as after Redis lost it
	w.apply(coupon, 2)
	w.settleNow()
	require.Equal(t, []uint64{2, 2}, w.outcome(coupon, "NOT_SELECTED"))

	w.exec("INSERT INTO odd_user (id) VALUES (2)")
	w.exec("UPDATE coupon SET total_quantity = 2 WHERE id = ?", coupon)
	w.settleNow()
	require.Empty(t, w.outcome(coupon, "ALREADY_ISSUED"), "user 2 holds nothing")
	w.verify()
}

// diesAfterReview is a line whose process dies when it has put somebody under review.
type diesAfterReview struct{ line }

func (d diesAfterReview) Review(ctx context.Context, coupon, run uint64, at time.Time, failed []settle.Failure) (int64, error) {
	n, err := d.line.Review(ctx, coupon, run, at, failed)
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
	coupon := w.coupon(1)
	w.users(1, 2)
	w.apply(coupon, 1, 2)
	w.settleNow()
	w.exec("INSERT INTO odd_user (id) VALUES (2)")
	w.exec("UPDATE coupon SET total_quantity = 2 WHERE id = ?", coupon)

	m := machine{world: w}
	s := m.inProcess()
	s.Line = diesAfterReview{line{w.store}}
	report, err := s.RunOnce(t.Context(), settle.Order{Trigger: settle.Cron, CutoffNow: true})
	require.NoError(t, err)
	require.Equal(t, settle.Failed, report.Coupons[0].Status)
	code, verdicts := w.verifyCode()
	require.Zero(t, code, "%+v", verdicts.Coupons[0].Findings)

	w.exec("DELETE FROM odd_user")
	w.settleNow()
	require.Equal(t, []uint64{1, 2}, w.issued(coupon))
	w.verify()
}

// Redis has fallen back: who was not selected stands in the queue again. Refused on return, they are under review alone.
func TestWhoIsRefusedOnReturnDoesNotWaitAsWell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuseOddUsers()
	coupon := w.coupon(1)
	w.users(1, 2)
	w.apply(coupon, 1, 2)
	line, err := w.rdb.Dump(t.Context(), w.queue(coupon)).Result()
	require.NoError(t, err)
	w.settleNow()
	require.NoError(t, w.rdb.RestoreReplace(t.Context(), w.queue(coupon), 0, line).Err())
	w.exec("INSERT INTO odd_user (id) VALUES (2)")
	w.exec("UPDATE coupon SET total_quantity = 2 WHERE id = ?", coupon)
	w.settleNow()
	require.Empty(t, w.waiting(coupon))
	require.Len(t, w.underReview(coupon), 1)
	w.verify()
}

// A run that dies when it has put somebody under review who was not selected before has tried the row: the next counts on.
func TestARowRefusedOnReturnIsCountedByEveryRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuseOddUsers()
	coupon := w.coupon(1)
	w.users(1, 2)
	w.apply(coupon, 1, 2)
	w.settleNow()
	w.exec("INSERT INTO odd_user (id) VALUES (2)")
	w.exec("UPDATE coupon SET total_quantity = 2 WHERE id = ?", coupon)
	m := machine{world: w}
	s := m.inProcess()
	s.Line = diesAfterReview{line{w.store}}
	_, err := s.RunOnce(t.Context(), settle.Order{Trigger: settle.Cron, CutoffNow: true})
	require.NoError(t, err)
	require.Equal(t, []uint64{2}, w.outcome(coupon, "NOT_SELECTED"))
	require.Equal(t, 1, w.reason(coupon, "2").Refused)
	w.settleNow()
	require.Empty(t, w.outcome(coupon, "NOT_SELECTED"))
	require.Equal(t, 2, w.reason(coupon, "2").Refused)
	w.verify()
}
