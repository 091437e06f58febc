package wallet_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/wallet"
)

func TestRedeem_OneOf200OrdersGetsTheCoupon(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	var mu sync.Mutex
	codes := map[wallet.Code]int{}
	var group sync.WaitGroup
	for n := range 200 {
		group.Go(func() {
			d, err := s.redeem(t.Context(), s.coupons[0],
				wallet.Call{Verb: wallet.Reserve, Actor: "test", OrderID: fmt.Sprint("O-", n), User: 1, AmountWon: 12_000, TTL: liveFor})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			codes[d.Code]++
		})
	}
	group.Wait()
	require.Equal(t, map[wallet.Code]int{wallet.Done: 1, wallet.ReservedElsewhere: 199}, codes)
	s.requireSame(1, nil)
}

// One order asks for all coupons at once. Every second order had a coupon before and gave it back.
func TestRedeem_OneOrderGetsOneCoupon(t *testing.T) {
	t.Parallel()
	const users = 12
	s := newShop(t, users)
	for user := coupon.UserID(1); user <= users; user++ {
		if user%2 == 0 {
			for _, verb := range []wallet.Verb{wallet.Reserve, wallet.Release} {
				_, err := s.call(t.Context(), user, op{verb: verb, amount: 12_000, ttl: 1})
				require.NoError(t, err)
			}
		}
		var group sync.WaitGroup
		codes := make([]wallet.Code, modelCoupons)
		for i := range codes {
			group.Go(func() {
				var err error
				if codes[i], err = s.call(t.Context(), user, op{verb: wallet.Reserve, coupon: i, amount: 12_000, ttl: 1}); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		require.ElementsMatch(t, []wallet.Code{wallet.Done, wallet.OrderHasCoupon, wallet.OrderHasCoupon}, codes)
		s.requireSame(user, nil)
	}
}

// A call that waits for the row past the end of a reservation sees that it has run out.
func TestRedeem_ReadsTheClockAfterTheLock(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	code, err := s.call(t.Context(), 1, op{verb: wallet.Reserve, amount: 12_000, ttl: 1})
	require.NoError(t, err)
	require.Equal(t, wallet.Done, code)
	tx, err := s.DB.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec("SELECT id FROM user_coupon FOR UPDATE /* by the test */")
	require.NoError(t, err)
	var group sync.WaitGroup
	group.Go(func() {
		code, err = s.call(t.Context(), 1, op{verb: wallet.Reserve, order: 1, amount: 12_000, ttl: 1})
		for mysqltx.IsLockWait(err) { // this machine took longer than a call waits for a lock
			code, err = s.call(t.Context(), 1, op{verb: wallet.Reserve, order: 1, amount: 12_000, ttl: 1})
		}
	})
	s.AwaitLockWait() // the call began before the end
	s.Exec("UPDATE coupon_order SET reserved_until = UTC_TIMESTAMP(6)")
	require.NoError(t, tx.Rollback())
	group.Wait()
	require.NoError(t, err)
	require.Equal(t, wallet.Done, code)
}

// The search for the coupon of an order does not wait for the order's row.
func TestRedeem_SearchTakesNoLockOnTheOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	for order := range 2 {
		_, err := s.call(t.Context(), 1, op{verb: wallet.Reserve, order: order, coupon: order, amount: 12_000, ttl: 1})
		require.NoError(t, err)
	}
	_, err := s.call(t.Context(), 1, op{verb: wallet.Confirm, order: 0})
	require.NoError(t, err)
	tx, err := s.DB.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec("SELECT order_id FROM coupon_order FOR UPDATE")
	require.NoError(t, err)
	code, err := s.call(t.Context(), 1, op{verb: wallet.Confirm, order: 0}) // writes nothing
	require.NoError(t, err)
	require.Equal(t, wallet.Repeated, code)
}
