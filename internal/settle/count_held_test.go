package settle_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verify"
)

// If issued_count differs from the number of coupons, the coupon is held until a recount. Then the first applications
// get the seats that are free.
func TestSettle_WrongCountHoldsCoupon(t *testing.T) {
	t.Parallel()
	shared := jajeongtest.New(t)
	shared.AddUsers(between(1, 60)...)
	sql := func(statement string) func(*jajeongtest.Deployment, coupon.CouponID) {
		return func(d *jajeongtest.Deployment, id coupon.CouponID) { d.Exec(statement, id) }
	}
	given := func(users ...coupon.UserID) func(*jajeongtest.Deployment, coupon.CouponID) {
		return func(d *jajeongtest.Deployment, id coupon.CouponID) { d.InsertGranted(id, users...) }
	}
	for name, test := range map[string]struct {
		// To a coupon of 10 seats of which 4 are issued.
		do             func(d *jajeongtest.Deployment, id coupon.CouponID)
		counted, found int
		seats          int // to add before the count can be made right
		free           int
	}{
		"count set to 0":                    {sql("UPDATE coupon SET issued_count = 0 WHERE id = ?"), 0, 4, 0, 6},
		"counted too high":                  {sql("UPDATE coupon SET issued_count = 9 WHERE id = ?"), 9, 4, 0, 6},
		"a coupon given by hand, uncounted": {given(50), 4, 5, 0, 5},
		"coupons taken away, still counted": {sql("DELETE FROM user_coupon WHERE coupon_id = ? AND run_id IS NULL"), 5,
			4, 0, 6},
		"more coupons by hand than seats": {given(between(41, 50)...), 4, 14, 5, 1},
		"fewer seats than coupons, uncounted": {func(d *jajeongtest.Deployment, id coupon.CouponID) {
			sql("UPDATE coupon SET issued_count = 0 WHERE id = ?")(d, id)
			d.SetSeats(id, 2)
		}, 0, 4, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := shared.For(t)
			couponID := d.AddCoupon(10)
			d.Apply(couponID, between(1, 4)...)
			d.SettleNow(couponID)
			if test.counted == 5 {
				d.InsertGranted(couponID, 50)
				d.Exec("UPDATE coupon SET issued_count = 5 WHERE id = ?", couponID)
			}
			test.do(d, couponID)
			held := d.Issued(couponID)
			d.Apply(couponID, between(11, 25)...)

			order := jajeongtest.Manual(couponID)
			order.AcceptGap = true
			report := d.SettleAs(order, coupon.Invariant)
			require.Equal(t, coupon.HeldBack, report.Coupons[0].Status)
			for _, said := range []string{fmt.Sprintf(" is %d,", test.counted),
				fmt.Sprintf("user_coupon has %d row", test.found), fmt.Sprintf("settle coupon recount %d ", couponID)} {
				require.Contains(t, report.Coupons[0].Error, said)
			}
			require.Contains(t, d.Findings(couponID), verify.CountWrong)
			preview, err := d.Settler().Preview(t.Context(), jajeongtest.Manual(couponID))
			require.NoError(t, err)
			require.Equal(t, []coupon.Class{coupon.Invariant}, preview.Classes())
			require.Equal(t, held, d.Issued(couponID), "nothing was issued")
			require.EqualValues(t, 15, len(d.Waiting(couponID)))
			require.EqualValues(t, 1,
				d.IDs("SELECT COUNT(*) FROM audit_event WHERE action = 'COUNT_HELD' AND actor = 'kim' AND coupon_id "+
					"= ?", couponID)[0])

			admin := d.CouponAdmin()
			if test.seats > 0 {
				_, err := admin.Recount(t.Context(), couponID)
				require.True(t, text.Is(err, text.RefusedMoreThanSeats), err)
				_, err = admin.AddSeats(t.Context(), couponID, test.seats)
				require.NoError(t, err)
			}
			for _, changed := range []bool{true, false} {
				change, err := admin.Recount(t.Context(), couponID)
				require.NoError(t, err)
				require.Equal(t, changed, change.Changed)
				require.EqualValues(t, test.found, change.After.IssuedCount)
			}

			d.SettleNow(couponID)
			want := between(11, coupon.UserID(10+test.free))
			require.Subset(t, d.Issued(couponID), want, "in order of arrival")
			require.Len(t, d.Issued(couponID), len(held)+test.free)
			d.Verify(couponID)
		})
	}
}
