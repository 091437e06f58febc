package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/jajeong/jajeong/internal/coupon"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receipt is a user and the number of the call that carried the application.
type receipt struct {
	user coupon.UserID
	call int
}

// server answers calls. With block it waits for the test.
type server struct {
	mu    sync.Mutex
	calls [][]coupon.UserID
	block chan struct{} // nil: calls are answered immediately
	fails atomic.Bool
}

var errAway = errors.New("redis is away")

func (s *server) call(_ context.Context, _ coupon.CouponID, users []coupon.UserID) ([]receipt, error) {
	s.mu.Lock()
	s.calls = append(s.calls, users)
	number := len(s.calls)
	s.mu.Unlock()
	if s.block != nil {
		<-s.block
	}
	if s.fails.Load() {
		return nil, errAway
	}
	receipts := make([]receipt, len(users))
	for i, user := range users {
		receipts[i] = receipt{user, number}
	}
	return receipts, nil
}

func newBatcher(s *server) *Batcher[receipt] { return New(s.call, prometheus.NewRegistry(), time.Now) }

// applicants apply in the background and collect their answers. Their test runs in a synctest bubble.
type applicants struct {
	b       *Batcher[receipt]
	running sync.WaitGroup
	mu      sync.Mutex
	answers map[coupon.UserID]answer[receipt]
}

// apply returns when the application waits or is in a call.
func (a *applicants) apply(users ...coupon.UserID) {
	for _, user := range users {
		a.running.Go(func() {
			r, err := a.b.Apply(context.Background(), 42, user)
			a.mu.Lock()
			defer a.mu.Unlock()
			a.answers[user] = answer[receipt]{r, err}
		})
		synctest.Wait()
	}
}

func (a *applicants) all() map[coupon.UserID]answer[receipt] {
	a.running.Wait()
	return a.answers
}

func (a *applicants) waiting() int {
	q := a.b.queue(42)
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// blocked returns a server whose calls wait until block is closed, and applicants.
func blocked() (*server, *applicants) {
	s := &server{block: make(chan struct{})}
	return s, &applicants{b: newBatcher(s), answers: map[coupon.UserID]answer[receipt]{}}
}

func between(first, last coupon.UserID) (users []coupon.UserID) {
	for user := first; user <= last; user++ {
		users = append(users, user)
	}
	return users
}

func TestFirstApplicationGoesAloneAndLaterOnesTogetherInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := blocked()
		a.apply(1)
		rest := []coupon.UserID{9, 7, 8, 3}
		a.apply(rest...)
		close(s.block)
		for user, got := range a.all() {
			want := receipt{user, 2}
			if user == 1 {
				want.call = 1
			}
			require.Equal(t, answer[receipt]{receipt: want}, got)
		}
		require.Equal(t, [][]coupon.UserID{{1}, rest}, s.calls)
		require.Zero(t, a.waiting())
	})
}

func TestStampedeUsesSeveralCallsAndIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := blocked()
		a.b.Limits = Limits{Users: 3, Calls: 3, Waiting: 8}
		a.apply(between(1, 1+3+3+8)...)
		require.Len(t, s.calls, 3)
		require.Equal(t, 8, a.waiting())
		_, err := a.b.Apply(t.Context(), 42, 99)
		require.ErrorIs(t, err, QueueFull)
		close(s.block)
		for user, got := range a.all() {
			require.NoError(t, got.err)
			require.Equal(t, user, got.receipt.user)
		}
		sent := slices.Concat(s.calls...)
		slices.Sort(sent)
		require.Equal(t, between(1, 15), sent, "each application once, without the refused one")
		for _, users := range s.calls {
			require.LessOrEqual(t, len(users), 3)
		}
	})
}

func TestExpiredApplicationIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := blocked()
		a.apply(1, 2)
		time.Sleep(maxWait + 1)
		a.apply(3)
		close(s.block)
		answers := a.all()
		require.ErrorIs(t, answers[2].err, Expired)
		require.NoError(t, answers[1].err)
		require.NoError(t, answers[3].err)
		require.Equal(t, [][]coupon.UserID{{1}, {3}}, s.calls)
	})
}

func TestBreakerOpensForOneCouponAndProbesAfterAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		b := newBatcher(s)
		s.fails.Store(true)
		for range tripAfter {
			_, err := b.Apply(t.Context(), 42, 7)
			require.ErrorIs(t, err, errAway)
		}
		require.Equal(t, gobreaker.StateOpen, b.queue(42).breaker.State())
		require.InDelta(t, 1, b.breakersOpen(), 0)
		s.fails.Store(false)
		_, err := b.Apply(t.Context(), 42, 7)
		require.ErrorIs(t, err, BreakerOpen)
		_, err = b.Apply(t.Context(), 43, 7)
		require.NoError(t, err, "another coupon may be on another shard")
		require.Len(t, s.calls, tripAfter+1)

		time.Sleep(breakerPause + 1)
		require.InDelta(t, 0, b.breakersOpen(), 0)
		_, err = b.Apply(t.Context(), 42, 7)
		require.NoError(t, err)
	})
}

func TestApplyIgnoresTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	s := &server{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := newBatcher(s).Apply(ctx, 42, 7)
	require.NoError(t, err)
	require.Equal(t, receipt{7, 1}, got)
}

func TestPanicIsTheFailureOfItsCallOnly(t *testing.T) {
	t.Parallel()
	calls := 0
	b := New(func(_ context.Context, _ coupon.CouponID, users []coupon.UserID) ([]coupon.UserID, error) {
		if calls++; calls == 1 {
			panic("boom")
		}
		return users, nil
	}, prometheus.NewRegistry(), time.Now)
	_, err := b.Apply(t.Context(), 42, 7)
	require.ErrorContains(t, err, "boom")
	user, err := b.Apply(t.Context(), 42, 7)
	require.NoError(t, err)
	require.EqualValues(t, 7, user)
}

func TestQueuesOfUnusedCouponsAreEvicted(t *testing.T) {
	t.Parallel()
	b := newBatcher(&server{})
	used, unused := b.queue(1), b.queue(2)
	for id := coupon.CouponID(3); id < 3+maxCoupons; id++ {
		b.queue(id)
		require.Same(t, used, b.queue(1))
	}
	require.Equal(t, maxCoupons, b.queues.Len())
	require.NotSame(t, unused, b.queue(2))
}
