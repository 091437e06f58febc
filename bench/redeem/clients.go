package redeem

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/load"
)

// result is one measurement of one contender.
type result struct {
	took           time.Duration
	latencies      load.Waits // of each client's wish, from the first call to the last answer
	expected       int        // coupons that should be used
	used, twice    int        // coupons used, and those by two or more orders
	busy, errors   int        // answers after which the client tried again
	failure        error      // the first
	server, client time.Duration
}

const (
	// A client that finds the coupon busy tries again after a pause between half of this and all of it.
	againAfter = 20 * time.Millisecond
	// askFor is how long a client asks. It is longer than the pause of a holder and a wait for its row lock.
	askFor = 90 * time.Second
)

// clients ask for coupons. An order has used a coupon if every step was granted: that counts, and not the tables of a
// contender, which know only the last order.
type clients struct {
	id   coupon.CouponID
	busy atomic.Int64

	mu        sync.Mutex
	used      map[coupon.UserID][]string // orders
	latencies load.Waits
	failures  []error
}

// ask takes all steps for an order.
func (c *clients) ask(ctx context.Context, steps []step, user int, order string) {
	began := time.Now()
	w := want{c.id, coupon.UserID(user), fmt.Sprintf("%d-%d-%s", c.id, user, order)}
	yes, err := c.redeem(ctx, steps, w)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failures = append(c.failures, err)
		return
	}
	if c.latencies = append(c.latencies, time.Since(began)); yes && !slices.Contains(c.used[w.user], w.order) {
		c.used[w.user] = append(c.used[w.user], w.order)
	}
}

func (c *clients) redeem(ctx context.Context, steps []step, w want) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	for _, do := range steps {
		a, err := do(ctx, w)
		for ; err == nil && a == busy; a, err = do(ctx, w) {
			c.busy.Add(1)
			if err := stage.Wait(ctx, againAfter/2+rand.N(againAfter/2)); err != nil {
				return false, err
			}
		}
		if err != nil || a == refused {
			return false, err
		}
	}
	return true, nil
}

// asked lets clients ask, and sums what they found.
func asked(id, expected int, ask func(c *clients, all *sync.WaitGroup)) (r result) {
	c := &clients{id: coupon.CouponID(id), used: map[coupon.UserID][]string{}}
	began := time.Now()
	var all sync.WaitGroup
	ask(c, &all)
	all.Wait()
	r = result{took: time.Since(began), latencies: c.latencies, expected: expected, used: len(c.used),
		busy: int(c.busy.Load()), errors: len(c.failures),
		failure: errors.Join(c.failures[:min(1, len(c.failures))]...)}
	for _, orders := range c.used {
		if len(orders) > 1 {
			r.twice++
		}
	}
	return r
}

// askDistinct has clients that use n coupons, each for one order.
func askDistinct(ctx context.Context, steps []step, id, n, crowd int) result {
	return asked(id, n, func(c *clients, all *sync.WaitGroup) {
		var next atomic.Int64
		for range crowd {
			all.Go(func() {
				for user := int(next.Add(1)); user <= n && ctx.Err() == nil; user = int(next.Add(1)) {
					c.ask(ctx, steps, user, "one")
				}
			})
		}
	})
}

// askHot has a crowd that wants one coupon at once, each client for its own order, and then the next coupon.
func askHot(ctx context.Context, steps []step, id, waves, crowd int) result {
	return asked(id, waves, func(c *clients, all *sync.WaitGroup) {
		for user := 1; user <= waves && ctx.Err() == nil; user++ {
			for client := range crowd {
				all.Go(func() { c.ask(ctx, steps, user, fmt.Sprint(client)) })
			}
			all.Wait()
		}
	})
}

// askPaused has two orders for each of n coupons. The calls of the first go through holder, which stops before its
// first write. The second order starts when all of them have stopped.
func askPaused(ctx context.Context, holder func() []step, steps []step, id, n int, stopped <-chan struct{}) result {
	return asked(id, n, func(c *clients, all *sync.WaitGroup) {
		for user := 1; user <= n; user++ {
			own := holder() // a process of its own
			all.Go(func() { c.ask(ctx, own, user, "first") })
		}
		select {
		case <-stopped:
		case <-ctx.Done():
		}
		for user := 1; user <= n; user++ {
			all.Go(func() { c.ask(ctx, steps, user, "second") })
		}
	})
}
