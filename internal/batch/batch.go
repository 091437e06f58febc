// Package batch sends the applications of one process to Redis in batches.
//
// An application goes immediately if no call of its coupon is under way. The applications that come meanwhile wait and go in
// the next call, in the order of their arrival: one script for 250 users costs Redis little more than one for a single user.
// No application waits for others to come. Several calls of one coupon are under way only when whole batches wait; one batch
// may then overtake another by the duration of a call. Every application is answered within two seconds: by Redis, with its
// error, or with a NotSent.
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

// Limits bound the work for one coupon.
type Limits struct {
	// Users is the size of a batch.
	Users int
	// Calls is how many calls may be under way. Each further call needs a full batch for every call under way: only then is
	// the process so busy that the handling of a reply waits among thousands of requests.
	Calls int
	// Waiting is how many applications may wait. Redis handles so many in milliseconds; if more wait, it is too slow.
	Waiting int
}

// DefaultLimits are those of New. A script for 250 users holds Redis for 0.6 ms.
var DefaultLimits = Limits{Users: 250, Calls: 8, Waiting: 2_000}

const (
	// maxWait is how long an application may wait for earlier calls. After that it is not sent, since the caller may be gone.
	maxWait = time.Second
	// callTimeout bounds one call.
	callTimeout = time.Second
	// tripAfter consecutive failures open the circuit breaker of a coupon for breakerPause. Then one call probes.
	tripAfter    = 3
	breakerPause = time.Second
	// maxCoupons bounds the queues of a process, at twice the catalog.
	maxCoupons = 20_000
)

// NotSent is why an application was not sent to Redis. It was not accepted; applying again is safe.
type NotSent string

// The reasons of NotSent.
const (
	QueueFull   NotSent = "crowded" // too many applications wait for this coupon
	Expired     NotSent = "late"    // the application waited too long
	BreakerOpen NotSent = "resting" // Redis failed repeatedly, and gets a pause
)

func (e NotSent) Error() string { return "not sent to redis: " + string(e) }

// Call applies for several users in one call. It returns one receipt per user, in their order.
type Call[R any] func(ctx context.Context, couponID coupon.CouponID, users []coupon.UserID) ([]R, error)

// Batcher batches applications by coupon. R is the receipt of one application.
type Batcher[R any] struct {
	Limits Limits // changed before first use only

	call   Call[R]
	now    func() time.Time
	queues *lru.Cache[coupon.CouponID, *couponQueue[R]]
	sizes  prometheus.Histogram
}

// New registers its metrics. now measures durations only.
func New[R any](call Call[R], metrics prometheus.Registerer, now func() time.Time) *Batcher[R] {
	queues, err := lru.New[coupon.CouponID, *couponQueue[R]](maxCoupons)
	if err != nil {
		panic(err) // only for a size below 1
	}
	b := &Batcher[R]{Limits: DefaultLimits, call: call, now: now, queues: queues}
	b.sizes = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "jajeong_apply_batch_size", Help: "Applications in one call of Redis.",
		Buckets: []float64{1, 2, 5, 10, 25, 50, 100, 250},
	})
	metrics.MustRegister(b.sizes, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_apply_breakers_open", Help: "Coupons whose circuit breaker is open after repeated failures of Redis.",
	}, b.breakersOpen))
	return b
}

// couponQueue holds the applications of one coupon that wait in this process.
type couponQueue[R any] struct {
	coupon  coupon.CouponID
	breaker *gobreaker.CircuitBreaker[[]R]
	mu      sync.Mutex
	waiting []*application[R]
	calls   int // under way
}

// application is one application on its way to Redis.
type application[R any] struct {
	user   coupon.UserID
	since  time.Time
	answer chan answer[R] // holds one
}

type answer[R any] struct {
	receipt R
	err     error
}

// Apply applies for one user. It ignores the end of the context: the application may already be on its way, and the answer
// comes within two seconds.
func (b *Batcher[R]) Apply(_ context.Context, couponID coupon.CouponID, user coupon.UserID) (R, error) {
	q := b.queue(couponID)
	a := &application[R]{user: user, since: b.now(), answer: make(chan answer[R], 1)}
	startCall, err := b.enqueue(q, a)
	if err != nil {
		var none R
		return none, err
	}
	if startCall {
		go b.send(q)
	}
	r := <-a.answer
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
		if q.breaker.State() == gobreaker.StateOpen { // a half-open one waits for the next application
			open++
		}
	}
	return float64(open)
}

// enqueue also reports whether a further call is to start.
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

// next dequeues a batch. An empty batch ends the sender.
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

// send sends batch after batch until the queue is empty.
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

// sendBatch answers every application of the batch.
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
