package review_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/review"
	"github.com/jajeong/jajeong/internal/settle"
)

// An operator confirms what the preview shows. The run settles nothing else, although other coupons could be settled by
// then.
func TestPin_LeavesOutCouponsThatPreviewDoesNotShow(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1)
	add := func() coupon.CouponID {
		couponID := d.AddCoupon(2)
		d.ApplyAt(couponID, "1", d.Now().Add(-time.Minute))
		d.AddPromises(couponID, 1) // lost
		return couponID
	}
	shown, held := add(), add()
	later := d.AddCouponBetween(2, d.Now().Add(time.Hour), d.Now().Add(2*time.Hour))
	d.Exec("UPDATE coupon SET issued_count = 1 WHERE id = ?", held)
	for _, coupons := range [][]coupon.CouponID{nil, {shown, held, later}} {
		order := jajeongtest.Manual(coupons...)
		order.AcceptGap = true
		preview, err := d.Settler().Preview(t.Context(), order)
		require.NoError(t, err)
		require.Equal(t, []coupon.CouponID{held}, review.Pin(&order, preview))
		require.Equal(t, []coupon.CouponID{shown}, order.Coupons)
		require.Equal(t, map[coupon.CouponID]string{shown: preview.Coupons[0].Preview.Digest}, order.Expect)
	}

	order := jajeongtest.Manual()
	order.AcceptGap = true
	preview, err := d.Settler().Preview(t.Context(), order)
	require.NoError(t, err)
	review.Pin(&order, preview)
	d.Exec("UPDATE coupon SET issued_count = 0 WHERE id = ?", held)
	created := add()
	report := d.SettleAs(order)
	require.Len(t, report.Coupons, 1)
	require.Equal(t, []coupon.CouponID{shown},
		jajeongtest.Column[coupon.CouponID](d, "SELECT coupon_id FROM settled WHERE written_off > 0"))
	for couponID, want := range map[coupon.CouponID]int{shown: 1, held: 0, created: 0} {
		require.Len(t, d.Issued(couponID), want)
	}
}

// A preview that shows no coupon pins a run of none, not of all.
func TestPin_OfPreviewWithoutCouponSettlesNone(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	order := jajeongtest.Manual()
	review.Pin(&order, &settle.Report{Cutoff: d.Now()})
	d.AddCoupon(2)
	require.Empty(t, d.SettleAs(order).Coupons)
}
