package wallet_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/wallet"
)

func TestDecide_OrderOfAnotherUserCouponOrAmount(t *testing.T) {
	t.Parallel()
	order := wallet.Order{ID: "A", UserCoupon: 2, User: 1, AmountWon: 12_000, State: coupon.OrderReserved,
		ReservedUntil: at(11)}
	f := wallet.Facts{Now: at(10), Discount: coupon.Discount{DiscountWon: 5000, MinimumWon: 10_000},
		Coupon: wallet.UserCoupon{ID: 1, User: 1, Status: coupon.CouponIssued, ExpiresAt: at(11)}, Order: order}
	call := wallet.Call{Verb: wallet.Reserve, OrderID: "A", User: 1, AmountWon: 12_000}
	require.Equal(t, wallet.OrderHasCoupon, wallet.Decide(f, call).Code)
	call.User = 2
	require.Equal(t, wallet.OrderDiffers, wallet.Decide(f, call).Code)
	for _, state := range []coupon.OrderState{coupon.OrderReleased, coupon.OrderRefunded} {
		f.Order.State = state
		require.Equal(t, wallet.OrderDiffers, wallet.Decide(f, call).Code)
	}
	f.Order, call.User, call.AmountWon = wallet.Order{}, 1, 9_999
	small := wallet.Decide(f, call)
	require.Equal(t, []any{wallet.BelowMinimum, int64(10_000)}, []any{small.Code, small.MinimumWon})
	call.AmountWon = 10_000
	require.Equal(t, wallet.Done, wallet.Decide(f, call).Code)
}
