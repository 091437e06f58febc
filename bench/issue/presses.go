package issue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jajeong/jajeong/internal/load"
)

const (
	// pressers is the number of presses that may be under way. Later ones wait, and their latency grows.
	pressers = 256
	// Each repeatEvery-th press is by a user who pressed repeatAfter presses before.
	repeatEvery, repeatAfter = 100, 50
	warmUsers                = 200
	warmPause                = 2 * time.Millisecond
	warmWithin               = 30 * time.Second
	// A load is given up when as many presses are open as become due in this time: its lag grows.
	longestLag = 10 * time.Second
	// drainWithin limits the time from the last due press to the last row.
	drainWithin = 2 * time.Minute
	// quietFor is how long nothing may change before the rest counts as lost.
	quietFor = 20 * time.Second
	// steadyDrain is the longest time that the rows of a load may need after its end if its lag did not grow.
	steadyDrain = time.Second
	checkPause  = 20 * time.Millisecond
)

// plan describes the presses of one measurement.
type plan struct {
	rate   float64 // presses per second, at Poisson times
	length time.Duration
	burst  bool          // it has no steady rate
	lag    time.Duration // 0: longestLag
	quiet  time.Duration // 0: quietFor
}

func (l plan) n() int { return int(l.rate * l.length.Seconds()) }

// onePress is a press and its answer.
type onePress struct {
	coupon, user int
	due          time.Duration // since the start of the load
	repeated     bool
	answer       answer
	order        uint64
}

// presses draws the times and coupons of all presses. The same plan has the same presses for each contender.
func (l plan) presses(coupons int) []onePress {
	random := rand.New(rand.NewPCG(1, uint64(l.rate)))
	all := make([]onePress, l.n())
	at := 0.0
	for i := range all {
		at += random.ExpFloat64() / l.rate
		p := &all[i]
		p.due = time.Duration(at * float64(time.Second))
		if i%repeatEvery == repeatEvery-1 {
			p.coupon, p.user, p.repeated = all[i-repeatAfter].coupon, all[i-repeatAfter].user, true
			continue
		}
		p.coupon, p.user = 1+random.IntN(coupons), i+1
	}
	return all
}

// of is the setup for a load with enough seats for all, the warm-up included.
func (l plan) of(coupons int, interval time.Duration) setup {
	users := l.n() + warmUsers
	return setup{coupons: coupons, seats: users, users: users, interval: interval}
}

// outcome has the results of a load.
type outcome struct {
	plan
	setup
	contender contender
	pressed   [soldOut + 1]int // by answer, repeated presses included
	failure   string           // the first
	latency   load.Quantiles   // due → visible, accepted presses
	rows      float64          // per second, from the first due press to the last visible row
	drain     time.Duration    // from the last due press to the last visible row
	gaveUp    bool             // because the lag grew
	growing   bool             // given up, or the latency kept growing during the load
	unseen    int              // accepted presses without a visible row at the end
	notChosen int              // accepted presses that found all seats issued
	verdict   verdict
	watched   time.Duration // mean time of a statement of the watcher
	verified  bool          // by settle verify
	events    []event
}

// event is an accepted press whose row is visible, since the start of the load.
type event struct{ due, visible time.Duration }

// disturbance is what happens during a load. It ends before the load does.
type disturbance func(ctx context.Context, began time.Time) error

// run sends a load to a stand, and waits until each accepted press has its row.
func (v *stand) run(ctx context.Context, l plan, disturb disturbance) (o outcome, err error) {
	o.plan, o.setup, o.contender = l, v.setup, v.contender
	w := watch(ctx, v)
	warm, err := v.warmUp(ctx, w)
	if err != nil {
		w.end(nil)
		return o, err
	}
	r := &running{stand: v, presses: l.presses(v.coupons), warm: int64(len(warm)), watcher: w}
	runtime.GC()
	r.began = time.Now()
	disturbed := make(chan error, 1)
	go func() {
		if disturb != nil {
			disturbed <- disturb(ctx, r.began)
		}
		close(disturbed)
	}()
	o.gaveUp = r.send(ctx, l)
	err = <-disturbed
	rows, readErr := v.readIssued(ctx)
	w.end(rows)
	notSelected, restErr := v.readNotSelected(ctx)
	if err := errors.Join(err, readErr, restErr, ctx.Err()); err != nil {
		return o, err
	}
	r.sum(&o, rows, warm, notSelected)
	if v.contender.name == yardstick && o.unseen == 0 {
		err = v.Verify(ctx)
		o.verified = err == nil
	}
	return o, err
}

// warmUp presses until the rows of some users are visible: everything is open and connected then.
func (v *stand) warmUp(ctx context.Context, w *watcher) (warm []onePress, err error) {
	until := time.Now().Add(warmWithin)
	for i := 0; ; i++ {
		if i < warmUsers {
			p := onePress{coupon: 1 + i%v.coupons, user: v.users - i}
			if p.answer, p.order, err = v.press(ctx, p.coupon, p.user); p.answer == accepted {
				warm = append(warm, p)
			}
		}
		if i >= warmUsers && int(w.seen.Load()) >= len(warm) && len(warm) > 0 {
			return warm, nil
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("%d of %d presses of the warm-up are visible after %s; the last error: %w",
				w.seen.Load(), len(warm), warmWithin, err)
		}
		time.Sleep(warmPause)
	}
}

