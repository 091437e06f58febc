package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jajeong/jajeong/bench/chart"
	"github.com/jajeong/jajeong/bench/process"
)

func p50(r sample) time.Duration  { return r.FromDue.P50 }
func p99(r sample) time.Duration  { return r.FromDue.P99 }
func p999(r sample) time.Duration { return r.FromDue.P999 }

// wrong counts the failed and refused requests at a load that a server should accept.
func wrong(rounds []sample) (n int) {
	for _, r := range rounds {
		n += r.Failed + r.Refused
	}
	return n
}

// ratios formats the median, the lowest and the highest ratio of two figures. Both figures of a ratio are from the same round.
func ratios(n int, ratio func(round int) float64) string {
	all := make([]float64, n)
	for i := range all {
		all[i] = ratio(i)
	}
	slices.Sort(all)
	if n == 1 {
		return fmt.Sprintf("%.2f", all[0])
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", all[n/2], all[0], all[n-1])
}

func micros(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return d.Round(10 * time.Microsecond).String()
}

func renderPeaks(o options, all []measured) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d connections, each sends its next request after an answer; %s each, medians of %d rounds, ratios by round:\n\n", o.connections, o.length, o.rounds)
	to := o.base.title
	if o.base.name == plainest {
		to = "one EVALSHA"
	}
	fmt.Fprintf(&b, "| contender | requests/s | ratio to nothing | ratio to %s | p50 | p99 | p99.9 | errors | CPU per request: server | Redis, MySQL | generator |\n"+
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n", to)
	for _, m := range all {
		toPlain, name := "–", cmp.Or(m.base, o.base.name)
		if base := slices.IndexFunc(all, func(m measured) bool { return m.name == name }); base >= 0 {
			toPlain = ratios(o.rounds, func(i int) float64 { return m.rounds[i].goodput() / all[base].rounds[i].goodput() })
		}
		fmt.Fprintf(&b, "| %s | %.0f | %s | %s | %s | %s | %s | %d | %s | %s | %s |\n", m.title, median(m.rounds, goodput),
			ratios(o.rounds, func(i int) float64 { return m.rounds[i].goodput() / all[0].rounds[i].goodput() }), toPlain,
			micros(median(m.rounds, p50)), micros(median(m.rounds, p99)), micros(median(m.rounds, p999)), wrong(m.rounds),
			cpu(median(m.rounds, func(r sample) time.Duration { return r.server })), cpu(median(m.rounds, func(r sample) time.Duration { return r.store })),
			cpu(median(m.rounds, func(r sample) time.Duration { return r.generator })))
	}
	return b.String()
}

// renderOthers reports the load of other processes on the machine.
func renderOthers(all []sample) string {
	most := slices.MaxFunc(all, func(a, b sample) int { return cmp.Compare(a.others, b.others) })
	return fmt.Sprintf("Other processes and the kernel used %.0f %% of the cores in the median, and %.0f %% at most.\n",
		100*median(all, func(r sample) float64 { return r.others }), 100*most.others)
}

func cpu(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1fµs", float64(d)/float64(time.Microsecond))
}

func renderSteady(o options, all []paced) string {
	var b strings.Builder
	b.WriteString("A share of the own peak, and an empty handler at the same rate; latency counts from the time a request was due:\n\n" +
		"| contender | share | requests/s | p50 | p99 | p99.9 | errors | unsent | p99 of nothing | ratio |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, p := range all {
		unsent := 0
		for _, r := range p.rounds {
			unsent += r.Unsent
		}
		fmt.Fprintf(&b, "| %s | %.0f %% | %.0f | %s | %s | %s | %d | %d | %s | %s |\n", p.title, 100*p.share, p.rate,
			micros(median(p.rounds, p50)), micros(median(p.rounds, p99)), micros(median(p.rounds, p999)), wrong(p.rounds), unsent,
			micros(median(p.yardstick, p99)), ratios(o.rounds, func(i int) float64 { return float64(p99(p.rounds[i])) / float64(p99(p.yardstick[i])) }))
	}
	return b.String()
}

func renderOverload(o options, all []flooded) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d connections and %d times the rate of the peak just before; latency counts from the time a request was sent. Before and\n"+
		"after the overload: %.0f %% of the peak. No accepted application is lost:\n\n",
		o.flood, overloadFactor, 100*quietShare)
	fmt.Fprintf(&b, "| contender | peak/s | goodput/s | kept | kept, to nothing | p99 | refused/s | p99 of refusals | without Retry-After | errors | accepted | memory before | peak memory | p99 before | p99 after |\n"+
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, m := range all {
		var bare, failed, accepted int
		for _, f := range m.rounds {
			bare, failed, accepted = bare+f.during.Bare, failed+f.during.Failed, accepted+f.accepted
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %s | %s | %s | %.0f | %s | %d | %d | %d | %s | %s | %s | %s |\n", m.title,
			median(m.rounds, func(f flood) float64 { return f.peak.goodput() }), median(m.rounds, during),
			ratios(o.rounds, func(i int) float64 { return m.rounds[i].kept() }),
			ratios(o.rounds, func(i int) float64 { return m.rounds[i].kept() / all[0].rounds[i].kept() }),
			micros(median(m.rounds, func(f flood) time.Duration { return f.during.FromSent.P99 })),
			median(m.rounds, func(f flood) float64 { return float64(f.during.Refused) / f.during.Seconds }),
			micros(median(m.rounds, func(f flood) time.Duration { return f.during.Refusals.P99 })), bare, failed, accepted,
			process.MiB(median(m.rounds, func(f flood) int64 { return f.before.peakBytes })),
			process.MiB(median(m.rounds, func(f flood) int64 { return f.after.peakBytes })),
			micros(median(m.rounds, func(f flood) time.Duration { return p99(f.before) })),
			micros(median(m.rounds, func(f flood) time.Duration { return p99(f.after) })))
	}
	return b.String()
}

func during(f flood) float64 { return f.during.goodput() }

// drawChart draws two bars for each contender: what it answers at its peak, and under the overload.
func drawChart(peaks []measured, floods []flooded) string {
	groups := make([]chart.Group, len(peaks))
	for i, p := range peaks {
		groups[i] = chart.Group{Name: p.name, Figures: []float64{math.Round(median(p.rounds, goodput)), math.Round(median(floods[i].rounds, during))}}
	}
	bars := []string{"at the peak", fmt.Sprintf("served under %d times the load", overloadFactor)}
	return chart.Bars("Requests per second", "requests/s", bars, groups)
}
