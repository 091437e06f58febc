// Package apply compares the API with an empty handler, a simple handler that calls Redis once per request, and a
// handler that locks a row in MySQL: the peak rate of each, the latency at shares of the peak, and what is served
// under ten times the load. Servers, applicants, Redis and MySQL are processes that share the cores.
package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/bench/applicants"
	"github.com/jajeong/jajeong/bench/report"
	"github.com/jajeong/jajeong/bench/stage"
)

const (
	// longestWarmUp is the time for heaps and pools to grow.
	longestWarmUp = 2 * time.Second
	// overload multiplies the rate and the connections of the peak.
	overload = 10
	// quiet is the share of the peak at which an idle server is measured.
	quiet = 0.1

	maxConnections = 5000
)

// shares are those of its peak at which the latency of a server is measured. It should sustain each of them.
var shares = []float64{0.25, 0.5, 0.8}

type measurement struct {
	*stage.Stage
	contenders         *[]contender
	scenes             *[]scene
	base, other        *string
	rounds             *int
	connections, flood *int
	seconds            *time.Duration
}

// scene measures what the peaks are the scale for.
type scene struct {
	name string
	play func(m *measurement, ctx context.Context, peaks []report.Row[sample]) (string, error)
}

var scenes = []scene{{"steady", (*measurement).steady}, {"overload", (*measurement).overload}}

// New registers the flags.
func New(o *stage.Options) func(ctx context.Context, s *stage.Stage) (string, error) {
	m := &measurement{
		contenders: stage.Choose(o, "contenders", contenders, func(c contender) string { return c.name },
			yardstick, "api", plainest, "pipeliner", "row-lock"),
		scenes: stage.Choose(o, "scenes", scenes, func(s scene) string { return s.name }),
		base: o.String("base",
			"contender with which peaks are compared, beside "+yardstick+"; "+plainest+" by default"),
		other:       o.Other(),
		rounds:      o.Rounds(3),
		seconds:     o.Duration("seconds", 8, 0.2, 300, "each measurement without its warm-up"),
		connections: o.Int("connections", 128, 1, maxConnections/overload, "connections at the peak"),
		flood:       o.Int("overload-connections", 0, 0, maxConnections, "0: ten times those of the peak"),
	}
	return m.run
}

func (m *measurement) run(ctx context.Context, s *stage.Stage) (string, error) {
	m.Stage = s
	*m.base, *m.flood = cmp.Or(*m.base, plainest), cmp.Or(*m.flood, overload**m.connections)
	chosen := *m.contenders
	if len(chosen) == 0 || chosen[0].name != yardstick {
		return "", errors.New("-contenders needs " + yardstick + ", because the others are compared with it")
	}
	if slices.ContainsFunc(chosen, func(c contender) bool { return c.name == other }) == (*m.other == "") {
		return "", errors.New("-other and the contender " + other + " belong together")
	}
	text, peaks, err := m.peaks(ctx)
	for _, scene := range *m.scenes {
		var more string
		if err == nil {
			more, err = scene.play(m, ctx, peaks)
		}
		text += "\n" + more
	}
	return text, err
}

// warmUp is shorter only if it is only to be seen that everything works.
func (m *measurement) warmUp() time.Duration {
	return min(longestWarmUp, *m.seconds)
}

// each are the chosen contenders as rows.
func each[R any](m *measurement, measure func(c contender) (R, error)) (ways []report.Way[R]) {
	for _, c := range *m.contenders {
		ways = append(ways, report.Way[R]{Name: c.title, Measure: func() (R, error) { return measure(c) }})
	}
	return ways
}

// titleOf is the title of a contender.
func titleOf(name string) string {
	return contenders[slices.IndexFunc(contenders, func(c contender) bool { return c.name == name })].title
}

func rate(r sample) float64 { return r.Rate() }

// refused counts what is wrong at a load that a server should accept.
func refused(r sample) int { return r.NotAccepted() }

func p50(r sample) time.Duration  { return r.FromDue.P50 }
func p99(r sample) time.Duration  { return r.FromDue.P99 }
func p999(r sample) time.Duration { return r.FromDue.P999 }

// once starts a contender, sends one load, and checks that no accepted application is lost.
func (m *measurement) once(ctx context.Context, c contender, l applicants.Load) (r sample, err error) {
	v, err := m.start(ctx, c)
	if err != nil {
		return r, err
	}
	defer v.Shop.Close()
	if r, err = v.take(ctx, l, m.warmUp(), *m.seconds); err == nil {
		_, err = v.verify(ctx)
	}
	return r, err
}

// peaks measures the peak rate: each connection sends its next request after an answer.
func (m *measurement) peaks(ctx context.Context) (string, []report.Row[sample], error) {
	base := func(title string) string {
		for _, c := range contenders {
			if c.title == title && c.base != "" {
				return titleOf(c.base)
			}
		}
		return titleOf(*m.base)
	}
	columns := []report.Column[sample]{
		report.Median("requests/s", report.Whole, rate),
		report.Ratio("ratio to nothing", report.To(titleOf(yardstick)), rate),
		report.Ratio("ratio to "+titleOf(*m.base), base, rate),
		report.Elapsed("p50", p50), report.Elapsed("p99", p99), report.Elapsed("p99.9", p999),
		report.Sum("errors", refused),
		report.CPUTime("CPU per request: server", func(r sample) time.Duration { return r.server }),
		report.CPUTime("Redis, MySQL", func(r sample) time.Duration { return r.store }),
		report.CPUTime("generator", func(r sample) time.Duration { return r.generator }),
	}
	rows, err := report.InTurn(*m.rounds, each(m, func(c contender) (sample, error) {
		return m.once(ctx, c, applicants.Load{Connections: *m.connections})
	}), columns...)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("%d connections, %s each, %d rounds:\n\n", *m.connections, *m.seconds, *m.rounds) +
		report.Table("contender", rows, columns...), rows, nil
}

