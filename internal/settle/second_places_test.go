package settle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// newSecondPlace returns a coupon whose only seat user 1 has. Users 2 to 4 have NOT_SELECTED records, and user 2 a
// second one.
func newSecondPlace(t *testing.T) (*jajeongtest.Deployment, coupon.CouponID) {
	t.Helper()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(1)
	d.AddUsers(between(1, 5)...)
	d.Apply(couponID, between(1, 4)...)
	d.SettleNow()
	require.Equal(t, between(2, 4), d.Outcome(couponID, "NOT_SELECTED"))
	d.Exec("INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, run_id, recorded_at) SELECT " +
		"coupon_id, 2, applied_at + INTERVAL 1 MICROSECOND, outcome, run_id, recorded_at " +
		"FROM application_outcome WHERE user_id = 4") // as after Redis lost that the coupon is sold out
	d.AddPromises(couponID, 1)
	d.Exec("UPDATE settled SET concluded = concluded + 1 WHERE coupon_id = ?", couponID)
	return d, couponID
}

// Between the two records, in the same page, a refused row leaves its seat to a later application.
func TestSettle_SecondPlaceBehindRefusedRow(t *testing.T) {
	t.Parallel()
	d, couponID := newSecondPlace(t)
	d.RefuseRows("user_coupon", 3)
	d.SetSeats(couponID, 4)
	d.SettleNow()
	requireSettled(d, couponID, results{
		issued: []coupon.UserID{1, 2, 4}, alreadyIssued: []coupon.UserID{2}, review: []string{"3"},
	})
}

// MySQL refuses the row of the first application. The second one ends as if it were in another page.
func TestSettle_RejectsSecondPlaceOfRefusedRow(t *testing.T) {
	t.Parallel()
	d, couponID := newSecondPlace(t)
	d.RefuseRows("user_coupon", 2)
	d.SetSeats(couponID, 4)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 3, 4}, d.Issued(couponID))
	require.Equal(t, []coupon.UserID{2}, d.Outcome(couponID, "REJECTED"))
	require.Contains(t, d.UnderReview(couponID), "2")
	require.Empty(t, d.Outcome(couponID, "NOT_SELECTED"), "a free seat goes to newcomers again")
	d.Verify(couponID)
}

// The same user is in the DLQ and in the queue. The row of the first place is refused.
func TestSettle_SecondPlaceOfRefusedRowWaits(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(3)
	d.AddUsers(between(1, 3)...)
	d.Apply(couponID, 1)
	d.MoveToReview(couponID, "1", coupon.Failure{Retryable: true})
	first := d.UnderReview(couponID)
	d.Apply(couponID, 2)
	d.ApplyAt(couponID, "1", d.Now()) // accepted again by a Redis that had lost the DLQ
	d.Apply(couponID, 3)

	allow := d.RefuseRows("user_coupon", 1)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{2, 3}, d.Issued(couponID))
	require.Equal(t, first, d.UnderReview(couponID))
	require.Equal(t, []string{"1"}, d.Waiting(couponID))
	allow()
	d.SettleNow()
	requireSettled(d, couponID, results{issued: []coupon.UserID{2, 3, 1}, alreadyIssued: []coupon.UserID{1}})
}
