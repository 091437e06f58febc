package wallet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/wallet"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// checkout is wallet-api in the process of the test, under its account.
type checkout struct {
	*jajeongtest.Deployment
	db     *mysqltx.DB
	coupon coupon.CouponID
}

// newCheckout issues a coupon of 5,000 won to user 1.
func newCheckout(t *testing.T) *checkout {
	t.Helper()
	d := jajeongtest.New(t)
	c := &checkout{Deployment: d, coupon: d.AddQueue(1, 1)}
	d.Exec("UPDATE coupon SET discount_won = 5000 WHERE id = ?", c.coupon)
	d.SettleNow()
	pool, err := d.Wallet.Open(connect.Patient, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	c.db = mysqltx.NewBrief(pool)
	return c
}

func (c *checkout) call(verb wallet.Verb, order string, amount int64) wallet.Decision {
	c.T.Helper()
	d, err := wallet.Redeem(c.T.Context(), c.db, c.coupon,
		wallet.Call{Verb: verb, Actor: "checkout", OrderID: order, User: 1, AmountWon: amount, TTL: time.Minute})
	require.NoError(c.T, err)
	return d
}

// A known order comes before a coupon that the user does not have.
func TestReserve_KnownOrderForACouponThatIsNotOwned(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	other := func(order string, user coupon.UserID) wallet.Code {
		d, err := wallet.Redeem(t.Context(), c.db, c.coupon+100, wallet.Call{Verb: wallet.Reserve, Actor: "checkout", OrderID: order,
			User: user, AmountWon: 12_000, TTL: time.Minute})
		require.NoError(t, err)
		return d.Code
	}
	require.Equal(t, wallet.NotOwned, other("A-1", 1))
	c.call(wallet.Reserve, "A-1", 12_000)
	require.Equal(t, wallet.OrderHasCoupon, other("A-1", 1))
	require.Equal(t, wallet.OrderDiffers, other("A-1", 2))
	c.call(wallet.Confirm, "A-1", 0)
	c.call(wallet.Refund, "A-1", 0)
	require.Equal(t, wallet.OrderRefunded, other("A-1", 1))
	c.call(wallet.Reserve, "A-2", 12_000)
	c.call(wallet.Release, "A-2", 0)
	require.Equal(t, wallet.NotOwned, other("A-2", 1))
}
