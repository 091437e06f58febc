package wallet_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/wallet"
)

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
