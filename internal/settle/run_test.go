package settle_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
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
	return settle.Total{Coupons: t.Coupons, Counts: t.Counts, Failed: t.Failed}
}

func TestSettle_ConcurrentRunsIssueOnce(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	coupons := []coupon.CouponID{d.AddCoupon(30), d.AddCoupon(5), d.AddCoupon(600)}
	line := between(1, 300)
	d.AddUsers(line...)
	for _, c := range coupons {
		d.Apply(c, line...)
	}

	var runs sync.WaitGroup
	reports := make([]*settle.Report, 8)
	for i := range reports {
		runs.Go(func() {
			report, err := d.Settle(jajeongtest.Manual())
			assert.NoError(t, err)
			assert.Empty(t, report.Classes())
			reports[i] = report
		})
	}
	runs.Wait()
	issued, notSelected := 0, 0
	for _, r := range reports {
		issued += r.Total.Issued
		notSelected += r.Total.NotSelected
	}
	require.Equal(t, 30+5+300, issued)
	require.Equal(t, 270+295, notSelected)
	require.Equal(t, line[:30], d.Issued(coupons[0]))
	require.Equal(t, line[:5], d.Issued(coupons[1]))
	require.Equal(t, line, d.Issued(coupons[2]))
	d.Verify()
}

func TestSettle_GivesSeatsOfRejectedUsersToTheNext(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string][3]int{"early": {3, 17, 30}, "at the border": {49, 50, 51}, "behind the last seat": {55, 57, 59}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			couponID := d.AddCoupon(50)
			began := d.Now().Add(-time.Minute)
			arrivals := map[string]coupon.Arrival{}
			var able []coupon.UserID
			for place := range 60 {
				member, arrival := fmt.Sprint(place+1), began.Add(time.Duration(place)*time.Millisecond)
				switch place {
				case bad[0]: // no such user
				case bad[1]:
					d.Exec("INSERT INTO `user` (id, status) VALUES (?, 'BLOCKED')", place+1)
				case bad[2]:
					member = "abc"
				default:
					d.AddUsers(coupon.UserID(place + 1))
					able = append(able, coupon.UserID(place+1))
				}
				d.ApplyAt(couponID, member, arrival)
				arrivals[member] = coupon.ArrivalAt(arrival)
			}

			report := d.SettleNow()
			require.Equal(t, 3, report.Total.UnderReview)
			require.Equal(t, able[:50], d.Issued(couponID))
			require.Equal(t, able[50:], d.Outcome(couponID, "NOT_SELECTED"))
			unknown, blocked := fmt.Sprint(bad[0]+1), fmt.Sprint(bad[1]+1)
			require.Equal(t, map[string]coupon.Arrival{unknown: arrivals[unknown], blocked: arrivals[blocked], "abc": arrivals["abc"]}, d.UnderReview(couponID))
			require.Equal(t, "UNKNOWN_USER", d.Reason(couponID, unknown).Cause)
			require.Equal(t, "INACTIVE_USER", d.Reason(couponID, blocked).Cause)
			require.Contains(t, d.Reason(couponID, blocked).Message, "BLOCKED")
			require.Equal(t, "MALFORMED_USER_ID", d.Reason(couponID, "abc").Cause)
			require.Equal(t, report.Run, d.Reason(couponID, "abc").Run)
			require.False(t, d.Reason(couponID, "abc").Retryable)
			d.Verify()

			require.Equal(t, coupon.Unchanged, d.SettleNow().Coupons[0].Status)
			d.Verify()
		})
	}
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
	d.Exec("INSERT INTO user_coupon (coupon_id, user_id) VALUES (?, 4)", couponID) // by hand
	d.Exec("UPDATE coupon SET total_quantity = 5, issued_count = 3 WHERE id = ?", couponID)
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

func TestSettle_SettlesApplicationsBackInRedisOnce(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(2, between(1, 4)...)
	settleWithoutCleanUp(d, couponID)
	before := d.Snapshot()
	verdict := d.Check()[0]
	require.Zero(t, verdict.Gap)
	for _, f := range verdict.Findings {
		require.True(t, f.Warning, f.Code)
	}

	d.SettleNow()
	require.Empty(t, d.Waiting(couponID))
	d.Verify()
	d.Exec("UPDATE settlement SET cleaned_at = NULL")
	require.Equal(t, before, d.Snapshot())
}

