package candidates

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
)

// Bounds of a Batcher. Whoever waits is answered within patience and callTimeout, by Redis or otherwise.
const (
	// maxBatch users are asked for in one script, which holds Redis some 0.6 ms then.
	maxBatch = 250
	// maxCalls of one coupon are under way at once. One is enough until whole batches wait: then the process is so busy
	// that even taking in an answer waits for its turn among thousands of requests. Each further call wants a batch for
	// every call under way.
	maxCalls = 8
	// maxWaiting applications wait for one coupon. Redis deals with so many in a few milliseconds: more wait only when it
	// is slow, and then it is better to say so than to let them pile up.
	maxWaiting = 2_000
	// patience is how long an application waits at most for the calls before its own. What waited longer is not sent:
	// the caller may have given up.
	patience = time.Second
	// callTimeout bounds one call.
	callTimeout = time.Second
	// tripAfter so many calls of a coupon have failed one after the other, Redis is left alone for a while.
	tripAfter = 3
	// breakerPause is how long. Then one call is tried.
	breakerPause = time.Second
)

// NotAsked is why Redis was not asked: the application was not accepted by this request. Asking again later is safe.
type NotAsked string

// The reasons of NotAsked.
const (
	Crowded NotAsked = "crowded" // too many wait for this coupon
	Late    NotAsked = "late"    // it waited too long for its turn
	Resting NotAsked = "resting" // Redis failed again and again, and is left alone for a moment
)

func (e NotAsked) Error() string { return "redis was not asked: " + string(e) }

// Batcher asks Redis for many applicants at once. An application that finds no call of its coupon under way goes at once.
// The others wait until that is back and then go together, in the order they came: the more wait, the more each call takes.
// In a stampede several calls are under way, and one batch may overtake another.
type Batcher struct {
	maxBatch, maxCalls, maxWaiting int // as the constants are; tests take smaller ones

	store  *Store
	now    func() time.Time
	crowds *lru.Cache[uint64, *crowd] // by coupon
	sizes  prometheus.Histogram
}

// NewBatcher registers its metrics. now is for durations alone.
func NewBatcher(store *Store, metrics prometheus.Registerer, now func() time.Time) *Batcher {
	b := &Batcher{maxBatch: maxBatch, maxCalls: maxCalls, maxWaiting: maxWaiting, store: store, now: now, crowds: remembering(func(*crowd) {})}
	b.sizes = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "jajeong_apply_batch_size", Help: "Applications in one call of Redis.",
		Buckets: []float64{1, 2, 5, 10, 25, 50, 100, maxBatch},
	})
	metrics.MustRegister(b.sizes, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_apply_breakers_open", Help: "Coupons for which Redis failed again and again, and is left alone.",
	}, b.breakersOpen))
	return b
}

// crowd is who waits in this process to be put in line for a coupon.
type crowd struct {
	coupon  coupon.CouponID
	breaker *gobreaker.CircuitBreaker[[]Receipt]
	mu      sync.Mutex
	waiting []*asking
	calls   int // under way
}

// asking is an application on its way to Redis.
type asking struct {
	user   coupon.UserID
	since  time.Time
	answer chan result // takes one without waiting
}

// askings are used again.
var askings = sync.Pool{New: func() any { return &asking{answer: make(chan result, 1)} }}

type result struct {
	Receipt
	error
}

// Apply is Store.Apply, together with others. After a NotAsked the application was not accepted. Whoever gives up does not
// take back what is on its way, and everybody is answered soon: that the caller's context ends makes no difference.
func (b *Batcher) Apply(_ context.Context, couponID coupon.CouponID, user coupon.UserID) (Receipt, error) {
	c := b.crowd(couponID)
	a := askings.Get().(*asking)
	defer askings.Put(a)
	a.user, a.since = user, b.now()
	call, err := b.join(c, a)
	if err != nil {
		return Receipt{}, err
	}
	if call {
		go b.serve(c)
	}
	r := <-a.answer
	return r.Receipt, r.error
}

func (b *Batcher) crowd(couponID coupon.CouponID) *crowd {
	return remembered(b.crowds, couponID, func() *crowd {
		return &crowd{coupon: couponID, breaker: gobreaker.NewCircuitBreaker[[]Receipt](gobreaker.Settings{
			Timeout:     breakerPause,
			ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= tripAfter },
		})}
	})
}

func (b *Batcher) breakersOpen() float64 {
	open := 0
	for _, c := range b.crowds.Values() {
		if c.breaker.State() == gobreaker.StateOpen { // half open it waits for somebody to come
			open++
		}
	}
	return float64(open)
}

// join also tells whether a call is to be made, since none is under way that will take this application.
func (b *Batcher) join(c *crowd, a *asking) (call bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == b.maxWaiting {
		return false, Crowded
	}
	c.waiting = append(c.waiting, a)
	if call = c.calls == 0 || c.calls < b.maxCalls && len(c.waiting) >= b.maxBatch*c.calls; call {
		c.calls++
	}
	return call, nil
}

// next are the first of those who wait; when nobody does, the service ends.
func (b *Batcher) next(c *crowd, batch []*asking) []*asking {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), b.maxBatch)
	batch = append(batch[:0], c.waiting[:n]...)
	c.waiting = slices.Delete(c.waiting, 0, n)
	if n == 0 {
		c.calls--
	}
	return batch
}

// serve asks for those who wait, batch after batch, until nobody does.
func (b *Batcher) serve(c *crowd) {
	for batch := b.next(c, nil); len(batch) > 0; batch = b.next(c, batch) {
		now := b.now()
		batch = slices.DeleteFunc(batch, func(a *asking) bool {
			late := now.Sub(a.since) > patience
			if late {
				a.answer <- result{error: Late}
			}
			return late
		})
		if len(batch) > 0 {
			b.ask(c, batch)
		}
	}
}

// ask answers everybody in the batch, whatever happens.
func (b *Batcher) ask(c *crowd, batch []*asking) {
	b.sizes.Observe(float64(len(batch)))
	users := make([]uint64, len(batch))
	for i, a := range batch {
		users[i] = a.user
	}
	receipts, err := c.breaker.Execute(func() (receipts []Receipt, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("a bug: panic: %v", p)
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		return b.store.applyAll(ctx, c.coupon, users)
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		err = Resting
	}
	for i, a := range batch {
		if err != nil {
			a.answer <- result{error: err}
			continue
		}
		a.answer <- result{Receipt: receipts[i]}
	}
}
