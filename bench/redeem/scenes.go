package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// result is one measurement of one contender.
type result struct {
	took      time.Duration
	latencies []time.Duration // of each client's wish, from the first call to the last answer
	expected  int             // coupons that should be used
	used      int
	twice     int // coupons used by two or more orders
	busy      int // answers after which the client tried again
	errors    int
	failure   error // the first

	server, client time.Duration // CPU time of MySQL, and of this process with Redis
}

func (r result) rate() float64 { return float64(len(r.latencies)) / r.took.Seconds() }

func (r result) quantile(q float64) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	all := slices.Sorted(slices.Values(r.latencies))
	return all[min(len(all)-1, int(q*float64(len(all))))]
}

const (
	// A client that finds the coupon busy tries again after a pause between half of this and all of it.
	againAfter = 20 * time.Millisecond
	// askFor is how long a client asks. It is longer than the pause of a holder and a wait for its row lock.
	askFor = 90 * time.Second
)

// shop is the clients of a measurement.
type shop struct {
	referee *referee
	busy    atomic.Int64

	mu        sync.Mutex
	latencies []time.Duration
	failures  []error
}

func newShop() *shop { return &shop{referee: newReferee()} }

// ask takes all steps for an order.
func (s *shop) ask(ctx context.Context, steps []step, w want) {
	began := time.Now()
	yes, err := s.redeem(ctx, steps, w)
	if yes {
		s.referee.note(w)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failures = append(s.failures, err)
		return
	}
	s.latencies = append(s.latencies, time.Since(began))
}

func (s *shop) redeem(ctx context.Context, steps []step, w want) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	for _, do := range steps {
		a, err := do(ctx, w)
		for ; err == nil && a == busy; a, err = do(ctx, w) {
			s.busy.Add(1)
			select {
			case <-time.After(againAfter/2 + rand.N(againAfter/2)):
			case <-ctx.Done():
				return false, ctx.Err()
			}
		}
		if err != nil || a == refused {
			return false, err
		}
	}
	return true, nil
}

func (s *shop) result(took time.Duration, expected int) result {
	r := result{took: took, latencies: s.latencies, expected: expected, busy: int(s.busy.Load()), errors: len(s.failures), failure: errors.Join(s.failures[:min(1, len(s.failures))]...)}
	r.used, r.twice = s.referee.count()
	return r
}

// askDistinct has clients that use n coupons, each for one order.
func askDistinct(ctx context.Context, steps []step, id coupon.CouponID, n, clients int) result {
	s := newShop()
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range clients {
		all.Go(func() {
			for user := next.Add(1); user <= int64(n) && ctx.Err() == nil; user = next.Add(1) {
				s.ask(ctx, steps, want{id, coupon.UserID(user), fmt.Sprintf("%d-%d", id, user)})
			}
		})
	}
	all.Wait()
	return s.result(time.Since(began), n)
}

// askHot has a crowd that wants one coupon at once, each client for its own order, and then the next coupon.
func askHot(ctx context.Context, steps []step, id coupon.CouponID, waves, crowd int) result {
	s := newShop()
	began := time.Now()
	for user := 1; user <= waves && ctx.Err() == nil; user++ {
		var all sync.WaitGroup
		for client := range crowd {
			all.Go(func() {
				s.ask(ctx, steps, want{id, coupon.UserID(user), fmt.Sprintf("%d-%d-%d", id, user, client)})
			})
		}
		all.Wait()
	}
	return s.result(time.Since(began), waves)
}

// askPaused has two orders for each of n coupons. The calls of the first go through holder, which stops before its first write.
// The second order starts when all of them have stopped.
func askPaused(ctx context.Context, holder, steps []step, id coupon.CouponID, n int, stopped <-chan struct{}) result {
	s := newShop()
	began := time.Now()
	var all sync.WaitGroup
	for user := 1; user <= n; user++ {
		all.Go(func() { s.ask(ctx, holder, want{id, coupon.UserID(user), fmt.Sprintf("%d-%d-first", id, user)}) })
	}
	select {
	case <-stopped:
	case <-ctx.Done():
	}
	for user := 1; user <= n; user++ {
		all.Go(func() { s.ask(ctx, steps, want{id, coupon.UserID(user), fmt.Sprintf("%d-%d-second", id, user)}) })
	}
	all.Wait()
	return s.result(time.Since(began), n)
}
