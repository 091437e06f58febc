// Package live measures waiting for an outcome: thousands of users hold a stream of one pod of apply-api, wait, and
// are told at the same time when `settle run` issues coupons to some and records that the others are not selected.
// Yardsticks have the same users in the same run: they poll GET …/me every five seconds, or they hold streams of a
// plain server with one goroutine and one channel of Redis for each user.
package live

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/jajeong/jajeong/bench/report"
	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/load"
)

type measurement struct {
	*stage.Shop
	streams, winners, rounds, rate *int
	scenes                         *[]scene
	idle, load                     *time.Duration

	openFiles int    // how many files a process may have open
	coupons   int    // how many are used
	applicant uint64 // user id of the next application for the busy coupon
}

const (
	wantedStreams = 20_000
	mostStreams   = 200_000
	// spareFiles is more than the open files of a pod that are no connections of the live port.
	spareFiles = 700
	// serverCores is the number of cores that the pod, Redis, MySQL and settle share.
	serverCores = 2

	// firstUser is the lowest user id. All user ids have ten digits.
	firstUser = 1_000_000_000
	// busyCoupon is the coupon of the applications beside the streams. It is not settled.
	busyCoupon = 1
)

// New registers the flags.
func New(o *stage.Options) func(ctx context.Context, s *stage.Stage) (string, error) {
	m := &measurement{
		streams: o.Int("streams", 0, 0, mostStreams, "users with a stream; 0: 20000, or as many as the limit of open "+
			"files allows"),
		winners: o.Int("winners", 1000, 1, mostStreams, "seats of the coupon"),
		rounds:  o.Rounds(3), scenes: stage.Choose(o, "scenes", scenes, func(sc scene) string { return sc.key }),
		rate: o.Int("rate", 1000, 1, 20_000, "applications for another coupon per second"),
		// a stream lives five minutes at least
		idle: o.Duration("idle", 15, 0.2, 180, "how long the cost of waiting is measured"),
		load: o.Duration("load", 6, 0.2, 60, "how long applying is measured while nothing is told"),
	}
	return m.run
}

// limit reads how many streams the limit of open files allows: the live port also takes some connections on which it
// says: later.
func (m *measurement) limit() error {
	var limit syscall.Rlimit // os has raised the soft limit to the hard one
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	m.openFiles = int(min(limit.Cur, 10*mostStreams)) // it may be infinite
	most := m.openFiles - spareFiles
	for most > 0 && most+httpapi.SurplusStreams(most)+spareFiles > m.openFiles {
		most--
	}
	if *m.streams == 0 {
		*m.streams = min(wantedStreams, most)
	}
	if *m.streams > most || *m.winners >= *m.streams {
		return fmt.Errorf("want at most %d -streams, as a process may have %d open files, and fewer -winners", most,
			m.openFiles)
	}
	return nil
}

func (m *measurement) run(ctx context.Context, s *stage.Stage) (text string, err error) {
	if err := m.limit(); err != nil {
		return "", err
	}
	cores, err := s.Apart(serverCores)
	if err != nil {
		return "", err
	}
	if m.Shop, err = s.OpenShop(ctx, busyCoupon+*m.rounds*len(*m.scenes), *m.winners); err != nil {
		return "", err
	}
	defer m.Close()
	m.coupons, m.applicant = busyCoupon, 2*firstUser
	if err := m.AddUsers(ctx, firstUser, *m.streams); err != nil {
		return "", err
	}
	var ways []report.Way[result]
	for _, sc := range *m.scenes {
		ways = append(ways, report.Way[result]{Name: sc.name,
			Measure: func() (result, error) { return m.play(ctx, sc) }})
	}
	rows, err := report.InTurn(*m.rounds, ways, slices.Concat(waiting, telling, back, applying)...)
	if err != nil {
		return "", err
	}
	return m.render(rows, cores), nil
}

// each is the memory of one user in KiB.
func each(figure func(result) int64) func(result) float64 {
	return func(r result) float64 { return float64(figure(r)) / 1024 / float64(max(1, r.users)) }
}

// waiting is the cost of waiting. Processor time is that of a minute.
var waiting = []report.Column[result]{
	report.Count("users", func(r result) int { return r.users }),
	report.Median("server", report.One, each(func(r result) int64 { return r.server })),
	report.Median("kernel, its end", report.One, each(func(r result) int64 { return r.kernel })),
	report.Median("Redis", report.One, each(func(r result) int64 { return r.redis })),
	report.Elapsed("CPU server", func(r result) time.Duration { return r.cost.CPUIn(time.Minute, r.cost.Own) }),
	report.Elapsed("CPU Redis", func(r result) time.Duration { return r.cost.CPUIn(time.Minute, r.cost.Redis) }),
	report.Elapsed("CPU MySQL", func(r result) time.Duration { return r.cost.CPUIn(time.Minute, r.cost.MySQL) }),
	report.Median("Redis commands/s", report.Whole,
		func(r result) float64 { return r.cost.In(time.Second, r.cost.RedisCommands) }),
	report.Median("MySQL questions/s", report.Whole,
		func(r result) float64 { return r.cost.In(time.Second, r.cost.Questions) }),
	report.Median("server's peak", report.MiB, func(r result) float64 { return float64(r.peak) }),
}

// three are the columns of waits.
func three(what string, waits func(result) load.Waits) []report.Column[result] {
	of := func(head string, q float64) report.Column[result] {
		return report.Elapsed(head, func(r result) time.Duration { return waits(r).Quantile(q) })
	}
	return []report.Column[result]{of(what+" p50", 0.5), of("p99", 0.99), of("last", 1)}
}

