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
	contenders         []contender
	names, scenes      *[]string
	base, other        *string
	rounds             *int
	connections, flood *int
	seconds            *float64
}

// New registers the flags.
func New(o *stage.Options) func(ctx context.Context, s *stage.Stage) (string, error) {
	var all []string
	for _, c := range contenders {
		all = append(all, c.name)
	}
	m := &measurement{
		names:  o.Choice("contenders", all, []string{yardstick, "api", plainest, "pipeliner", "row-lock"}),
		scenes: o.Choice("scenes", []string{"steady", "overload"}, []string{"steady", "overload"}),
		base: o.String("base", "contender with which peaks are compared, beside "+yardstick+"; "+plainest+" by "+
			"default"),
		other:       o.Other(),
		rounds:      o.Rounds(3),
		seconds:     o.Seconds("seconds", 8, 0.2, 300, "each measurement without its warm-up"),
		connections: o.Int("connections", 128, 1, maxConnections/overload, "connections at the peak"),
		flood:       o.Int("overload-connections", 0, 0, maxConnections, "0: ten times those of the peak"),
	}
	return m.run
}

func (m *measurement) run(ctx context.Context, s *stage.Stage) (string, error) {
	m.Stage = s
	*m.base, *m.flood = cmp.Or(*m.base, plainest), cmp.Or(*m.flood, overload**m.connections)
	for _, c := range contenders {
		if slices.Contains(*m.names, c.name) {
			m.contenders = append(m.contenders, c)
		}
	}
	if len(m.contenders) == 0 || m.contenders[0].name != yardstick {
		return "", errors.New("-contenders needs " + yardstick + ", because the others are compared with it")
	}
	if slices.Contains(*m.names, other) == (*m.other == "") {
		return "", errors.New("-other and the contender " + other + " belong together")
	}
	text, peaks, err := m.peaks(ctx)
	for _, scene := range *m.scenes {
		var more string
		switch {
		case err != nil:
		case scene == "steady":
			more, err = m.steady(ctx, peaks)
		default:
			more, err = m.overload(ctx)
		}
		text += "\n" + more
	}
	return text, err
}

// warmUp is shorter only if it is only to be seen that everything works.
func (m *measurement) warmUp() time.Duration {
	return min(longestWarmUp, time.Duration(*m.seconds*float64(time.Second)))
}

func (m *measurement) titles() (all []string) {
	for _, c := range m.contenders {
		all = append(all, c.title)
	}
	return all
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
	cpu := func(head string, figure func(sample) time.Duration) report.Column[sample] {
		return report.Median(head, report.CPU, func(r sample) float64 { return figure(r).Seconds() })
	}
	columns := []report.Column[sample]{
		report.Median("requests/s", report.Whole, rate),
		report.Ratio("ratio to nothing", report.To(titleOf(yardstick)), rate),
		report.Ratio("ratio to "+titleOf(*m.base), base, rate),
		report.Elapsed("p50", p50), report.Elapsed("p99", p99), report.Elapsed("p99.9", p999),
		report.Sum("errors", refused),
		cpu("CPU per request: server", func(r sample) time.Duration { return r.server }),
		cpu("Redis, MySQL", func(r sample) time.Duration { return r.store }),
		cpu("generator", func(r sample) time.Duration { return r.generator }),
	}
	rows, err := report.InTurn(*m.rounds, m.titles(), func(i int) (sample, error) {
		return m.once(ctx, m.contenders[i], applicants.Load{Connections: *m.connections})
	}, columns...)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("%d connections, each sends its next request after an answer; %.1f s each, medians of %d rounds, "+
		"ratios by round:\n\n", *m.connections, *m.seconds, *m.rounds) +
		report.Table("contender", rows, columns...), rows, nil
}

