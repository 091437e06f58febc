package settle_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/verify"
)

func TestSettle_RecordsApplicationInQueueAndDLQOnce(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(1, 1, 2, 3)
	d.MoveToReview(couponID, "2", coupon.Failure{Retryable: true})
	d.MoveToReview(couponID, "3", coupon.Failure{Cause: "BY_HAND"}) // held
	for member, arrival := range d.UnderReview(couponID) {
		require.NoError(t, d.Redis.ZAdd(t.Context(), d.Queue(couponID),
			redis.Z{Score: float64(arrival), Member: member}).Err())
	}

	d.SettleNow()
	require.Equal(t, []coupon.UserID{2}, d.Outcome(couponID, "NOT_SELECTED"))
	require.Empty(t, d.Waiting(couponID))
	require.Len(t, d.UnderReview(couponID), 1)
	require.Equal(t, "BY_HAND", d.Reason(couponID, "3").Cause)
	require.Equal(t, []verify.Code{verify.PromiseLost}, d.Findings(), "they counted as two applications")
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
	require.Equal(t, []uint64{uint64(report.Run)},
		d.IDs("SELECT run_id FROM settlement WHERE ended_count = 1 AND cleaned_at IS NOT NULL"))
	require.Equal(t, candidates.Rejected, d.Answer(couponID, 2))
	d.Verify()
}

// MySQL is put back to the instant before a run, and gives its id again. Redis still knows what the lost run has moved.
func TestSettle_CountsNothingOfALostRunWithTheSameID(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(2, 1)
	d.SetStatus(jajeongtest.Blocked, 1)
	lost := d.SettleNow().Run
	for _, table := range []string{"settlement", "run_coupon", "settlement_run", "audit_event", "audit_head",
		"settled"} {
		d.Exec("DELETE FROM " + table)
	}
	d.Exec("ALTER TABLE settlement_run AUTO_INCREMENT = 1")

	d.AddUsers(2)
	d.SetStatus(jajeongtest.Blocked, 2)
	d.Apply(couponID, 2)
	report := d.SettleNow()
	require.Equal(t, lost, report.Run)
	require.EqualValues(t, 1, d.Number("SELECT under_review_count FROM settlement"), "user 2")
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

func TestSettle_GivesOneSeatToUserWithTwoApplications(t *testing.T) {
	t.Parallel()
	shared := jajeongtest.New(t)
	shared.AddUsers(between(1, 3000)...)
	for _, seats := range []int{1200, 1500} {
		t.Run(fmt.Sprintf("in a page, %d seats", seats),
			func(t *testing.T) { givesSeatToUserTwiceInPage(shared.For(t), seats) })
	}
	t.Run("in two pages", func(t *testing.T) { givesSeatToUserInTwoPages(shared.For(t)) })
}

// A page is split where a user comes a second time. Its later part was prepared for more seats than are left.
func givesSeatToUserTwiceInPage(d *jajeongtest.Deployment, seats int) {
	couponID := d.AddCoupon(seats)
	d.Apply(couponID, 1)
	d.MoveToReview(couponID, "1", coupon.Failure{Retryable: true})
	d.Apply(couponID, between(2, 11)...)
	d.ApplyAt(couponID, "1", d.Now())
	d.Apply(couponID, between(12, 3000)...)

	d.SettleNow(couponID)
	require.Equal(d.T, between(1, coupon.UserID(seats)), d.Issued(couponID))
	d.Verify(couponID)
}

// Pages are classified ahead of the inserts. A user who is in two pages, as after a loss in Redis, is found at the
// second insert.
func givesSeatToUserInTwoPages(d *jajeongtest.Deployment) {
	const seats, blocked, applicants = 1200, 300, 1500 // the first page has an eighth more applications than seats
	couponID := d.AddCoupon(seats)
	d.SetStatus(jajeongtest.Blocked, between(2, blocked+1)...)
	d.Apply(couponID, 1)
	d.MoveToReview(couponID, "1", coupon.Failure{Retryable: true})
	d.Apply(couponID, between(2, 1400)...)
	d.ApplyAt(couponID, "1", d.Now()) // accepted again by a Redis that had lost the DLQ
	d.Apply(couponID, between(1401, applicants)...)

	d.SettleNow(couponID)
	issued := d.Issued(couponID)
	require.Len(d.T, issued, seats)
	require.EqualValues(d.T, 1, issued[0])
	require.NotContains(d.T, issued[1:], coupon.UserID(1))
	require.Equal(d.T, []coupon.UserID{1}, d.Outcome(couponID, "ALREADY_ISSUED"))
	require.Len(d.T, d.UnderReview(couponID), blocked)
	d.Verify(couponID)
}