// steady measures the latency at shares of the peak, and that of the yardstick at the same rate.
func (m *measurement) steady(ctx context.Context, peaks []report.Row[sample]) (string, error) {
	var ways []report.Way[sample]
	for _, share := range shares {
		for i, c := range *m.contenders {
			l := applicants.Load{Connections: *m.connections, Rate: share * report.MedianOf(peaks[i], rate)}
			name := fmt.Sprintf("%s | %.0f %%", c.title, 100*share)
			ways = append(ways, report.Way[sample]{Name: name, Measure: func() (sample, error) {
				r, err := m.once(ctx, c, l)
				if r.unloaded = p99(r); err != nil || c.name == yardstick {
					return r, err
				}
				base, err := m.once(ctx, (*m.contenders)[0], l)
				r.unloaded = p99(base)
				return r, err
			}})
		}
	}
	table, err := report.Measured("contender | share", *m.rounds, ways,
		report.Median("served/s", report.Whole, rate),
		report.Elapsed("p50", p50), report.Elapsed("p99", p99), report.Elapsed("p99.9", p999),
		report.Sum("errors", refused), report.Sum("unsent", func(r sample) int { return r.Unsent }),
		report.Elapsed("p99 of nothing", func(r sample) time.Duration { return r.unloaded }),
		report.Within("ratio", func(r sample) float64 { return p99(r).Seconds() },
			func(r sample) float64 { return r.unloaded.Seconds() }))
	return "A share of the own peak, and an empty handler at the same rate:\n\n" + table, err
}

// flood has the four samples of one server, in this order.
type flood struct {
	peak     sample
	before   sample // at a low rate
	during   sample // ten times the rate of this peak, with many more connections
	after    sample // at the low rate, directly afterwards
	accepted int    // in all four; none of them is lost
}

func goodput(f flood) float64 { return f.during.Rate() }
func peak(f flood) float64    { return f.peak.Rate() }

func (m *measurement) flooded(ctx context.Context, c contender) (f flood, err error) {
	v, err := m.start(ctx, c)
	if err != nil {
		return f, err
	}
	defer v.Shop.Close()
	if f.peak, err = v.take(ctx, applicants.Load{Connections: *m.connections}, m.warmUp(), *m.seconds); err != nil {
		return f, fmt.Errorf("peak: %w", err)
	}
	idle := applicants.Load{Connections: *m.connections, Rate: quiet * f.peak.Rate()}
	if f.before, err = v.take(ctx, idle, 0, *m.seconds/2); err != nil {
		return f, fmt.Errorf("before: %w", err)
	}
	much := applicants.Load{Connections: *m.flood, Rate: overload * f.peak.Rate()}
	if f.during, err = v.take(ctx, much, m.warmUp(), *m.seconds); err != nil {
		return f, fmt.Errorf("overload: %w", err)
	}
	if f.after, err = v.take(ctx, idle, 0, *m.seconds/2); err != nil {
		return f, fmt.Errorf("after: %w", err)
	}
	f.accepted, err = v.verify(ctx)
	return f, err
}

// overload sends each contender ten times the load of its peak.
func (m *measurement) overload(ctx context.Context, _ []report.Row[sample]) (string, error) {
	table, err := report.Measured("contender", *m.rounds,
		each(m, func(c contender) (flood, error) { return m.flooded(ctx, c) }),
		report.Median("peak/s", report.Whole, peak),
		report.Median("goodput/s", report.Whole, goodput),
		report.Within("kept", goodput, peak),
		report.Ratio("kept, to nothing", report.To(titleOf(yardstick)),
			func(f flood) float64 { return goodput(f) / peak(f) }),
		report.Elapsed("p99", func(f flood) time.Duration { return f.during.FromSent.P99 }),
		report.Median("refused/s", report.Whole,
			func(f flood) float64 { return float64(f.during.Refused) / f.during.Seconds }),
		report.Elapsed("p99 of refusals", func(f flood) time.Duration { return f.during.Refusals.P99 }),
		report.Sum("without Retry-After", func(f flood) int { return f.during.Bare }),
		report.Sum("errors", func(f flood) int { return f.during.Failed }),
		report.Sum("accepted", func(f flood) int { return f.accepted }),
		report.Median("memory before", report.MiB, func(f flood) float64 { return float64(f.before.memory) }),
		report.Median("peak memory", report.MiB, func(f flood) float64 { return float64(f.after.memory) }),
		report.Elapsed("p99 before", func(f flood) time.Duration { return p99(f.before) }),
		report.Elapsed("p99 after", func(f flood) time.Duration { return p99(f.after) }))
	return fmt.Sprintf("%d connections and %d times the rate of the peak just before. No accepted application is "+
		"lost:\n\n", *m.flood, overload) + table, err
}

func (c contender) short() report.Short { return report.Short{Name: c.title, Label: c.name} }

// Charts draws what each contender answers at its peak and under the overload.
func Charts(tables []report.Printed) map[string]string {
	peaks, floods := report.With(tables, "ratio to nothing"), report.With(tables, "goodput/s")
	if len(peaks) == 0 || len(floods) == 0 {
		return nil
	}
	labels := report.Shorts(contenders, contender.short)
	return map[string]string{"apply.svg": report.Bars{Title: "Requests per second", Unit: "requests/s", Labels: labels,
		Bars: []report.Bar{
			{Label: "at the peak", Table: peaks[0], Column: "requests/s"},
			{Label: fmt.Sprintf("served under %d times the load", overload), Table: floods[0], Column: "goodput/s"},
		}}.Draw()}
}
