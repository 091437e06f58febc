package settle_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/candidates"
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
	require.Equal(t, settle.Total{Coupons: 1, Counts: settle.Counts{Read: 30, Issued: 10, NotSelected: 20}}, counts(report.Total))
	require.Equal(t, line[:10], d.Issued(couponID))
	require.Equal(t, line[10:], d.Outcome(couponID, "NOT_SELECTED"))
	require.Empty(t, d.Waiting(couponID))
	d.Verify()

	before := d.Snapshot()
	again := d.SettleNow()
	require.Equal(t, coupon.Unchanged, again.Coupons[0].Status)
	require.Equal(t, before, d.Snapshot())
}

// counts are a total without times.
func counts(t settle.Total) settle.Total {
	return settle.Total{Coupons: t.Coupons, Counts: t.Counts, Unsettled: t.Unsettled}
}

func TestSettle_GivesSeatsOfRejectedUsersToTheNext(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(5)
	d.AddUsers(1, 2, 3, 4, 6, 8, 9, 10, 11)
	d.SetStatus(jajeongtest.Blocked, 6)
	began := d.Now().Add(-time.Minute)
	for place, member := range []string{"1", "2", "3", "4", "5", "6", "abc", "8", "9", "10", "11"} {
		d.ApplyAt(couponID, member, began.Add(time.Duration(place)*time.Millisecond))
	}
	arrivals := d.Arrivals(couponID)

	report := d.SettleNow()
	require.Equal(t, 3, report.Total.UnderReview)
	require.Equal(t, []coupon.UserID{1, 2, 3, 4, 8}, d.Issued(couponID))
	require.Equal(t, between(9, 11), d.Outcome(couponID, "NOT_SELECTED"))
	require.Equal(t, map[string]coupon.Arrival{"5": arrivals["5"], "6": arrivals["6"], "abc": arrivals["abc"]}, d.UnderReview(couponID))
	require.Equal(t, "UNKNOWN_USER", d.Reason(couponID, "5").Cause)
	require.Equal(t, "INACTIVE_USER", d.Reason(couponID, "6").Cause)
	require.Contains(t, d.Reason(couponID, "6").Note, "BLOCKED")
	require.Equal(t, "MALFORMED_USER_ID", d.Reason(couponID, "abc").Cause)
	require.Equal(t, report.Run, d.Reason(couponID, "abc").Run)
	require.False(t, d.Reason(couponID, "abc").Retryable)
	d.Verify()

	require.Equal(t, coupon.Unchanged, d.SettleNow().Coupons[0].Status)
	d.Verify()
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
	require.Equal(t, []coupon.UserID{1}, d.Issued(couponID))
	require.Equal(t, []string{"2"}, d.Waiting(couponID))
	d.Verify()

	settleDay(midnight.Add(time.Hour))
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(couponID))
	var appliedAt time.Time
	require.NoError(t, d.DB.QueryRow("SELECT applied_at FROM user_coupon WHERE user_id = 1").Scan(&appliedAt))
	require.Equal(t, midnight.Add(-time.Microsecond).UTC(), appliedAt)
	d.Verify()
}

func TestSettle_GivesAddedSeatsToNotSelectedUsersFirst(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(2)
	d.AddUsers(between(1, 9)...)
	d.Apply(couponID, between(1, 8)...)
	d.SettleNow()
	require.Equal(t, candidates.SoldOut, d.Answer(couponID, 9))

	d.SetStatus(jajeongtest.Blocked, 3)
	d.InsertGranted(couponID, 4)
	d.SetSeats(couponID, 5)
	d.Exec("UPDATE coupon SET issued_count = 3 WHERE id = ?", couponID)
	d.SettleNow()
	require.ElementsMatch(t, []coupon.UserID{1, 2, 4, 5, 6}, d.Issued(couponID))
	require.Equal(t, []coupon.UserID{3}, d.Outcome(couponID, "REJECTED"))
	require.Equal(t, []coupon.UserID{4}, d.Outcome(couponID, "ALREADY_ISSUED"))
	require.Equal(t, []coupon.UserID{7, 8}, d.Outcome(couponID, "NOT_SELECTED"))
	d.Verify()

	// With seats for all, users can apply again.
	d.SetSeats(couponID, 20)
	d.SettleNow()
	require.Empty(t, d.Outcome(couponID, "NOT_SELECTED"))
	d.Apply(couponID, 9)
	d.SettleNow()
	require.Contains(t, d.Issued(couponID), coupon.UserID(9))
	d.Verify()
}

// No winner waits until the outcomes of another coupon's long line are recorded. They are recorded page by page, and no transaction
// is in progress between two pages.
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
	require.Equal(t, line[seats:seats+first.NotSelected], d.Outcome(long, "NOT_SELECTED"), "what is reported is recorded")
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
	require.Equal(t, line[:seats+more], d.Issued(long))
	require.Equal(t, line[seats+more:], d.Outcome(long, "NOT_SELECTED"))
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
	require.Equal(t, []string{"1"}, d.Waiting(couponID))
	require.Empty(t, d.Issued(couponID))

	release()
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1}, d.Issued(couponID))
	d.Verify()
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
