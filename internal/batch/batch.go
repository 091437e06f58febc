// Package batch sends the applications of one process to Redis in batches.
//
// An application is sent immediately if no call for its coupon is under way. Otherwise it waits for the next call,
// which sends all waiting applications in the order in which they came. One script for 250 users costs Redis little
// more than one for a single user. Calls for one coupon run in parallel only while full batches wait; one batch may
// then overtake another by the duration of a call. Every application gets an answer within two seconds: a receipt, the
// call's error, or NotSent.
package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Limits are the limits for one coupon.
type Limits struct {
	Users int // largest number of applications in one batch
	// Calls is how many calls may be under way. While n are under way, another one starts only if n full batches wait.
	Calls int
	// Waiting is how many applications may wait. If more come, Redis is too slow, and they are refused.
	Waiting int
}

// DefaultLimits are the limits that New sets. A script for 250 users blocks Redis for 0.6 ms.
var DefaultLimits = Limits{Users: 250, Calls: 8, Waiting: 2_000}

const (
	// maxWait is how long an application may wait for earlier calls. It is not sent later: its caller may be gone.
	maxWait     = time.Second
	callTimeout = time.Second
	// After tripAfter consecutive failures a coupon's circuit breaker opens for breakerPause. Then one call is tried.
	tripAfter    = 3
	breakerPause = time.Second
	// maxCoupons is how many coupons a process keeps queues for: twice as many as the catalog may have.
	maxCoupons = 20_000
)

// NotSent is the reason why an application was not sent to Redis. Applying again is safe.
type NotSent string

const (
	QueueFull   NotSent = "crowded" // too many applications wait for this coupon
	Expired     NotSent = "late"    // the application waited too long
	BreakerOpen NotSent = "resting" // Redis failed repeatedly, and gets a pause
)

func (e NotSent) Error() string { return "not sent to redis: " + string(e) }

// Call submits the applications of several users to Redis. It returns one receipt per user, in the order of users.
type Call[R any] func(ctx context.Context, couponID coupon.CouponID, users []coupon.UserID) ([]R, error)

// Batcher sends applications to Redis in batches. A batch has applications for one coupon. R is the type of a receipt.
type Batcher[R any] struct {
	Limits Limits // may be changed only before the first use

	call   Call[R]
	now    func() time.Time
	queues *lru.Cache[coupon.CouponID, *couponQueue[R]]
	spare  sync.Pool // unused values of *application[R], each with its channel
	sizes  prometheus.Histogram
}

// New returns a Batcher and registers its metrics. now serves only to measure durations.
func New[R any](call Call[R], metrics prometheus.Registerer, now func() time.Time) *Batcher[R] {
	queues, err := lru.New[coupon.CouponID, *couponQueue[R]](maxCoupons)
	if err != nil {
		panic(err) // happens only for a size below 1
	}
	b := &Batcher[R]{Limits: DefaultLimits, call: call, now: now, queues: queues}
	b.spare.New = func() any { return &application[R]{answer: make(chan answer[R], 1)} }
	b.sizes = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "jajeong_apply_batch_size", Help: "Applications in one call of Redis.",
		Buckets: []float64{1, 2, 5, 10, 25, 50, 100, 250},
	})
	metrics.MustRegister(b.sizes, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_apply_breakers_open",
		Help: "Coupons whose circuit breaker is open after repeated failures of Redis.",
	}, b.breakersOpen))
	return b
}

// couponQueue holds the applications of one coupon that wait in this process.
type couponQueue[R any] struct {
	coupon  coupon.CouponID
	breaker *gobreaker.CircuitBreaker[[]R]
	mu      sync.Mutex
	waiting []*application[R]
	calls   int // number of calls under way
}

// application waits for its one answer. Apply uses it again once that has come.
type application[R any] struct {
	user   coupon.UserID
	since  time.Time
	answer chan answer[R] // has room for the one answer, so that sending never blocks
}

type answer[R any] struct {
	receipt R
	err     error
}

// Apply submits one user's application. It returns within two seconds. It ignores the end of the context, because the
// application may be on its way already.
func (b *Batcher[R]) Apply(_ context.Context, couponID coupon.CouponID, user coupon.UserID) (R, error) {
	q := b.queue(couponID)
	a := b.spare.Get().(*application[R])
	a.user, a.since = user, b.now()
	startCall, err := b.enqueue(q, a)
	if err != nil {
		b.spare.Put(a)
		var none R
		return none, err
	}
	if startCall {
		go b.send(q)
	}
	r := <-a.answer
	b.spare.Put(a)
	return r.receipt, r.err
}

func (b *Batcher[R]) queue(couponID coupon.CouponID) *couponQueue[R] {
	if q, ok := b.queues.Get(couponID); ok {
		return q
	}
	q := &couponQueue[R]{coupon: couponID, breaker: gobreaker.NewCircuitBreaker[[]R](gobreaker.Settings{
		Timeout:     breakerPause,
		ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= tripAfter },
	})}
	if first, found, _ := b.queues.PeekOrAdd(couponID, q); found {
		return first
	}
	return q
}

func (b *Batcher[R]) breakersOpen() float64 {
	open := 0
	for _, q := range b.queues.Values() {
		if q.breaker.State() == gobreaker.StateOpen { // a half-open breaker lets the next application through
			open++
		}
	}
	return float64(open)
}

// enqueue also reports whether the caller must start a call.
func (b *Batcher[R]) enqueue(q *couponQueue[R], a *application[R]) (startCall bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == b.Limits.Waiting {
		return false, QueueFull
	}
	q.waiting = append(q.waiting, a)
	startCall = q.calls == 0 || q.calls < b.Limits.Calls && len(q.waiting) >= b.Limits.Users*q.calls
	if startCall {
		q.calls++
	}
	return startCall, nil
}

// next moves the next applications from the queue into batch. The sender ends if the result is empty.
func (b *Batcher[R]) next(q *couponQueue[R], batch []*application[R]) []*application[R] {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), b.Limits.Users)
	batch = append(batch[:0], q.waiting[:n]...)
	q.waiting = slices.Delete(q.waiting, 0, n)
	if n == 0 {
		q.calls--
	}
	return batch
}

func (b *Batcher[R]) send(q *couponQueue[R]) {
	for batch := b.next(q, nil); len(batch) > 0; batch = b.next(q, batch) {
		now := b.now()
		batch = slices.DeleteFunc(batch, func(a *application[R]) bool {
			expired := now.Sub(a.since) > maxWait
			if expired {
				a.answer <- answer[R]{err: Expired}
			}
			return expired
		})
		if len(batch) > 0 {
			b.sendBatch(q, batch)
		}
	}
}

// sendBatch sends the batch in one call, and answers each of its applications.
func (b *Batcher[R]) sendBatch(q *couponQueue[R], batch []*application[R]) {
	b.sizes.Observe(float64(len(batch)))
	users := make([]coupon.UserID, len(batch))
	for i, a := range batch {
		users[i] = a.user
	}
	receipts, err := q.breaker.Execute(func() (receipts []R, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("a bug: panic: %v", p)
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		return b.call(ctx, q.coupon, users)
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		err = BreakerOpen
	}
	for i, a := range batch {
		if err != nil {
			a.answer <- answer[R]{err: err}
			continue
		}
		a.answer <- answer[R]{receipt: receipts[i]}
	}
}
