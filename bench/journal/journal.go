// Package journal measures the journal and the restore from it: rows per second beside plain INSERTs and beside other
// ways to write the rows, what applying and a settlement lose while the journal is written, what looking at idle
// coupons costs, and how long it takes to put a whole line back.
package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/bench/applicants"
	"github.com/jajeong/jajeong/bench/report"
	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/testenv"
)

type measurement struct {
	*stage.Stage
	scenes                   *[]stage.Scene[*measurement]
	rounds, backlog, settled *int
	lines, rate, idle        *int
	seconds, watched         *time.Duration
}

const (
	without, with = "without the journal", "with it"
	connections   = 128
	warmUp        = time.Second
	// listed is how long the journal may take to list its coupons.
	listed = 2 * time.Second
	// turns is how often the journal is turned on and off in a round: these measurements are short, and vary.
	turns = 2
	// longFor is how many times as long as the settled line the other line is: the journal is not done before the
	// settlement.
	longFor = 3
	// restoreWithin bounds a restore.
	restoreWithin = 3 * time.Minute
)

// New registers the flags.
func New(o *stage.Options) func(ctx context.Context, s *stage.Stage) (string, error) {
	m := &measurement{
		rounds: o.Rounds(3),
		scenes: stage.Scenes(o, []stage.Scene[*measurement]{
			{Name: "long", Play: (*measurement).longLine}, {Name: "short", Play: (*measurement).shortLines},
			{Name: "applying", Play: (*measurement).applying}, {Name: "settlement", Play: (*measurement).settlement},
			{Name: "idle", Play: (*measurement).idling}, {Name: "restore", Play: (*measurement).restore},
		}),
		backlog: o.Int("backlog", 1_000_000, 1000, 5_000_000, "applications of the long line"),
		lines:   o.Int("lines", 1000, 50, 10_000, "short lines"),
		settled: o.Int("settled", 200_000, 1000, 1_000_000, "applications of the settlement"),
		rate:    o.Int("rate", 5000, 1, 100_000, "applications per second of the steady load"),
		idle:    o.Int("idle", 10_000, 100, 10_000, "the most idle coupons"),
		seconds: o.Duration("seconds", 3, 0.2, 60, "each load without its warm-up"),
		watched: o.Duration("watched", 8, 0.5, 60, "how long idle coupons are watched"),
	}
	return func(ctx context.Context, s *stage.Stage) (string, error) {
		m.Stage = s
		return stage.Play(ctx, m, *m.scenes)
	}
}

// both are the ways without the journal and with it.
func both[R any](measure func(journal bool) (R, error)) []report.Way[R] {
	return []report.Way[R]{
		{Name: without, Measure: func() (R, error) { return measure(false) }},
		{Name: with, Measure: func() (R, error) { return measure(true) }},
	}
}

// applied is what applicants and servers need.
type applied struct {
	peak, steady   applicants.Outcome
	behind         int           // applications that the journal lacked at the end of the steady load
	redis, journal time.Duration // CPU time for an application of the steady load; of the journal with MySQL
}

// applying measures applying at the peak and at a steady rate.
func (m *measurement) applying(ctx context.Context) (string, error) {
	p, err := m.OpenShop(ctx, 1, stage.Never)
	if err != nil {
		return "", err
	}
	defer p.Close()
	pod, l, err := m.openPod(ctx, p)
	if err != nil {
		return "", err
	}
	defer func() { _ = pod.Stop() }()
	peak := func(r applied) float64 { return r.peak.Rate() }
	table, err := report.Measured("", turns**m.rounds,
		both(func(journal bool) (applied, error) { return m.applyBeside(ctx, p, &l, journal) }),
		report.Median("peak, applications/s", report.Whole, peak),
		report.Ratio("ratio by turn", report.To(without), peak),
		report.Elapsed("peak, p99", func(r applied) time.Duration { return r.peak.FromDue.P99 }),
		report.Elapsed("steady, p50", func(r applied) time.Duration { return r.steady.FromDue.P50 }),
		report.Elapsed("p99", func(r applied) time.Duration { return r.steady.FromDue.P99 }),
		report.Ratio("ratio by turn", report.To(without),
			func(r applied) float64 { return r.steady.FromDue.P99.Seconds() }),
		report.CPUTime("CPU of Redis", func(r applied) time.Duration { return r.redis }),
		report.CPUTime("of the journal and MySQL", func(r applied) time.Duration { return r.journal }),
		report.Count("behind", func(r applied) int { return r.behind }))
	return fmt.Sprintf("Applying: %d connections, %s each, %d turns, the steady rate is %d/s:\n\n", connections,
		*m.seconds, turns**m.rounds, *m.rate) + table, err
}

