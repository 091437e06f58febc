package wallet_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/wallet"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// A known order comes before a coupon that the user does not have.
func TestReserve_KnownOrderForACouponThatIsNotOwned(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	call := func(verb wallet.Verb, order string) wallet.Code {
		d, err := s.redeem(t.Context(), s.coupons[0], plainCall(verb, order))
		require.NoError(t, err)
		return d.Code
	}
	other := func(order string, user coupon.UserID) wallet.Code {
		wish := plainCall(wallet.Reserve, order)
		wish.User = user
		d, err := s.redeem(t.Context(), s.coupons[0]+100, wish)
		require.NoError(t, err)
		return d.Code
	}
	require.Equal(t, wallet.NotOwned, other("A-1", 1))
	require.Equal(t, wallet.Done, call(wallet.Reserve, "A-1"))
	require.Equal(t, wallet.OrderHasCoupon, other("A-1", 1))
	require.Equal(t, wallet.OrderDiffers, other("A-1", 2))
	require.Equal(t, wallet.Done, call(wallet.Confirm, "A-1"))
	require.Equal(t, wallet.Done, call(wallet.Refund, "A-1"))
	require.Equal(t, wallet.OrderRefunded, other("A-1", 1))
	require.Equal(t, wallet.Done, call(wallet.Reserve, "A-2"))
	require.Equal(t, wallet.Done, call(wallet.Release, "A-2"))
	require.Equal(t, wallet.NotOwned, other("A-2", 1))
}
