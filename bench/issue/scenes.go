package issue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jajeong/jajeong/bench/report"
	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/load"
)

// ladder has the offered rates of the search for the knee.
var ladder = []float64{1000, 1500, 2000, 3000, 4500, 7000, 10000, 14000, 20000, 28000, 40000}

// knee is the highest offered rate at which the lag did not grow.
type knee struct {
	sustained float64
	latency   load.Quantiles
	grew      string // at the next rate; –: the ladder ended
}

// findKnees climbs until the lag grows.
func (m *measurement) findKnees(ctx context.Context) (string, error) {
	var rows []report.Row[knee]
	for _, c := range *m.contenders {
		if c.variant {
			continue
		}
		k := knee{grew: "–"}
		for _, rate := range ladder {
			if rate > highRate && *m.quick > 1 {
				break
			}
			l := plan{rate: m.rate(rate), length: m.part(12), lag: 2 * time.Second}
			found, err := m.once(ctx, c, l.of(1, interval), l, nil)
			if err != nil {
				return "", err
			}
			if found.growing {
				k.grew = report.Whole(l.rate)
				break
			}
			k.sustained, k.latency = l.rate, found.latency
		}
		rows = append(rows, report.Row[knee]{Name: c.title, Rounds: []knee{k}})
	}
	return "The highest offered rate without growing lag, on one coupon:\n\n" + report.Table("contender", rows,
		report.Median("presses/s", report.Whole, func(k knee) float64 { return k.sustained }),
		report.Elapsed("p50", func(k knee) time.Duration { return k.latency.P50 }),
		report.Elapsed("p99", func(k knee) time.Duration { return k.latency.P99 }),
		report.Text("the lag grew at", func(k knee) string { return k.grew })), nil
}

// idle is the cost of workers without work.
type idle struct {
	coupons, workers int
	stage.Used
}

func (m *measurement) measureIdle(ctx context.Context) (string, error) {
	var rows []report.Row[idle]
	for _, c := range *m.contenders {
		if c.variant || c.workers == 0 {
			continue
		}
		of := setup{coupons: 1, seats: 100, users: 100, interval: interval, idle: true}
		if c.name == yardstick {
			of.coupons = int(m.rate(1000))
		}
		found, err := m.idle(ctx, c, of)
		if err != nil {
			return "", err
		}
		rows = append(rows, report.Row[idle]{Name: c.title, Rounds: []idle{{of.coupons, c.workers, found}}})
	}
	return "Nobody presses:\n\n" + report.Table("contender", rows,
		report.Sum("open coupons", func(i idle) int { return i.coupons }),
		report.Sum("workers", func(i idle) int { return i.workers }),
		report.Median("Redis commands/s", report.Whole,
			func(i idle) float64 { return i.In(time.Second, i.RedisCommands) }),
		report.Median("CPU of the workers, of a core", report.Share,
			func(i idle) float64 { return i.In(time.Second, i.Own.Seconds()) })), nil
}

func (m *measurement) idle(ctx context.Context, c contender, of setup) (u stage.Used, err error) {
	v, err := m.openStand(ctx, c, of)
	if err != nil {
		return u, err
	}
	defer v.close()
	if err := stage.Wait(ctx, m.part(12)); err != nil { // until what a start does has ended
		return u, err
	}
	var pids []int
	for _, cmd := range v.workers {
		pids = append(pids, cmd.Process.Pid)
	}
	return v.Use(ctx, pids, func() error { return stage.Wait(ctx, m.part(6)) })
}

// fault is what a contender did after a kill or without MySQL.
type fault struct {
	outcome
	goesOn  string
	first   time.Duration // from the return, or from the kill, to the first new row; 0: none
	longest time.Duration // the longest latency of the presses that the fault met
}

const (
	awayFor = 5 * time.Second
	// leaseOver is longer than the lease of asynq with its allowance for clocks, and the interval at which it looks.
	leaseOver = 150 * time.Second
	// around is the time before and after a fault in which it meets presses.
	around = time.Second
)

// strikes has the times of a disturbance since the start of the load.
type strikes struct{ from, until time.Duration }