var telling = slices.Concat(
	three("winners", func(r result) load.Waits { return r.telling.winners }),
	three("others", func(r result) load.Waits { return r.telling.others }),
	[]report.Column[result]{
		report.Elapsed("from the first commit to the last one", func(r result) time.Duration { return r.untilLast }),
		report.Elapsed("settle", func(r result) time.Duration { return r.settled }),
		report.Sum("missing", func(r result) int { return r.telling.missing }),
		report.Sum("wrong", func(r result) int { return r.telling.wrong }),
		report.Sum("not answered 200", func(r result) int { return r.refused }),
	})

var back = slices.Concat(
	three("back", func(r result) load.Waits { return r.back }),
	three("since connecting", func(r result) load.Waits { return r.connecting }))

// applying has the times of applications for another coupon, and their ratios to the quiet pod.
var applying = slices.Concat(
	[]report.Column[result]{report.Median("quiet", report.Time, quiet)},
	toQuiet("while all wait", func(r result) time.Duration { return r.apply.waiting }),
	toQuiet("while all are told", func(r result) time.Duration { return r.apply.telling }),
	toQuiet("while all come back", func(r result) time.Duration { return r.apply.cut }))

func quiet(r result) float64 { return r.apply.quiet.Seconds() }

func toQuiet(head string, figure func(result) time.Duration) []report.Column[result] {
	return []report.Column[result]{report.Elapsed(head, figure),
		report.Within("ratio", func(r result) float64 { return figure(r).Seconds() }, quiet)}
}

// goal is what the streams should reach.
type goal struct {
	name   string
	limit  float64
	unit   report.Unit
	figure func(r, nobody result) float64
}

var goals = []goal{
	{"memory of a stream, KiB", 32, report.One,
		func(r, _ result) float64 { return each(func(r result) int64 { return r.server })(r) }},
	{"last one told after the commit of the own outcome", 2, report.Time, func(r, _ result) float64 {
		return max(r.telling.winners.Quantile(1), r.telling.others.Quantile(1)).Seconds()
	}},
	{"apply p99 with waiting streams, ratio to the quiet pod", 1.5, report.Two, func(r, _ result) float64 {
		return r.apply.waiting.Seconds() / r.apply.quiet.Seconds()
	}},
	{"apply p99 while all are told, ratio to the quiet pod", 1.5, report.Two, func(r, _ result) float64 {
		return r.apply.telling.Seconds() / r.apply.quiet.Seconds()
	}},
	{"the same, ratio to the same settlement while nobody waits", 1.5, report.Two, func(r, nobody result) float64 {
		return r.apply.telling.Seconds() / nobody.apply.telling.Seconds()
	}},
	{"all streams have their state again after a cut of all", 10, report.Time, func(r, _ result) float64 {
		return r.back.Quantile(1).Seconds()
	}},
}

func (m *measurement) render(rows []report.Row[result], cores string) string {
	those := func(have func(report.Row[result]) bool) (some []report.Row[result]) {
		for _, row := range rows {
			if have(row) {
				some = append(some, row)
			}
		}
		return some
	}
	text := fmt.Sprintf("%s The scenes take turns, %d rounds. %d users have applied for one coupon with %d seats; a "+
		"process may have %d open files here.\n", cores, *m.rounds, *m.streams, *m.winners, m.openFiles)
	streams := those(func(r report.Row[result]) bool { return r.Name == scenes[0].name })
	nobody := those(func(r report.Row[result]) bool { return r.Name == scenes[1].name })
	if len(streams) > 0 && len(nobody) > 0 {
		text += "\nGoals:\n\n"
		for at, g := range goals {
			row := report.Row[float64]{Name: g.name + " | " + g.unit(g.limit)}
			for i, r := range streams[0].Rounds {
				row.Rounds = append(row.Rounds, g.figure(r, nobody[0].Rounds[i]))
			}
			text += report.Goal(row, g.unit, g.limit, at == 0)
		}
	}
	told := those(func(r report.Row[result]) bool { return !r.Rounds[0].telling.last.IsZero() })
	cut := those(func(r report.Row[result]) bool { return r.Rounds[0].back != nil })
	return text + "\nWaiting:\n\n" + report.Table("", rows, waiting...) +
		"\nTelling:\n\n" + report.Table("", told, telling...) +
		"\nAll streams are cut at once:\n\n" + report.Table("", cut, back...) +
		fmt.Sprintf("\nApplying beside it, %d applications a second:\n\n", *m.rate) +
		report.Table("", rows, applying...)
}

// Charts draws the memory of one user.
func Charts(tables []report.Printed) map[string]string {
	of := report.With(tables, "kernel, its end")
	if len(of) == 0 {
		return nil
	}
	var labels []report.Short
	for _, sc := range scenes {
		if sc.key != "nobody" {
			labels = append(labels, report.Short{Name: sc.name, Label: sc.key})
		}
	}
	return map[string]string{"live.svg": report.Bars{Title: "Memory of one waiting user", Unit: "KiB", Labels: labels,
		Bars: []report.Bar{
			{Label: "server", Table: of[0], Column: "server"},
			{Label: "kernel, the server's end", Table: of[0], Column: "kernel, its end"},
			{Label: "Redis", Table: of[0], Column: "Redis"},
		}}.Draw()}
}
