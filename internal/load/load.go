// Package load sends requests at times that no answer changes: an open loop. A server that stalls delays its answers
// and no request, so the stall shows in the latency of every request that was due during it. A closed loop, whose
// clients wait for an answer before they send the next request, hides it. Latency counts from the time at which a
// request was due.
//
// Run paces the requests and gives them to workers, in order. Line is a connection that costs the sender less
// processor time than the client of net/http. Waits has the quantiles of latencies.
package load

import (
	"context"
	"iter"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Times returns when request n is due since the start, for n = 0, 1, … in ascending order, and false after the last
// request.
type Times func(n int) (due time.Duration, more bool)

// Every is a steady rate of requests a second, without an end.
func Every(rate float64) Times {
	return func(n int) (time.Duration, bool) {
		return time.Duration(float64(n) / rate * float64(time.Second)), true
	}
}

// Request is one request that is due. N counts from 0.
type Request struct {
	N   int
	Due time.Time
}

// Sent has what Run did.
type Sent struct {
	Began time.Time
	Due   int // requests that became due
	Begun int // requests that a worker began to send: the first of those due
}

// minPause groups the requests that are due within it. A wake-up for each would use a whole core.
const minPause = 100 * time.Microsecond

// Run sends requests until ctx ends, or until the last one is answered. Each of the workers ranges over the requests
// that it is to send; place is its number from 0. Requests that are due while all workers are busy wait. Without
// times, a request is due when its worker is free: a closed loop, until ctx ends.
func Run(ctx context.Context, times Times, workers int, work func(place int, requests iter.Seq[Request])) Sent {
	began := time.Now()
	due := make(chan struct{}, math.MaxInt32) // an element needs no memory
	var next atomic.Int64
	requests := func(yield func(Request) bool) {
		for ctx.Err() == nil {
			r := Request{Due: time.Now()}
			if times != nil {
				select {
				case _, more := <-due:
					if !more || ctx.Err() != nil {
						return
					}
				case <-ctx.Done():
					return
				}
			}
			if r.N = int(next.Add(1) - 1); times != nil {
				at, _ := times(r.N)
				r.Due = began.Add(at)
			}
			if !yield(r) {
				return
			}
		}
	}
	var all sync.WaitGroup
	for place := range workers {
		all.Go(func() { work(place, requests) })
	}
	became := 0
	if times != nil {
		became = pace(ctx, began, times, due)
		close(due)
	}
	all.Wait()
	return Sent{began, became, int(next.Load())}
}

// pace announces each request when it is due, and returns how many were due.
func pace(ctx context.Context, began time.Time, times Times, due chan<- struct{}) (n int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for ; ; n++ {
		at, more := times(n)
		if !more {
			return n
		}
		for wait := at - time.Since(began); wait > 0 && ctx.Err() == nil; wait = at - time.Since(began) {
			pause(min(max(wait, minPause), longestPause))
		}
		if ctx.Err() != nil {
			return n
		}
		due <- struct{}{}
	}
}

// longestPause bounds how long Run goes on after the end of its context.
const longestPause = 50 * time.Millisecond

// Waits are latencies.
type Waits []time.Duration

// Quantiles are those that a report needs. They marshal as nanoseconds.
type Quantiles struct{ P50, P99, P999, Max time.Duration }

// Quantile returns the latency that a share q of all do not exceed, or 0 if there are none.
func (w Waits) Quantile(q float64) time.Duration {
	return Waits(slices.Sorted(slices.Values(w))).quantile(q)
}

// Quantiles sorts once for all of them.
func (w Waits) Quantiles() Quantiles {
	sorted := Waits(slices.Sorted(slices.Values(w)))
	return Quantiles{sorted.quantile(0.5), sorted.quantile(0.99), sorted.quantile(0.999), sorted.quantile(1)}
}

func (w Waits) quantile(q float64) time.Duration {
	if len(w) == 0 {
		return 0
	}
	return w[min(len(w)-1, int(q*float64(len(w))))]
}