// openPod starts a pod that accepts applications.
func (m *measurement) openPod(ctx context.Context, p *stage.Shop) (*testenv.Program, applicants.Load, error) {
	l := applicants.Load{Coupon: 1, Connections: connections, First: applicants.FirstUser}
	pod, err := p.StartPod(ctx, "")
	if err != nil {
		return nil, l, err
	}
	l.Address = pod.Apply
	return pod, l, l.AwaitOpen(ctx)
}

// load sends applications of new users while do works.
func (m *measurement) load(ctx context.Context, l *applicants.Load, rate int, do func() error) (applicants.Outcome,
	error) {
	l.Rate = float64(rate)
	o, err := l.During(ctx, m.Stage, warmUp, do)
	l.First += uint64(o.Answered + o.Failed + 1000)
	return o, err
}

// wait is a load's length.
func (m *measurement) wait(ctx context.Context) func() error {
	return func() error { return stage.Wait(ctx, *m.seconds) }
}

// applyBeside lets a journal copy first what it lacks.
func (m *measurement) applyBeside(ctx context.Context, p *stage.Shop, l *applicants.Load, journal bool) (r applied,
	err error) {
	pid, ready := 0, func() error { return nil }
	if journal {
		var stop func()
		if pid, stop, err = p.Serve(ctx, "journal"); err != nil {
			return r, err
		}
		defer stop()
		ready = func() error {
			return stage.Until(ctx, "copy the whole line", time.Minute, func() (bool, error) {
				n, err := behind(ctx, p)
				return n == 0, err
			})
		}
	}
	if err = ready(); err == nil {
		r.peak, err = m.load(ctx, l, 0, m.wait(ctx))
	}
	if err == nil {
		err = ready()
	}
	if err != nil {
		return r, err
	}
	r.steady, err = m.load(ctx, l, *m.rate, func() error {
		used, err := p.Use(ctx, []int{pid}, m.wait(ctx))
		n := time.Duration(float64(*m.rate) * m.seconds.Seconds())
		r.redis, r.journal = used.Redis/n, (used.Own+used.MySQL)/n
		if err == nil && journal {
			r.behind, err = behind(ctx, p)
		}
		return err
	})
	return r, errors.Join(err, r.peak.Fault(), r.steady.Fault())
}

// behind is how many applications of coupon 1 the journal lacks.
func behind(ctx context.Context, p *stage.Shop) (int, error) {
	stored, err := p.Number(ctx, "SELECT COUNT(*) FROM line_journal WHERE coupon_id = 1")
	if err != nil {
		return 0, err
	}
	waiting, err := p.RDB.ZCard(ctx, stage.QueueKey(1)).Result()
	return int(waiting) - stored, err
}

// settled is a settlement with the journal or without it.
type settled struct {
	took time.Duration // the whole process
	rows int           // that the journal has written meanwhile
}

// settlement measures `settle run` of one coupon while the journal copies the long line of another.
func (m *measurement) settlement(ctx context.Context) (string, error) {
	table, err := report.Measured("", turns**m.rounds,
		both(func(journal bool) (settled, error) { return m.settleBeside(ctx, journal) }),
		report.Elapsed("settle run", func(r settled) time.Duration { return r.took }),
		report.Ratio("ratio by turn", report.To(without), func(r settled) float64 { return r.took.Seconds() }),
		report.Count("rows that the journal wrote meanwhile", func(r settled) int { return r.rows }))
	return fmt.Sprintf("`settle run` issues %d coupons while the journal copies %d applications for another coupon; "+
		"%d turns:\n\n", *m.settled, longFor**m.settled, turns**m.rounds) + table, err
}

