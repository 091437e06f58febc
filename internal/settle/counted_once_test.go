package settle_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

func TestSettle_GivesOneSeatToUserWithTwoNotSelectedOutcomes(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(1)
	d.AddUsers(between(1, 4)...)
	d.Apply(couponID, 1, 2, 3)
	d.SettleNow()
	require.NoError(t, d.Redis.HSet(t.Context(), d.Key("state", couponID), "sold", 0).Err()) // as after a loss in Redis
	d.Apply(couponID, 2)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{2, 3, 2}, d.Outcome(couponID, "NOT_SELECTED"))

	d.SetSeats(couponID, 4)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2, 3}, d.Issued(couponID))
	require.Equal(t, []coupon.UserID{2}, d.Outcome(couponID, "ALREADY_ISSUED"))
	d.Verify()
}

func TestSettle_RecordsApplicationInQueueAndDLQOnce(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(1, 1, 2, 3)
	d.MoveToReview(couponID, "2", coupon.Failure{Retryable: true})
	d.MoveToReview(couponID, "3", coupon.Failure{Cause: "BY_HAND"}) // held
	for member, arrival := range d.UnderReview(couponID) {
		require.NoError(t, d.Redis.ZAdd(t.Context(), d.Queue(couponID), redis.Z{Score: float64(arrival), Member: member}).Err())
	}

	d.SettleNow()
	require.Equal(t, []coupon.UserID{2}, d.Outcome(couponID, "NOT_SELECTED"))
	require.Empty(t, d.Waiting(couponID))
	require.Len(t, d.UnderReview(couponID), 1)
	require.Equal(t, "BY_HAND", d.Reason(couponID, "3").Cause)
	d.Verify()
}

func TestSettle_ConcurrentRunsCountRejectionsOnce(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(10)
	d.Apply(couponID, between(1, 1200)...) // no such users exist
	var runs sync.WaitGroup
	for range 8 {
		runs.Go(func() {
			_, err := d.Settle(jajeongtest.Manual())
			assert.NoError(t, err)
		})
	}
	runs.Wait()
	require.Len(t, d.UnderReview(couponID), 1200)
	require.EqualValues(t, 1200, d.Number("SELECT SUM(rejected_count) FROM settlement"))
	require.Equal(t, 1, d.Reason(couponID, "600").Attempts)
	d.Verify()
}

func TestSettle_RejectsBlockedUserWhoWasNotSelectedBefore(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(1, 1, 2)
	d.SettleNow()
	d.SetStatus(jajeongtest.Blocked, 2)
	d.SetSeats(couponID, 2)

	report := d.SettleNow()
	require.Equal(t, coupon.Settled, report.Coupons[0].Status)
	require.Equal(t, 1, report.Total.Rejected)
	require.Equal(t, []uint64{uint64(report.Run)}, d.IDs("SELECT run_id FROM settlement WHERE rejected_count = 1 AND cleaned_at IS NOT NULL"))
	require.Equal(t, candidates.Rejected, d.Answer(couponID, 2))
	d.Verify()
}

func TestSettle_FailedCouponDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	broken, held, whole := d.AddCoupon(1), d.AddCoupon(7), d.AddCoupon(1)
	d.AddUsers(1, 2)
	d.Apply(held, 1, 2)
	d.Apply(whole, 1)
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(held), "1").Err())
	state := d.Key("state", broken)
	require.NoError(t, d.Redis.Del(t.Context(), state).Err())
	require.NoError(t, d.Redis.Set(t.Context(), state, "taken by something else", 0).Err())

	report := d.SettleFailing(coupon.Setup, coupon.Invariant)
	require.Equal(t, []coupon.ResultStatus{coupon.Failed, coupon.HeldBack, coupon.Settled},
		[]coupon.ResultStatus{report.Coupons[0].Status, report.Coupons[1].Status, report.Coupons[2].Status})
	require.Equal(t, 7, report.Coupons[1].SeatsLeft, "nothing was issued")
	require.Equal(t, []coupon.UserID{1}, d.Issued(whole))
}

func TestSettle_OverridesParametersOfDSN(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(1, 1, 2, 3)
	d.Job.MySQLDSN += "&autocommit=0&timeTruncate=1s&interpolateParams=false&clientFoundRows=false&multiStatements=true&time_zone=%27%2B09%3A00%27"
	d.SettleNow()
	d.SetSeats(couponID, 3)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2, 3}, d.Issued(couponID))
	require.Empty(t, d.IDs("SELECT id FROM settlement_run WHERE status <> 'SUCCEEDED' OR finished_at IS NULL"))
	d.Verify()
}

func TestRefresh_PublishesSoldOutAfterLossInRedis(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(1, 1)
	d.SettleNow()
	state := d.Key("state", couponID)
	require.NoError(t, d.Redis.Del(t.Context(), state).Err())
	d.Refresh()
	require.Equal(t, candidates.SoldOut, d.Answer(couponID, 2))
}

// Pages are classified ahead of the inserts. A user who is in two pages, as after a loss in Redis, is found at the second
// insert.
func TestSettle_GivesOneSeatToUserInTwoPages(t *testing.T) {
	t.Parallel()
	const seats, blocked, applicants = 1200, 300, 1500 // the first page has an eighth more applications than seats
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(seats)
	d.AddUsers(between(1, applicants)...)
	d.SetStatus(jajeongtest.Blocked, between(2, blocked+1)...)
	d.Apply(couponID, 1)
	d.MoveToReview(couponID, "1", coupon.Failure{Retryable: true})
	d.Apply(couponID, between(2, 1400)...)
	d.ApplyAt(couponID, "1", d.Now()) // accepted again by a Redis that had lost the DLQ
	d.Apply(couponID, between(1401, applicants)...)

	d.SettleNow()
	issued := d.Issued(couponID)
	require.Len(t, issued, seats)
	require.EqualValues(t, 1, issued[0])
	require.NotContains(t, issued[1:], coupon.UserID(1))
	require.Equal(t, []coupon.UserID{1}, d.Outcome(couponID, "ALREADY_ISSUED"))
	require.Len(t, d.UnderReview(couponID), blocked)
	d.Verify()
}

// A user who is twice in a page splits it. The later pages were prepared for more seats than are left.
func TestSettle_GivesNoSeatTooManyAfterUserTwiceInPage(t *testing.T) {
	t.Parallel()
	for _, seats := range []int{1200, 1500} {
		t.Run(strconv.Itoa(seats), func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			couponID := d.AddCoupon(seats)
			d.AddUsers(between(1, 3000)...)
			d.Apply(couponID, 1)
			d.MoveToReview(couponID, "1", coupon.Failure{Retryable: true})
			d.Apply(couponID, between(2, 11)...)
			d.ApplyAt(couponID, "1", d.Now())
			d.Apply(couponID, between(12, 3000)...)

			d.SettleNow()
			require.Equal(t, between(1, coupon.UserID(seats)), d.Issued(couponID))
			d.Verify()
		})
	}
}
