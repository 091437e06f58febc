package settle_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/verify"
)

func TestSettle_IssuesLowestArrivalsAndRepetitionChangesNothing(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	line := between(1, 30)
	slices.Reverse(line) // the order of arrivals is not the order of ids
	couponID := d.AddQueue(10, line...)
	d.Verify()

	report := d.SettleNow()
	require.Equal(t, settle.Total{Coupons: 1, Counts: settle.Counts{Read: 30, Issued: 10, NotSelected: 20}},
		counts(report.Total))
	requireSettled(d, couponID, results{issued: line[:10], notSelected: line[10:]})

	before := d.Snapshot()
	again := d.SettleNow()
	require.Equal(t, coupon.Unchanged, again.Coupons[0].Status)
	require.Equal(t, before, d.Snapshot())
}

// counts are a total without times.
func counts(t settle.Total) settle.Total {
	return settle.Total{Coupons: t.Coupons, Counts: t.Counts, Unsettled: t.Unsettled}
}

func TestSettle_CutoffIsExclusiveToTheMicrosecond(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	zone := d.Noon()
	midnight := calendar.DefaultCutoff(d.Now().Add(-24*time.Hour), zone)
	couponID := d.AddCouponBetween(10, midnight.Add(-24*time.Hour), midnight.Add(48*time.Hour))
	d.AddUsers(1, 2)
	d.ApplyAt(couponID, "1", midnight.Add(-time.Microsecond)) // 23:59:59.999999
	d.ApplyAt(couponID, "2", midnight)                        // 00:00:00.000000

	settleDay := func(of time.Time) {
		t.Helper()
		cutoff, err := calendar.DateCutoff(of.In(zone).Format(time.DateOnly), zone)
		require.NoError(t, err)
		d.SettleAs(jajeongtest.Nightly(cutoff))
	}
	settleDay(midnight.Add(-time.Hour))
	requireSettled(d, couponID, results{issued: []coupon.UserID{1}, waiting: []string{"2"}})

	settleDay(midnight.Add(time.Hour))
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(couponID))
	var appliedAt time.Time
	require.NoError(t, d.DB.QueryRow("SELECT applied_at FROM user_coupon WHERE user_id = 1").Scan(&appliedAt))
	require.Equal(t, midnight.Add(-time.Microsecond).UTC(), appliedAt)
	d.Verify()
}

// No winner waits until the outcomes of another coupon's long line are recorded. They are recorded page by page, and no
// transaction is in progress between two pages.
func TestSettle_RecordsLongLineAfterOtherCouponsPageByPage(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	const applicants, seats, more = 21_500, 345, 20_500 // more than a page each time
	long, short := d.AddCoupon(seats), d.AddCoupon(2)
	line := between(1, applicants)
	d.AddUsers(line...)
	d.ApplyLine(long, line...)
	d.Apply(short, 1, 2, 3)
	type begun struct {
		couponID coupon.CouponID
		step     settle.Step
	}
	var steps []begun
	stopping, stop := context.WithCancel(t.Context())
	s := oneByOne(d)
	s.Grace = time.Hour
	s.Hook = func(couponID coupon.CouponID, step settle.Step) { steps = append(steps, begun{couponID, step}) }
	s.Progress = func(c coupon.Coupon, applications int) {
		if c.ID == long && applications > seats { // a page without seats
			stop()
		}
	}
	report, err := s.RunOnce(stopping, jajeongtest.Manual())
	require.ErrorIs(t, err, context.Canceled)
	at := func(couponID coupon.CouponID, step settle.Step) int {
		require.Contains(t, steps, begun{couponID, step})
		return slices.Index(steps, begun{couponID, step})
	}
	require.Less(t, at(long, settle.StepCleanUp), at(short, settle.StepIssue))
	require.Less(t, at(short, settle.StepFinish), at(long, settle.StepCloseOut))
	require.Equal(t, 1, report.Coupons[1].NotSelected)

	first := report.Coupons[0]
	require.Equal(t, line[:seats], d.Issued(long))
	require.Equal(t, line[seats:seats+first.NotSelected], d.Outcome(long, "NOT_SELECTED"),
		"what is reported is recorded")
	require.Positive(t, first.NotSelected)
	require.Len(t, d.Waiting(long), applicants-seats-first.NotSelected)
	require.NotEmpty(t, d.Waiting(long))
	require.Equal(t, []verify.Code{verify.CleanUpToDo}, d.Findings())

	report = d.SettleNow()
	require.Equal(t, applicants-seats, first.NotSelected+report.Total.NotSelected)
	require.Equal(t, line[seats:], d.Outcome(long, "NOT_SELECTED"))
	require.Empty(t, d.Waiting(long))
	d.Verify()

	d.SetSeats(long, seats+more)
	report = d.SettleNow()
	require.Equal(t, more, report.Total.Issued)
	requireResults(d, long, results{issued: line[:seats+more], notSelected: line[seats+more:]})
	d.Verify()
}

func TestSettle_LeavesLockedCouponUnchangedWhenStopped(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(3, 1)
	release := d.Lock(couponID)

	// The run is stopped while it waits for the lock.
	ctx, cancel := context.WithCancel(t.Context())
	s := d.Settler(func(s *settle.Settler) { s.Grace = time.Millisecond })
	ended := make(chan error)
	go func() {
		_, err := s.RunOnce(ctx, jajeongtest.Manual())
		ended <- err
	}()
	d.AwaitLockWait()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	requireResults(d, couponID, results{waiting: []string{"1"}})

	release()
	d.SettleNow()
	requireSettled(d, couponID, results{issued: []coupon.UserID{1}})
}

// An entry that a person wrote at the arrival 0 hides no other winner of its run from the reports.
func TestSettle_RecordsTheArrivalZero(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(9, 1, 2)
	d.AddUsers(3)
	d.ApplyAt(couponID, "3", time.UnixMicro(0))
	d.SettleNow()
	require.Equal(t, []coupon.UserID{3, 1, 2}, d.Issued(couponID))
	require.EqualValues(t, 1, d.Number("SELECT COUNT(*) FROM settlement WHERE first_arrival = 0 AND last_arrival > 0"))
}