func (m *measurement) settleBeside(ctx context.Context, journal bool) (r settled, err error) {
	p, err := m.OpenShop(ctx, 2, *m.settled)
	if err != nil {
		return r, err
	}
	defer p.Close()
	err = p.AddUsers(ctx, firstUser, *m.settled)
	if err == nil {
		err = p.Fill(ctx, 1, firstUser, *m.settled, time.Hour)
	}
	if err == nil {
		err = p.Fill(ctx, 2, firstUser, longFor**m.settled, time.Hour)
	}
	if err == nil {
		_, err = copyLines(ctx, p, copiers[0], 1)
	}
	if err != nil {
		return r, err
	}
	copied := func() (int, error) { return p.Number(ctx, "SELECT COUNT(*) FROM line_journal WHERE coupon_id = 2") }
	if journal {
		_, stop, err := p.Serve(ctx, "journal")
		if err != nil {
			return r, err
		}
		defer stop()
		err = stage.Until(ctx, "begin to copy", time.Minute, func() (bool, error) {
			n, err := copied()
			return n > 0, err
		})
		if err != nil {
			return r, err
		}
	}
	before, err := copied()
	if err != nil {
		return r, err
	}
	cmd, err := p.Settle(ctx, append(stage.ByHand, "--coupon=1")...)
	if err != nil {
		return r, err
	}
	began := time.Now()
	out, err := stage.Output(cmd)
	if r.took = time.Since(began); err != nil {
		return r, err
	}
	var told struct{ Total struct{ Issued int } }
	if err := json.Unmarshal(out, &told); err != nil || told.Total.Issued != *m.settled {
		return r, fmt.Errorf("settle run issued %d of %d: %w", told.Total.Issued, *m.settled, err)
	}
	r.rows, err = copied()
	r.rows -= before
	return r, err
}

// idling measures the journal while nobody applies.
func (m *measurement) idling(ctx context.Context) (string, error) {
	var ways []report.Way[stage.Used]
	for n := 10; n <= *m.idle; n *= 10 {
		ways = append(ways, report.Way[stage.Used]{Name: fmt.Sprint(n), Measure: func() (stage.Used, error) {
			return m.idleWith(ctx, n)
		}})
	}
	share := func(head string, cpu func(stage.Used) time.Duration) report.Column[stage.Used] {
		return report.Median(head, report.Share,
			func(u stage.Used) float64 { return u.In(time.Second, cpu(u).Seconds()) })
	}
	table, err := report.Measured("open coupons", 1, ways,
		report.Median("Redis commands/s", report.Whole,
			func(u stage.Used) float64 { return u.In(time.Second, u.RedisCommands) }),
		share("CPU of Redis", func(u stage.Used) time.Duration { return u.Redis }),
		share("of settle serve", func(u stage.Used) time.Duration { return u.Own }),
		share("of MySQL", func(u stage.Used) time.Duration { return u.MySQL }))
	return fmt.Sprintf("Nobody applies; %s each, CPU time as a share of one core:\n\n", *m.watched) + table, err
}

func (m *measurement) idleWith(ctx context.Context, coupons int) (u stage.Used, err error) {
	p, err := m.OpenShop(ctx, coupons, 1)
	if err != nil {
		return u, err
	}
	defer p.Close()
	pid, stop, err := p.Serve(ctx, "journal")
	if err != nil {
		return u, err
	}
	defer stop()
	if err := stage.Wait(ctx, listed); err != nil {
		return u, err
	}
	return p.Use(ctx, []int{pid}, func() error { return stage.Wait(ctx, *m.watched) })
}

