package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jajeong/jajeong/bench/process"
)

// scene is one group of measurements. It returns its result in Markdown.
type scene struct {
	name string
	run  func(ctx context.Context, s *stage, o options, measured *[]outcome) (string, error)
}

const loadsScene = "loads"

var scenes = []scene{
	{loadsScene, measureLoads},
	{"knee", findKnees},
	{"idle", measureIdle},
	{"faults", measureFaults},
	{"yardstick", compareWithNight},
}

const (
	interval = 100 * time.Millisecond // the default of ISSUE_INTERVAL
	lowRate  = 1_000
	highRate = 10_000
	burst    = 50_000

	burstLength = time.Second
	quickBurst  = 10_000
	manySeats   = 0.8 // seats per press in the burst on ten coupons: some users find the coupon sold out
	tenCoupons  = 10
)

// once opens a stand for one load.
func (s *stage) once(ctx context.Context, c contender, of setup, l load, disturb func(*stand) disturbance) (o outcome, err error) {
	v, err := s.openStand(ctx, c, of)
	if err != nil {
		return o, err
	}
	defer v.close()
	var during disturbance
	if disturb != nil {
		during = disturb(v)
	}
	if o, err = v.run(ctx, l, during); err != nil {
		return o, err
	}
	if disturb == nil {
		o.events = nil
	}
	say("%-9s %6.0f/s on %2d, %5s: p50 %s  p99 %s  p99.9 %s  %.0f rows/s, drained after %s; inversions %d (%s), oversold %d, twice %d, lost %d; errors %d %s%s; watch %s",
		c.name, l.rate, of.coupons, of.interval, o.latency.P50, o.latency.P99, o.latency.P999, o.rows, o.drain.Round(time.Millisecond), o.verdict.Inversions, o.verdict.Overtaken.Round(time.Millisecond),
		o.verdict.Oversold, o.verdict.Twice, o.verdict.Lost, o.pressed[failed], o.failure, map[bool]string{true: " lag grows"}[o.growing], o.watched)
	return o, nil
}

func measureLoads(ctx context.Context, s *stage, o options, measured *[]outcome) (string, error) {
	type measurement struct {
		load
		setup
		contender
	}
	var plan []measurement
	add := func(c contender, l load, coupons int, every time.Duration) {
		of := l.of(coupons, every)
		if coupons > 1 && l.length == burstLength {
			of.seats = int(manySeats * float64(l.presses()) / float64(coupons))
		}
		plan = append(plan, measurement{l, of, c})
	}
	peak := load{rate: burst, length: burstLength}
	if o.quick {
		peak.rate = quickBurst
	}
	for _, coupons := range []int{1, tenCoupons} {
		for _, l := range []load{{rate: lowRate, length: o.length}, {rate: highRate, length: o.length}, peak} {
			if o.quick && (coupons == 1 && l.rate != lowRate || coupons > 1 && l != peak) {
				continue
			}
			if coupons > 1 {
				l.length = min(l.length, o.short)
			}
			for _, c := range o.contenders {
				if c.variant && coupons > 1 {
					continue
				}
				if c.variant {
					add(c, load{rate: l.rate, length: min(l.length, o.short)}, coupons, interval)
					continue
				}
				add(c, l, coupons, interval)
				if c.name == yardstick && coupons == 1 && !o.quick {
					brief := load{rate: l.rate, length: min(l.length, o.short)}
					add(c, brief, coupons, 20*time.Millisecond)
					add(c, brief, coupons, 200*time.Millisecond)
				}
			}
		}
	}
	for _, m := range plan {
		found, err := s.once(ctx, m.contender, m.setup, m.load, nil)
		if err != nil {
			return "", err
		}
		*measured = append(*measured, found)
	}
	return renderLoads(*measured), nil
}

// ladder has the offered rates of the search for the knee.
var ladder = []float64{1000, 1500, 2000, 3000, 4500, 7000, 10000, 14000, 20000, 28000, 40000}

// knee is the highest offered rate at which the lag did not grow.
type knee struct {
	contender
	sustained float64
	latency   quantiles
	refused   float64 // the next rate, at which it grew; 0: the ladder ended
}

// findKnees climbs until the lag grows. A rate that a contender has sustained in the loads is not repeated.
func findKnees(ctx context.Context, s *stage, o options, measured *[]outcome) (string, error) {
	length, rates := 5*time.Second, ladder
	if o.quick {
		length, rates = 2*time.Second, []float64{lowRate}
	}
	var all []knee
	for _, c := range o.contenders {
		if c.variant {
			continue
		}
		k := knee{contender: c}
		for _, m := range *measured {
			if m.contender.name == c.name && m.coupons == 1 && m.interval == interval && m.rate == highRate && m.length > burstLength && !m.growing {
				k.sustained, k.latency = m.rate, m.latency
			}
		}
		for _, rate := range rates {
			if rate <= k.sustained {
				continue
			}
			l := load{rate: rate, length: length, lag: 2 * time.Second}
			found, err := s.once(ctx, c, l.of(1, interval), l, nil)
			if err != nil {
				return "", err
			}
			if found.growing {
				k.refused = rate
				break
			}
			k.sustained, k.latency = rate, found.latency
		}
		all = append(all, k)
	}
	return renderKnees(all), nil
}

// idle is the cost of a worker without work.
type idle struct {
	contender
	coupons  int
	commands float64 // of Redis, per second
	cpu      float64 // of all workers, share of a core
}

const (
	idleCoupons = 1000
	idleSettles = 5 * time.Second // until what a start does has ended
	idleFor     = 10 * time.Second
)

