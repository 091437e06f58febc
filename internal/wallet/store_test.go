package wallet_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/wallet"
)

// The connections of many callers are cut again and again, at COMMIT in particular. Every result that a caller got is true
// afterwards.
func TestStore_AddsUpAfterLostReplies(t *testing.T) {
	t.Parallel()
	const clients = 32
	s := newShop(t, clients)
	var commits, cuts int
	s.connectThrough(func(turn faultproxy.Turn) faultproxy.Action {
		if bytes.HasSuffix(turn.Request, []byte("COMMIT")) {
			commits++
			switch commits % 11 {
			case 0:
				cuts++
				return faultproxy.DropReply(nil)
			case 5:
				cuts++
				return faultproxy.DropRequest(nil)
			}
		} else if turn.Number%97 == 0 {
			cuts++
			return faultproxy.DropReply(nil)
		}
		return faultproxy.Pass()
	})
	s.pods = s.pods[:1]
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var group sync.WaitGroup
	var calls, unknown atomic.Int64
	r := testenv.Random(t)
	for client := range clients {
		group.Go(func() { s.keepCalling(ctx, r, coupon.UserID(client+1), &calls, &unknown) })
	}
	target := int64(testenv.Rounds(600, 100_000))
	testenv.Eventually(t, "clients make calls", func() bool { return calls.Load() > target || t.Failed() })
	stop()
	group.Wait()
	require.False(t, t.Failed())
	s.connect(s.Wallet.MySQLDSN)
	for user := coupon.UserID(1); user <= clients; user++ {
		s.requireSame(user, nil)
	}
	s.Verify()
	t.Logf("passed: %d cuts, %d calls, %d without a reply", cuts, calls.Load(), unknown.Load())
}

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
		meddle("FROM coupon WHERE id IN", func() {
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

// A reservation that runs out right before the lock has run out.
func TestStore_ReadsTheClockAfterTheLock(t *testing.T) {
	t.Parallel()
	s, meddle := newMeddledShop(t)
	s.ask(wallet.Reserve, 0, "A", wallet.Done)
	meddle("SKIP LOCKED", func() { s.Exec("UPDATE coupon_order SET reserved_until = UTC_TIMESTAMP(6)") })
	s.ask(wallet.Reserve, 0, "B", wallet.Done)
	s.requireSame(1, nil)
}

// Between the search for its coupon and the lock, the order gets another coupon.
func TestStore_OrderChangesItsCoupon(t *testing.T) {
	t.Parallel()
	s, meddle := newMeddledShop(t)
	s.ask(wallet.Reserve, 0, "A", wallet.Done)
	meddle("SKIP LOCKED", func() {
		for _, call := range []wallet.Call{plainCall(wallet.Release, "A"), plainCall(wallet.Reserve, "A")} {
			if d, err := wallet.Redeem(t.Context(), s.db, s.coupons[1], call); err != nil || d.Code != wallet.Done {
				t.Error(d, err)
			}
		}
	})
	s.ask(wallet.Confirm, 0, "A", wallet.Done)
	require.Equal(t, coupon.CouponIssued, s.requireReplayed(1, s.coupons[0]))
	require.Equal(t, coupon.CouponUsed, s.requireReplayed(1, s.coupons[1]))
}

// A decision without a lock is right only if the coupon did not change meanwhile.
func TestStore_PeekNoticesChanges(t *testing.T) {
	t.Parallel()
	s, meddle := newMeddledShop(t)
	s.Exec("UPDATE user_coupon SET expires_at = UTC_TIMESTAMP(6)")
	peek := func() (wallet.Code, bool) {
		d, unchanged := wallet.Peek(s.pods[0], t.Context(), s.coupons[0], plainCall(wallet.Reserve, "A"))
		return d.Code, unchanged
	}
	code, unchanged := peek()
	require.True(t, unchanged)
	require.Equal(t, wallet.Expired, code)
	meddle("LEFT JOIN coupon_order", func() {
		s.Exec("UPDATE user_coupon SET expires_at = UTC_TIMESTAMP(6) + INTERVAL 1 DAY")
	})
	_, unchanged = peek()
	require.False(t, unchanged)
	_, unchanged = peek()
	require.False(t, unchanged, "a reservation changes something")
	d, unchanged := wallet.Peek(s.pods[0], t.Context(), s.coupons[0], wallet.Call{Verb: wallet.Reserve, OrderID: "A", User: 99})
	require.True(t, unchanged)
	require.Equal(t, wallet.NotOwned, d.Code)
}

// Rows that contradict each other are an error of their own call.
func TestStore_ContradictionIsNotDecided(t *testing.T) {
	t.Parallel()
	g := newGrouped(t)
	g.Exec("UPDATE user_coupon SET status = 'USED' WHERE user_id = 1")
	var group sync.WaitGroup
	for user := coupon.UserID(1); user <= 20; user++ {
		group.Go(func() {
			d, err := g.ask(t.Context(), wallet.Reserve, user, fmt.Sprint("A-", user))
			if user > 1 && (err != nil || d.Code != wallet.Done) || user == 1 && (err == nil || mysqltx.ClassOf(err) != coupon.Invariant) {
				t.Errorf("user %d: %s, %v", user, d.Code, err)
			}
		})
	}
	group.Wait()
}

// A call that waits for a group does not run after its caller hung up. It would reserve for an order that was released meanwhile.
func TestStore_CallOfLostCallerDoesNotRun(t *testing.T) {
	t.Parallel()
	g := newGrouped(t)
	release := g.store.Hold(wallet.Reserve)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := g.ask(ctx, wallet.Reserve, 1, "B")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	release()
	for _, verb := range []wallet.Verb{wallet.Reserve, wallet.Confirm} {
		_, err = g.ask(t.Context(), verb, 2, "C") // behind the lost call
		require.NoError(t, err)
	}
	require.Zero(t, g.Number("SELECT COUNT(*) FROM coupon_order WHERE order_id = 'B'"))
}