// restored is a restore of a whole line.
type restored struct {
	stage.Used    // from the loss
	quiet, during applicants.Outcome
	behind        int // applications that the journal lacked at its end
}

// restore measures how `settle serve --tasks journal` notices a loss and restores the line, while users apply or not.
func (m *measurement) restore(ctx context.Context) (string, error) {
	table, err := report.Measured("applicants", *m.rounds, []report.Way[restored]{
		{Name: "none", Measure: func() (restored, error) { return m.restoreOnce(ctx, false) }},
		{Name: "yes", Measure: func() (restored, error) { return m.restoreOnce(ctx, true) }},
	},
		report.Elapsed("time", func(r restored) time.Duration { return r.Took }),
		report.Spread("spread", report.Time, func(r restored) float64 { return r.Took.Seconds() }),
		report.Median("rows/s", report.Whole, func(r restored) float64 {
			return r.In(time.Second,
				float64(*m.backlog))
		}),
		report.Elapsed("CPU of Redis", func(r restored) time.Duration { return r.Redis }),
		report.Elapsed("apply p99 before", func(r restored) time.Duration { return r.quiet.FromDue.P99 }),
		report.Elapsed("during", func(r restored) time.Duration { return r.during.FromDue.P99 }),
		report.Within("ratio by round", func(r restored) float64 { return r.during.FromDue.P99.Seconds() },
			func(r restored) float64 { return r.quiet.FromDue.P99.Seconds() }),
		report.Count("not accepted", func(r restored) int { return r.during.NotAccepted() }),
		report.Count("behind", func(r restored) int { return r.behind }))
	return fmt.Sprintf("Redis loses a coupon with %d journalled applications. Applicants apply for it %d times a "+
		"second. The time includes the 10 s that pods have to hand over whom they know:\n\n",
		*m.backlog, *m.rate) + table, err
}

func (m *measurement) restoreOnce(ctx context.Context, applying bool) (r restored, err error) {
	p, err := m.OpenShop(ctx, 1, stage.Never)
	if err != nil {
		return r, err
	}
	defer p.Close()
	if err := p.Fill(ctx, 1, firstUser, *m.backlog, time.Hour); err != nil {
		return r, err
	}
	if _, err := copyLines(ctx, p, copiers[0], 1); err != nil {
		return r, err
	}
	_, stop, err := p.Serve(ctx, "journal")
	if err != nil {
		return r, err
	}
	defer stop()
	lose := func() (err error) {
		if r.Used, err = p.Use(ctx, nil, func() error { return loseLine(ctx, p) }); err != nil {
			return err
		}
		back, err := p.RDB.ZCount(ctx, stage.QueueKey(1), "-inf", fmt.Sprint(p.Last)).Result()
		if err == nil && int(back) < *m.backlog {
			err = fmt.Errorf("%d of %d applications are back", back, *m.backlog)
		}
		if err == nil {
			r.behind, err = behind(ctx, p)
		}
		return err
	}
	if !applying {
		if err := stage.Wait(ctx, listed); err != nil {
			return r, err
		}
		return r, lose()
	}
	pod, l, err := m.openPod(ctx, p)
	if err != nil {
		return r, err
	}
	defer func() { _ = pod.Stop() }()
	if r.quiet, err = m.load(ctx, &l, *m.rate, m.wait(ctx)); err != nil {
		return r, err
	}
	r.during, err = m.load(ctx, &l, *m.rate, lose)
	return r, err
}

// loseLine deletes what Redis has of coupon 1, and waits until it is restored.
func loseLine(ctx context.Context, p *stage.Shop) error {
	if err := p.RDB.Unlink(ctx, stage.QueueKey(1), stage.StateKey(1)).Err(); err != nil {
		return err
	}
	return stage.Until(ctx, "restore", restoreWithin, func() (bool, error) {
		fields, err := p.RDB.HMGet(ctx, stage.StateKey(1), "since", "restored").Result()
		return err == nil && fields[0] != nil && fields[0] == fields[1], err
	})
}