// steady measures the latency at shares of the peak, and that of the yardstick at the same rate.
func (m *measurement) steady(ctx context.Context, peaks []report.Row[sample]) (string, error) {
	var names []string
	var rates []float64
	var of []contender
	for _, share := range shares {
		for i, c := range m.contenders {
			var all []float64
			for _, r := range peaks[i].Rounds {
				all = append(all, r.Rate())
			}
			names = append(names, fmt.Sprintf("%s | %.0f %%", c.title, 100*share))
			rates, of = append(rates, share*slices.Sorted(slices.Values(all))[len(all)/2]), append(of, c)
		}
	}
	at := func(r sample) float64 { return float64(r.Served) / r.Seconds }
	columns := []report.Column[sample]{
		report.Median("served/s", report.Whole, at),
		report.Elapsed("p50", p50), report.Elapsed("p99", p99), report.Elapsed("p99.9", p999),
		report.Sum("errors", refused), report.Sum("unsent", func(r sample) int { return r.Unsent }),
		report.Elapsed("p99 of nothing", func(r sample) time.Duration { return r.unloaded }),
		report.Within("ratio", func(r sample) float64 { return p99(r).Seconds() },
			func(r sample) float64 { return r.unloaded.Seconds() }),
	}
	rows, err := report.InTurn(*m.rounds, names, func(i int) (sample, error) {
		l := applicants.Load{Connections: *m.connections, Rate: rates[i]}
		r, err := m.once(ctx, of[i], l)
		if r.unloaded = p99(r); err != nil || of[i].name == yardstick {
			return r, err
		}
		base, err := m.once(ctx, m.contenders[0], l)
		r.unloaded = p99(base)
		return r, err
	}, columns...)
	return "A share of the own peak, and an empty handler at the same rate; latency counts from the time a request " +
		"was due:\n\n" +
		report.Table("contender | share", rows, columns...), err
}

// flood has the four samples of one server, in this order.
type flood struct {
	peak     sample
	before   sample // at a low rate
	during   sample // ten times the rate of this peak, with many more connections
	after    sample // at the low rate, directly afterwards
	accepted int    // in all four; none of them is lost
}

func kept(f flood) float64 { return f.during.Rate() / f.peak.Rate() }

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
func (m *measurement) overload(ctx context.Context) (string, error) {
	columns := []report.Column[flood]{
		report.Median("peak/s", report.Whole, func(f flood) float64 { return f.peak.Rate() }),
		report.Median("goodput/s", report.Whole, func(f flood) float64 { return f.during.Rate() }),
		report.Within("kept", func(f flood) float64 { return f.during.Rate() },
			func(f flood) float64 { return f.peak.Rate() }),
		report.Ratio("kept, to nothing", report.To(titleOf(yardstick)), kept),
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
		report.Elapsed("p99 after", func(f flood) time.Duration { return p99(f.after) }),
	}
	rows, err := report.InTurn(*m.rounds, m.titles(), func(i int) (flood, error) {
		return m.flooded(ctx, m.contenders[i])
	}, columns...)
	return fmt.Sprintf("%d connections and %d times the rate of the peak just before; latency counts from the time a "+
		"request was "+
		"sent. Before and\nafter the overload: %.0f %% of the peak. No accepted application is lost:\n\n",
		*m.flood, overload, 100*quiet) + report.Table("contender", rows, columns...), err
}

// Charts draws what each contender answers at its peak and under the overload.
func Charts(tables []report.Printed) map[string]string {
	peaks, floods := report.With(tables, "ratio to nothing"), report.With(tables, "goodput/s")
	if len(peaks) == 0 || len(floods) == 0 {
		return nil
	}
	var labels []report.Short
	for _, c := range contenders {
		labels = append(labels, report.Short{Name: c.title, Label: c.name})
	}
	return map[string]string{"apply.svg": report.Bars{Title: "Requests per second", Unit: "requests/s", Labels: labels,
		Bars: []report.Bar{
			{Label: "at the peak", Table: peaks[0], Column: "requests/s"},
			{Label: fmt.Sprintf("served under %d times the load", overload), Table: floods[0], Column: "goodput/s"},
		}}.Draw()}
}