func (m *measurement) measureFaults(ctx context.Context) (string, error) {
	length := max(m.part(6), 4*time.Second)
	l := plan{rate: m.rate(lowRate), length: length, lag: time.Minute, quiet: leaseOver}
	var rows []report.Row[fault]
	strike := func(c contender, name, goesOn string, do func(v *stand) error) error {
		var struck strikes
		found, err := m.once(ctx, c, l.of(1, interval), l, func(v *stand) disturbance {
			return func(ctx context.Context, began time.Time) error {
				if err := stage.Wait(ctx, length/5-time.Since(began)); err != nil {
					return err
				}
				struck.from = time.Since(began)
				err := do(v)
				struck.until = time.Since(began)
				return err
			}
		})
		f := found.after(struck)
		f.goesOn = goesOn
		rows = append(rows, report.Row[fault]{Name: name + " | " + c.title, Rounds: []fault{f}})
		return err
	}
	for _, c := range *m.contenders {
		var err error
		if c.workers > 0 {
			err = strike(c, "kill −9 of a worker", c.resumes, func(v *stand) error {
				if v.killWorker(); len(v.workers) > 0 {
					return nil
				}
				return v.addWorker(ctx)
			})
		}
		if server := m.Server(); err == nil && !c.variant && server != nil {
			err = strike(c, "MySQL away for 5 s", "–", func(*stand) error {
				if err := server.Kill(); err != nil {
					return err
				}
				if err := stage.Wait(ctx, awayFor); err != nil {
					return err
				}
				return server.Restart(ctx)
			})
		}
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("Faults at %.0f presses/s on one coupon:\n\n", l.rate) +
		report.Table("fault | contender", rows,
			report.Text("goes on", func(f fault) string { return f.goesOn }),
			report.Elapsed("first new row", func(f fault) time.Duration { return f.first }),
			report.Elapsed("longest wait", func(f fault) time.Duration { return f.longest }),
			report.Sum("told an error", func(f fault) int { return f.pressed[failed] }),
			report.Sum("lost", func(f fault) int { return f.verdict.Lost }),
			report.Sum("twice", func(f fault) int { return f.verdict.Twice }),
			report.Sum("inversions", func(f fault) int { return f.verdict.Inversions })), nil
}

// after measures how a contender went on. A row is new if its press was due after the strike began.
func (o outcome) after(struck strikes) fault {
	f := fault{outcome: o}
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

// compareWithNight issues the same line once by a nightly settlement and once immediately, in turn.
func (m *measurement) compareWithNight(ctx context.Context) (string, error) {
	const nightly = "one nightly settlement, `settle run`"
	seats := int(m.rate(burst))
	rate := func(took time.Duration) float64 { return float64(seats) / took.Seconds() }
	columns := []report.Column[time.Duration]{
		report.Elapsed("time", func(took time.Duration) time.Duration { return took }),
		report.Median("rows/s", report.Whole, rate), report.Ratio("ratio", report.To(nightly), rate),
	}
	rows, err := report.InTurn(3, []report.Way[time.Duration]{
		{Name: nightly, Measure: func() (time.Duration, error) { return m.issueLine(ctx, seats, true) }},
		{Name: "immediately, `settle serve`", Measure: func() (time.Duration, error) {
			return m.issueLine(ctx, seats, false)
		}},
	}, columns...)
	for _, row := range m.loads {
		if o := row.Rounds[0]; o.contender.name == yardstick && o.rate == float64(seats) && o.coupons == 1 &&
			o.interval == interval {
			rows = append(rows, report.Row[time.Duration]{
				Name:   "immediately, while they press for a second, from the first press",
				Rounds: []time.Duration{o.length + o.drain},
			})
		}
	}
	return fmt.Sprintf("%d in line for as many seats, from the start of the process to the last visible row:\n\n",
		seats) +
		report.Table("", rows, columns...), err
}

// issueLine has all users in line while nothing issues, and measures how long issuing takes.
func (m *measurement) issueLine(ctx context.Context, seats int, nightly bool) (took time.Duration, err error) {
	c := contenders[0]
	c.workers = 0
	v, err := m.openStand(ctx, c, setup{coupons: 1, seats: seats, users: seats, interval: interval})
	if err != nil {
		return 0, err
	}
	defer v.close()
	if err := v.Fill(ctx, 1, 1, seats, time.Minute); err != nil {
		return 0, err
	}
	var running sync.WaitGroup
	var failure error
	began := time.Now()
	if nightly {
		if err := v.Exec(ctx, "UPDATE coupon SET cadence = 'NIGHTLY'"); err != nil {
			return 0, err
		}
		cmd, err := v.Settle(ctx, stage.ByHand...)
		if err != nil {
			return 0, err
		}
		began = time.Now()
		running.Go(func() { _, failure = stage.Output(cmd) })
	} else if err := v.addWorker(ctx); err != nil {
		return 0, err
	}
	err = stage.Until(ctx, "issue all seats", time.Minute, func() (bool, error) {
		n, err := v.Number(ctx, "SELECT issued_count FROM coupon WHERE id = 1")
		return n == seats, err
	})
	took = time.Since(began)
	if running.Wait(); err == nil {
		err = failure
	}
	if v.stopWorkers(); err == nil {
		err = v.Verify(ctx)
	}
	return took, err
}