// running is a load under way.
type running struct {
	*stand
	presses []onePress
	began   time.Time
	warm    int64
	watcher *watcher

	answered, accepted atomic.Int64
	failure            atomic.Pointer[string]
}

// send sends all presses at their times. It reports whether it gave up because the lag grew.
func (r *running) send(ctx context.Context, l plan) (gaveUp bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sending sync.WaitGroup
	sending.Go(func() {
		times := func(n int) (time.Duration, bool) {
			if n >= len(r.presses) {
				return 0, false
			}
			return r.presses[n].due, true
		}
		load.Run(ctx, times, pressers, func(_ int, requests iter.Seq[load.Request]) {
			for request := range requests {
				r.one(ctx, &r.presses[request.N])
			}
		})
	})
	gaveUp = r.await(ctx, l)
	cancel()
	sending.Wait()
	return gaveUp
}

func (r *running) one(ctx context.Context, p *onePress) {
	var err error
	if p.answer, p.order, err = r.press(ctx, p.coupon, p.user); err != nil && ctx.Err() == nil {
		text := err.Error()
		r.failure.CompareAndSwap(nil, &text)
	}
	if p.answer == accepted {
		r.accepted.Add(1)
	}
	r.answered.Add(1)
}

// await returns when all accepted presses are visible, or when the lag has grown too long.
func (r *running) await(ctx context.Context, l plan) (gaveUp bool) {
	limit, quiet := cmp.Or(l.lag, longestLag), max(l.quiet, quietFor)
	last, changed := int64(0), time.Now()
	for ; ctx.Err() == nil; time.Sleep(checkPause) {
		visible, answered, yes := r.watcher.seen.Load()-r.warm, r.answered.Load(), r.accepted.Load()
		loaded := time.Since(r.began)
		due := min(float64(len(r.presses)), l.rate*loaded.Seconds())
		open := due - float64(answered) + float64(yes-visible)
		all := answered == int64(len(r.presses))
		if all && (yes == visible || r.ended(ctx)+visible == yes) {
			return false
		}
		if visible+answered != last {
			last, changed = visible+answered, time.Now()
		}
		switch {
		case l.length > limit && open > l.rate*limit.Seconds(), loaded-l.length > drainWithin+l.quiet:
			return true
		case all && time.Since(changed) > quiet:
			return false // the rest is lost
		}
	}
	return false
}

// ended counts the accepted users who found all seats issued.
func (r *running) ended(ctx context.Context) int64 {
	rest, err := r.readNotSelected(ctx)
	if err != nil {
		return 0 // the next call asks again
	}
	return int64(len(rest))
}

// sum fills the outcome.
func (r *running) sum(o *outcome, rows []row, warm []onePress, notSelected map[key]bool) {
	offset := r.began.Sub(r.watcher.began)
	ended := time.Since(r.began)
	var latencies load.Waits
	var promises []promise
	var lastDue, lastVisible time.Duration
	for i := range r.presses {
		p := &r.presses[i]
		lastDue = max(lastDue, p.due)
		o.pressed[p.answer]++
		if p.answer != accepted {
			continue
		}
		promises = append(promises, promise{p.coupon, p.user, p.order, p.due})
		if notSelected[key{p.coupon, p.user}] {
			o.notChosen++
			continue
		}
		if p.repeated {
			continue
		}
		at := r.watcher.visible[p.user] - offset
		if r.watcher.visible[p.user] == 0 {
			o.unseen++
			at = max(ended, p.due) // at least
		} else {
			lastVisible = max(lastVisible, at)
			o.events = append(o.events, event{p.due, at})
		}
		latencies = append(latencies, at-p.due)
	}
	for _, p := range warm {
		promises = append(promises, promise{p.coupon, p.user, p.order, -offset})
	}
	o.latency = latencies.Quantiles()
	if lastVisible > 0 {
		o.rows = float64(len(o.events)) / (lastVisible - r.presses[0].due).Seconds()
	}
	o.drain = max(0, lastVisible-lastDue)
	steady := !grow(latencies) && o.drain <= steadyDrain
	o.growing = o.gaveUp || !steady && !o.burst
	if failure := r.failure.Load(); failure != nil {
		o.failure = *failure
	}
	o.verdict = judge(r.seats, promises, rows, notSelected)
	if o.gaveUp {
		o.verdict.Lost = 0 // the rest was still to come
	}
	if r.watcher.asked > 0 {
		o.watched = r.watcher.took / time.Duration(r.watcher.asked)
	}
}

// grow reports whether latencies, in the order of the due times, kept growing: the median of the last fifth is far
// above that of the second.
func grow(w load.Waits) bool {
	const parts, allowance = 5, 100 * time.Millisecond
	fifth := len(w) / parts
	if fifth == 0 {
		return false
	}
	return w[len(w)-fifth:].Quantile(0.5) > 2*w[fifth:2*fifth].Quantile(0.5)+allowance
}
