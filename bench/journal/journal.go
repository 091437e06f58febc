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
	scenes                   *[]string
	rounds, backlog, settled *int
	lines, rate, idle        *int
	seconds, watched         *float64
}

const (
	without, with = "without the journal", "with it"
	connections   = 128
	warmUp        = time.Second
	// listed is how long the journal may take to list its coupons.
	listed = 2 * time.Second
	// turns is how often the journal is turned on and off in a round: these measurements are short, and vary.
	turns = 2
)

var scenes = []struct {
	name string
	run  func(m *measurement, ctx context.Context) (string, error)
}{
	{"long", (*measurement).longLine},
	{"short", (*measurement).shortLines},
	{"applying", (*measurement).applying},
	{"settlement", (*measurement).settlement},
	{"idle", (*measurement).idling},
	{"restore", (*measurement).restore},
}

// New registers the flags.
func New(o *stage.Options) func(ctx context.Context, s *stage.Stage) (string, error) {
	var names []string
	for _, s := range scenes {
		names = append(names, s.name)
	}
	m := &measurement{
		scenes: o.Choice("scenes", names, names), rounds: o.Rounds(3),
		backlog: o.Int("backlog", 1_000_000, 1000, 5_000_000, "applications of the long line"),
		lines:   o.Int("lines", 1000, 50, 10_000, "short lines"),
		settled: o.Int("settled", 200_000, 1000, 1_000_000, "applications of the settlement"),
		rate:    o.Int("rate", 5000, 1, 100_000, "applications per second of the steady load"),
		idle:    o.Int("idle", 10_000, 100, 10_000, "the most idle coupons"),
		seconds: o.Seconds("seconds", 3, 0.2, 60, "each load without its warm-up"),
		watched: o.Seconds("watched", 8, 0.5, 60, "how long idle coupons are watched"),
	}
	return m.run
}

func (m *measurement) run(ctx context.Context, s *stage.Stage) (text string, err error) {
	m.Stage = s
	for _, name := range *m.scenes {
		for _, scene := range scenes {
			if scene.name != name {
				continue
			}
			found, err := scene.run(m, ctx)
			if err != nil {
				return "", fmt.Errorf("scene %s: %w", name, err)
			}
			text += found + "\n"
		}
	}
	return text, nil
}

