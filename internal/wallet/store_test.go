package wallet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/wallet"
)

// meddler runs do once, before MySQL gets the next statement with the text.
type meddler struct {
	text []byte
	do   func()
}

func newMeddledShop(t *testing.T) (s *shop, meddle func(text string, do func())) {
	t.Helper()
	s = newShop(t, 2)
	direct := s.db
	var next atomic.Pointer[meddler]
	s.connectThrough(func(turn faultproxy.Turn) faultproxy.Action {
		if m := next.Load(); m != nil && bytes.Contains(turn.Request, m.text) {
			next.Store(nil)
			m.do()
		}
		return faultproxy.Pass()
	})
	s.db = direct
	return s, func(text string, do func()) {
		next.Store(&meddler{[]byte(text), do})
		t.Cleanup(func() { require.Nil(t, next.Load(), "no statement with %q", text) })
	}
}

// ask makes a call of user 1 through a Store.
func (s *shop) ask(verb wallet.Verb, place int, order string, want wallet.Code) {
	s.T.Helper()
	d, err := s.pods[0].Redeem(s.T.Context(), s.coupons[place], plainCall(verb, order))
	require.NoError(s.T, err)
	require.Equal(s.T, want, d.Code)
}

func plainCall(verb wallet.Verb, order string) wallet.Call {
	return wallet.Call{Verb: verb, Actor: "test", OrderID: order, User: 1, AmountWon: 12_000, TTL: liveFor}
}

func TestStore_LocksWhatItDecides(t *testing.T) {
	t.Parallel()
	s, meddle := newMeddledShop(t)
	for _, verb := range []wallet.Verb{wallet.Reserve, wallet.Confirm} {
		free := -1
		meddle("LEFT JOIN coupon_order", func() {
			found, err := mysqltx.Column[uint64](t.Context(), s.DB,
				"SELECT id FROM user_coupon WHERE coupon_id = ? AND user_id = 1 FOR UPDATE SKIP LOCKED", s.coupons[0])
			if err != nil {
				t.Error(err)
			}
			free = len(found)
		})
		s.ask(verb, 0, "A", wallet.Done)
		require.Zero(t, free)
	}
}

// Between the search for its coupon and the lock, the order gets another coupon.
func TestStore_OrderChangesItsCoupon(t *testing.T) {
	t.Parallel()
	s, meddle := newMeddledShop(t)
	s.ask(wallet.Reserve, 0, "A", wallet.Done)
	s.ask(wallet.Release, 0, "A", wallet.Done)
	meddle("LEFT JOIN coupon_order", func() {
		d, err := wallet.Redeem(t.Context(), s.db, s.coupons[1], plainCall(wallet.Reserve, "A"))
		if err != nil || d.Code != wallet.Done {
			t.Error(d, err)
		}
	})
	s.ask(wallet.Confirm, 0, "A", wallet.Done)
	require.Equal(t, coupon.CouponIssued, s.requireReplayed(1, s.coupons[0]))
	require.Equal(t, coupon.CouponUsed, s.requireReplayed(1, s.coupons[1]))
}

// Rows that contradict each other are an error, and stay as they are.
func TestStore_ContradictionIsNotDecided(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	s.Exec("UPDATE user_coupon SET status = 'USED'")
	_, err := s.pods[0].Redeem(t.Context(), s.coupons[0], plainCall(wallet.Reserve, "A"))
	require.Equal(t, coupon.Invariant, mysqltx.ClassOf(err), err)
	require.Zero(t, s.Number("SELECT COUNT(*) FROM coupon_order"))
}

// holdCoupon locks the row of user 1 in the coupon at place 0, as a client that stopped does.
func (s *shop) holdCoupon() (release func()) {
	s.T.Helper()
	tx, err := s.DB.BeginTx(s.T.Context(), nil)
	require.NoError(s.T, err)
	_, err = tx.ExecContext(s.T.Context(),
		"SELECT id FROM user_coupon WHERE coupon_id = ? AND user_id = 1 FOR UPDATE /* by the test */", s.coupons[0])
	require.NoError(s.T, err)
	return func() { require.NoError(s.T, tx.Rollback()) }
}

// However many calls wait for one coupon, they leave connections to the others.
func TestStore_HotCouponLeavesConnections(t *testing.T) {
	t.Parallel()
	s := newShop(t, 2)
	release := s.holdCoupon()
	var calls sync.WaitGroup
	var ended atomic.Int64
	for n := range 2 * s.db.Pool().Stats().MaxOpenConnections {
		calls.Go(func() {
			_, err := s.pods[0].Redeem(t.Context(), s.coupons[0], plainCall(wallet.Reserve, fmt.Sprint("H-", n)))
			for mysqltx.IsLockWait(err) { // this machine took longer than a call waits for a lock
				_, err = s.pods[0].Redeem(t.Context(), s.coupons[0], plainCall(wallet.Reserve, fmt.Sprint("H-", n)))
			}
			if err != nil {
				t.Error(err)
			}
			ended.Add(1)
		})
	}
	s.AwaitLockWait()
	s.ask(wallet.Reserve, 1, "A", wallet.Done)
	s.ask(wallet.Confirm, 1, "A", wallet.Done)
	require.Zero(t, ended.Load())
	require.Equal(t, 1, s.db.Pool().Stats().InUse, "one of them is in MySQL")
	release()
	calls.Wait()
	require.EqualValues(t, 1, s.Number("SELECT COUNT(*) FROM coupon_order WHERE order_id LIKE 'H-%'"))
}

// A call that waits for its turn does not run after its caller hung up. It would reserve for an order that was released
// meanwhile.
func TestStore_CallOfLostCallerDoesNotRun(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	release := s.holdCoupon()
	var first sync.WaitGroup
	first.Go(func() {
		if _, err := s.pods[0].Redeem(t.Context(), s.coupons[0], plainCall(wallet.Reserve, "A")); err != nil &&
			!mysqltx.IsLockWait(err) {
			t.Error(err)
		}
	})
	s.AwaitLockWait()
	gone, hangUp := context.WithCancelCause(t.Context())
	lost := errors.New("hung up")
	hangUp(lost)
	_, err := s.pods[0].Redeem(gone, s.coupons[0], plainCall(wallet.Reserve, "B"))
	require.ErrorIs(t, err, lost)
	release()
	first.Wait()
	s.ask(wallet.Release, 0, "A", wallet.Done)
	s.ask(wallet.Reserve, 0, "C", wallet.Done) // behind the lost call
	require.Zero(t, s.Number("SELECT COUNT(*) FROM coupon_order WHERE order_id = 'B'"))
}

func TestStore_OneOrderForManyUsers(t *testing.T) {
	t.Parallel()
	const users = 3
	s := newShop(t, users)
	var done atomic.Int64
	var calls sync.WaitGroup
	for n := range 20 * users {
		calls.Go(func() {
			call := plainCall(wallet.Reserve, "A")
			call.User = coupon.UserID(n%users + 1)
			d, err := s.pods[0].Redeem(t.Context(), s.coupons[n%modelCoupons], call)
			if err != nil {
				t.Error(err)
			}
			if d.Code == wallet.Done {
				done.Add(1)
			}
		})
	}
	calls.Wait()
	require.EqualValues(t, 1, done.Load())
	require.EqualValues(t, 1, s.Number("SELECT COUNT(*) FROM user_coupon WHERE order_id = 'A'"))
	require.EqualValues(t, 1, s.Number("SELECT COUNT(*) FROM coupon_log"))
}