func TestSettle_SweepsAndFinalisesFinishedCoupon(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	now := d.Now()
	couponID := d.AddCouponBetween(1, now.Add(-2*time.Hour), now.Add(time.Hour))
	underReview := d.AddCouponBetween(1, now.Add(-2*time.Hour), now.Add(time.Hour))
	d.AddUsers(1, 2)
	d.Apply(couponID, 1, 2)
	d.Apply(underReview, 1, 99) // there is no user 99
	for _, c := range []coupon.CouponID{couponID, underReview} {
		d.SetWindow(c, now.Add(-2*time.Hour), now.Add(-time.Hour))
	}

	d.SettleNow()
	finalised := d.IDs("SELECT id FROM coupon WHERE finalised_at IS NOT NULL")
	require.Equal(t, []uint64{uint64(couponID)}, finalised)
	require.Zero(t, d.Redis.Exists(t.Context(), d.Queue(couponID), d.Key("issued", couponID)).Val())
	ttl := d.Redis.TTL(t.Context(), d.Key("state", couponID)).Val()
	require.InDelta(t, 600, ttl.Seconds(), 300)
	require.Contains(t, d.UnderReview(underReview), "99")
	d.Verify()

	// Without its state the account is still balanced, and the coupon is not settled again.
	require.NoError(t, d.Redis.Del(t.Context(), d.Key("state", couponID)).Err())
	d.Verify()
	report := d.SettleNow()
	require.Len(t, report.Coupons, 1)
	require.Equal(t, underReview, report.Coupons[0].Coupon)
}

func TestSettle_PagesLongQueueInOrder(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	const applicants, seats, more = 21_500, 345, 20_500 // more than a page each time
	couponID := d.AddCoupon(seats)
	line := between(1, applicants)
	d.AddUsers(line...)
	d.ApplyLine(couponID, line...)

	report := d.SettleNow()
	require.Equal(t, seats, report.Total.Issued)
	require.Equal(t, applicants-seats, report.Total.NotSelected)
	require.Equal(t, line[:seats], d.Issued(couponID))
	d.Verify()

	d.SetSeats(couponID, seats+more)
	report = d.SettleNow()
	require.Equal(t, more, report.Total.Issued)
	require.Equal(t, line[:seats+more], d.Issued(couponID))
	require.Equal(t, line[seats+more:], d.Outcome(couponID, "NOT_SELECTED"))
	d.Verify()
}

func TestSettle_KeepsLargestUserIDs(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	line := []coupon.UserID{math.MaxUint64, 1 << 63, 1<<53 + 1}
	couponID := d.AddQueue(3, line...)
	d.SettleNow()
	require.Equal(t, line, d.Issued(couponID))
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

func TestSettle_GivesNextFreeSeatToPassedOverUser(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(2, between(1, 4)...)
	d.SetStatus(jajeongtest.Blocked, 2)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 3}, d.Issued(couponID))

	// As if the run had died before it moved user 2 to the DLQ. The user is unblocked before the next run.
	arrival := d.UnderReview(couponID)["2"]
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Key("dlq", couponID), "2").Err())
	require.NoError(t, d.Redis.ZAdd(t.Context(), d.Queue(couponID), redis.Z{Score: float64(arrival), Member: "2"}).Err())
	d.Exec("UPDATE settlement SET cleaned_at = NULL")
	d.SetStatus(jajeongtest.Active, 2)

	d.SettleNow()
	require.Equal(t, map[string]coupon.Arrival{"2": arrival}, d.UnderReview(couponID))
	require.Equal(t, "PASSED_OVER", d.Reason(couponID, "2").Cause)
	require.Equal(t, []coupon.UserID{4}, d.Outcome(couponID, "NOT_SELECTED"))
	d.Verify()

	d.SetSeats(couponID, 3)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 3, 2}, d.Issued(couponID))
	require.Empty(t, d.UnderReview(couponID))
	d.Verify()
}

func TestSettle_IncludesRetryableDLQEntriesInOrder(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(3, between(1, 5)...)
	page, _, err := d.Store.Page(t.Context(), couponID, coupon.Cursor{}, d.Now())
	require.NoError(t, err)
	_, err = d.Store.Review(t.Context(), couponID, 0, time.Time{}, []coupon.Failure{
		{Application: page[0], Cause: "DATABASE_AWAY", Retryable: true},
		{Application: page[1], Cause: "UNKNOWN_USER"},
		{Application: page[4], Cause: "DATABASE_AWAY", Retryable: true},
	})
	require.NoError(t, err)

	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 3, 4}, d.Issued(couponID))
	require.Equal(t, []coupon.UserID{5}, d.Outcome(couponID, "NOT_SELECTED"))
	require.Equal(t, map[string]coupon.Arrival{"2": page[1].Arrival}, d.UnderReview(couponID))
	d.Verify()
}