func measureIdle(ctx context.Context, s *stage, o options, _ *[]outcome) (string, error) {
	settles, length := idleSettles, idleFor
	if o.quick {
		settles, length = time.Second, 2*time.Second
	}
	var all []idle
	for _, c := range o.contenders {
		if c.variant || c.workers == 0 {
			continue
		}
		of := setup{coupons: 1, seats: 100, users: 100, interval: interval, idle: true}
		if c.name == yardstick {
			of.coupons = idleCoupons
		}
		found, err := s.idle(ctx, c, of, settles, length)
		if err != nil {
			return "", err
		}
		say("%-9s idle: %.0f commands/s, %.2f %% of a core", c.name, found.commands, 100*found.cpu)
		all = append(all, found)
	}
	return renderIdle(all), nil
}

func (s *stage) idle(ctx context.Context, c contender, of setup, settles, length time.Duration) (i idle, err error) {
	v, err := s.openStand(ctx, c, of)
	if err != nil {
		return i, err
	}
	defer v.close()
	wait(ctx, settles)
	before, used, began := v.commands(ctx), v.workerTime(), time.Now()
	wait(ctx, length)
	took := time.Since(began).Seconds()
	const ownCommands = 1 // the first INFO
	i = idle{contender: c, coupons: of.coupons, cpu: (v.workerTime() - used).Seconds() / took}
	i.commands = (v.commands(ctx) - before - ownCommands) / took
	return i, ctx.Err()
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (v *stand) commands(ctx context.Context) float64 {
	info, err := v.rdb.InfoMap(ctx, "stats").Result()
	var n float64
	if err == nil {
		_, err = fmt.Sscan(info["Stats"]["total_commands_processed"], &n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-issue: read commands of Redis:", err)
	}
	return n
}

func (v *stand) workerTime() (used time.Duration) {
	for _, cmd := range v.workers {
		used += process.CPUTime(cmd.Process.Pid)
	}
	return used
}

// fault is what a contender did after a kill or without MySQL.
type fault struct {
	outcome
	what      string
	first     time.Duration // from the return, or from the kill, to the first new row; 0: none
	longest   time.Duration // the longest latency of the presses that the fault met
	toldError int
}

const (
	faultLoad  = 16 * time.Second
	faultAfter = 3 * time.Second
	awayFor    = 5 * time.Second
	killed     = "kill −9 of a worker"
	// leaseOver is longer than the lease of asynq with its allowance for clocks, and the interval at which it looks.
	leaseOver = 150 * time.Second
)

func measureFaults(ctx context.Context, s *stage, o options, _ *[]outcome) (string, error) {
	l, after := load{rate: lowRate, length: faultLoad, lag: time.Minute, quiet: leaseOver}, faultAfter
	if o.quick {
		l.length, l.quiet, after = 3*time.Second, 0, time.Second
	}
	var all []fault
	strike := func(c contender, what string, disturb func(v *stand, struck *strikes) disturbance) error {
		var struck strikes
		found, err := s.once(ctx, c, l.of(1, interval), l, func(v *stand) disturbance { return disturb(v, &struck) })
		if err != nil {
			return err
		}
		f := found.after(&struck)
		f.what = what
		say("%-9s %s: first new row after %s, longest wait %s, errors %d, lost %d", c.name, what, f.first, f.longest, f.toldError, f.verdict.Lost)
		all = append(all, f)
		return nil
	}
	for _, c := range o.contenders {
		if c.workers > 0 && !(o.quick && c.variant) {
			err := strike(c, killed, func(v *stand, struck *strikes) disturbance { return v.killOne(after, struck) })
			if err != nil {
				return "", err
			}
		}
		if o.quick || c.variant || !s.Own() {
			continue
		}
		err := strike(c, "MySQL away for 5 s", func(v *stand, struck *strikes) disturbance { return v.databaseAway(after, struck) })
		if err != nil {
			return "", err
		}
	}
	return renderFaults(all), nil
}

// strikes has the times of a disturbance since the start of the load.
type strikes struct {
	mu          sync.Mutex
	from, until time.Duration
}

func (s *strikes) set(from, until time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from, s.until = from, until
}

// killOne kills one worker. If it was the only one, another is started immediately.
func (v *stand) killOne(after time.Duration, struck *strikes) disturbance {
	return func(ctx context.Context, began time.Time) error {
		wait(ctx, after-time.Since(began))
		at := time.Since(began)
		v.killWorkers(1)
		struck.set(at, at)
		if len(v.workers) > 0 {
			return nil
		}
		return v.addWorker(ctx)
	}
}

// databaseAway kills MySQL, and starts it again.
func (v *stand) databaseAway(after time.Duration, struck *strikes) disturbance {
	return func(ctx context.Context, began time.Time) error {
		wait(ctx, after-time.Since(began))
		from := time.Since(began)
		if err := v.stage.Kill(); err != nil {
			return err
		}
		wait(ctx, awayFor)
		err := v.stage.Restart(ctx)
		struck.set(from, time.Since(began))
		return err
	}
}

// around is the time before and after a fault in which it meets presses.
const around = time.Second

// after measures how a contender went on. A row is new if its press was due after the strike began.
func (o outcome) after(struck *strikes) fault {
	f := fault{outcome: o, toldError: o.pressed[failed]}
	f.events = nil
	for _, e := range o.events {
		if e.due >= struck.from && (f.first == 0 || e.visible-struck.until < f.first) {
			f.first = max(0, e.visible-struck.until)
		}
		if e.due >= struck.from-around && e.due < struck.until+around {
			f.longest = max(f.longest, e.visible-e.due)
		}
	}
	return f
}