// both are the rows of what is measured without the journal and with it.
var both = []string{without, with}

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
	latency := func(head string, figure func(applied) time.Duration) report.Column[applied] {
		return report.Elapsed(head, figure)
	}
	peak := func(r applied) float64 { return r.peak.Rate() }
	columns := []report.Column[applied]{
		report.Median("peak, applications/s", report.Whole, peak), report.Ratio("ratio by turn", report.To(without), peak),
		latency("peak, p99", func(r applied) time.Duration { return r.peak.FromDue.P99 }),
		latency("steady, p50", func(r applied) time.Duration { return r.steady.FromDue.P50 }),
		latency("p99", func(r applied) time.Duration { return r.steady.FromDue.P99 }),
		report.Ratio("ratio by turn", report.To(without), func(r applied) float64 { return r.steady.FromDue.P99.Seconds() }),
		report.Median("CPU of Redis", report.CPU, func(r applied) float64 { return r.redis.Seconds() }),
		report.Median("of the journal and MySQL", report.CPU, func(r applied) float64 { return r.journal.Seconds() }),
		report.Median("behind", report.Whole, func(r applied) float64 { return float64(r.behind) }),
	}
	rows, err := report.InTurn(turns**m.rounds, both, func(i int) (applied, error) {
		return m.applyBeside(ctx, p, &l, i == 1)
	}, columns...)
	return fmt.Sprintf("Applying: one coupon, %d connections, %.1f s each, %d turns. At the peak each connection "+
		"applies after an "+
		"answer. At the steady rate\nof %d/s latency counts from the time a request was due, and CPU time is that of one "+
		"application. Behind: applications that the\njournal lacked at the end of the steady "+
		"load:\n\n", connections, *m.seconds,
		turns**m.rounds, *m.rate) + report.Table("", rows, columns...), err
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
func (m *measurement) wait(ctx context.Context) error {
	return stage.Wait(ctx, time.Duration(*m.seconds*float64(time.Second)))
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
	if err := ready(); err != nil {
		return r, err
	}
	if r.peak, err = m.load(ctx, l, 0, func() error { return m.wait(ctx) }); err != nil {
		return r, err
	}
	if err := ready(); err != nil {
		return r, err
	}
	r.steady, err = m.load(ctx, l, *m.rate, func() error {
		redis, written := stage.CPU(p.Redis.Pid()), stage.CPU(pid)+stage.CPU(m.MySQLPid())
		err := m.wait(ctx)
		n := time.Duration(float64(*m.rate) * *m.seconds)
		r.redis = (stage.CPU(p.Redis.Pid()) - redis) / n
		r.journal = (stage.CPU(pid) + stage.CPU(m.MySQLPid()) - written) / n
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

// longFor is how many times as long as the settled line the other line is: the journal is not done before the
// settlement.
const longFor = 3

// settled is a settlement with the journal or without it.
type settled struct {
	took time.Duration // the whole process
	rows int           // that the journal has written meanwhile
}

// settlement measures `settle run` of one coupon while the journal copies the long line of another.
func (m *measurement) settlement(ctx context.Context) (string, error) {
	seconds := func(r settled) float64 { return r.took.Seconds() }
	columns := []report.Column[settled]{
		report.Median("settle run", report.Time, seconds), report.Ratio("ratio by turn", report.To(without), seconds),
		report.Median("rows that the journal wrote meanwhile", report.Whole,
			func(r settled) float64 { return float64(r.rows) }),
	}
	rows, err := report.InTurn(turns**m.rounds, both, func(i int) (settled, error) {
		return m.settleBeside(ctx, i == 1)
	}, columns...)
	return fmt.Sprintf("`settle run` issues %d coupons while the journal copies a line of %d applications for another "+
		"coupon, at its\n"+
		"`JOURNAL_ROWS_PER_SECOND`; %d turns:\n\n", *m.settled, longFor**m.settled, turns**m.rounds) +
		report.Table("", rows, columns...), err
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
	const copied = "SELECT COUNT(*) FROM line_journal WHERE coupon_id = 2"
	if journal {
		_, stop, err := p.Serve(ctx, "journal")
		if err != nil {
			return r, err
		}
		defer stop()
		err = stage.Until(ctx, "begin to copy", time.Minute, func() (bool, error) {
			n, err := p.Number(ctx, copied)
			return n > 0, err
		})
		if err != nil {
			return r, err
		}
	}
	before, err := p.Number(ctx, copied)
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
	r.rows, err = p.Number(ctx, copied)
	r.rows -= before
	return r, err
}

// idled is what looking at empty lines costs, each in a second.
type idled struct {
	commands              float64       // of Redis
	redis, journal, mysql time.Duration // CPU time
}

// idling measures the journal while nobody applies.
func (m *measurement) idling(ctx context.Context) (string, error) {
	var names []string
	var coupons []int
	for n := 10; n <= *m.idle; n *= 10 {
		names, coupons = append(names, fmt.Sprint(n)), append(coupons, n)
	}
	columns := []report.Column[idled]{
		report.Median("Redis commands/s", report.Whole, func(r idled) float64 { return r.commands }),
		report.Median("CPU of Redis", report.Share, func(r idled) float64 { return r.redis.Seconds() }),
		report.Median("of settle serve", report.Share, func(r idled) float64 { return r.journal.Seconds() }),
		report.Median("of MySQL", report.Share, func(r idled) float64 { return r.mysql.Seconds() }),
	}
	rows, err := report.InTurn(1, names, func(i int) (idled, error) { return m.idleWith(ctx, coupons[i]) }, columns...)
	return fmt.Sprintf("`settle serve --tasks journal` looks at all open coupons once a second, and nobody applies; "+
		"%.1f s each, CPU time as a share of one core:\n\n", *m.watched) + report.Table("open coupons", rows, columns...), err
}

func (m *measurement) idleWith(ctx context.Context, coupons int) (r idled, err error) {
	p, err := m.OpenShop(ctx, coupons, 1)
	if err != nil {
		return r, err
	}
	defer p.Close()
	for id := range coupons {
		if err := p.Publish(ctx, id+1); err != nil {
			return r, err
		}
	}
	pid, stop, err := p.Serve(ctx, "journal")
	if err != nil {
		return r, err
	}
	defer stop()
	if err := stage.Wait(ctx, listed); err != nil {
		return r, err
	}
	before, err := p.Redis.Commands(ctx)
	if err != nil {
		return r, err
	}
	began, redis, journal, mysql := time.Now(), stage.CPU(p.Redis.Pid()), stage.CPU(pid), stage.CPU(m.MySQLPid())
	if err := stage.Wait(ctx, time.Duration(*m.watched*float64(time.Second))); err != nil {
		return r, err
	}
	seconds := time.Since(began).Seconds()
	each := func(d time.Duration) time.Duration { return time.Duration(float64(d) / seconds) }
	r.redis, r.journal = each(stage.CPU(p.Redis.Pid())-redis), each(stage.CPU(pid)-journal)
	r.mysql = each(stage.CPU(m.MySQLPid()) - mysql)
	after, err := p.Redis.Commands(ctx)
	r.commands = float64(after-before) / seconds
	return r, err
}

// restored is a restore of a whole line.
type restored struct {
	took          time.Duration // from the loss
	redis         time.Duration // CPU time
	quiet, during applicants.Outcome
	behind        int // applications that the journal lacked at its end
}

// restore measures how `settle serve --tasks journal` notices a loss and restores the line, while users apply or not.
func (m *measurement) restore(ctx context.Context) (string, error) {
	columns := []report.Column[restored]{
		report.Elapsed("time", func(r restored) time.Duration { return r.took }),
		report.Spread("spread", report.Time, func(r restored) float64 { return r.took.Seconds() }),
		report.Median("rows/s", report.Whole, func(r restored) float64 { return float64(*m.backlog) / r.took.Seconds() }),
		report.Elapsed("CPU of Redis", func(r restored) time.Duration { return r.redis }),
		report.Elapsed("apply p99 before", func(r restored) time.Duration { return r.quiet.FromDue.P99 }),
		report.Elapsed("during", func(r restored) time.Duration { return r.during.FromDue.P99 }),
		report.Within("ratio by round", func(r restored) float64 { return r.during.FromDue.P99.Seconds() },
			func(r restored) float64 { return r.quiet.FromDue.P99.Seconds() }),
		report.Median("not accepted", report.Whole, func(r restored) float64 { return float64(r.during.NotAccepted()) }),
		report.Median("behind", report.Whole, func(r restored) float64 { return float64(r.behind) }),
	}
	rows, err := report.InTurn(*m.rounds, []string{"none", "yes"}, func(i int) (restored, error) {
		return m.restoreOnce(ctx, i == 1)
	}, columns...)
	return fmt.Sprintf("Redis loses queue and state of a coupon with %d journalled applications. `settle serve "+
		"--tasks journal` notices "+
		"it and puts\nall back; the time counts from the loss. Applicants apply for the same coupon, %d a second; "+
		"latency counts from "+
		"the time a request\nwas due. Not accepted: applications before the window was published again. Behind: "+
		"applications that "+
		"the journal lacked at the end:\n\n", *m.backlog, *m.rate) + report.Table("applicants", rows, columns...), err
}

// restoreWithin bounds a restore.
const restoreWithin = 3 * time.Minute

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
	lose := func() error {
		before, began := stage.CPU(p.Redis.Pid()), time.Now()
		if err := p.RDB.Unlink(ctx, stage.QueueKey(1), stage.StateKey(1)).Err(); err != nil {
			return err
		}
		err := stage.Until(ctx, "restore", restoreWithin, func() (bool, error) {
			fields, err := p.RDB.HMGet(ctx, stage.StateKey(1), "since", "restored").Result()
			return err == nil && fields[0] != nil && fields[0] == fields[1], err
		})
		r.took, r.redis = time.Since(began), stage.CPU(p.Redis.Pid())-before
		if err != nil {
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
	if r.quiet, err = m.load(ctx, &l, *m.rate, func() error { return m.wait(ctx) }); err != nil {
		return r, err
	}
	r.during, err = m.load(ctx, &l, *m.rate, lose)
	return r, err
}
