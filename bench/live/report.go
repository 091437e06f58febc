package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jajeong/jajeong/bench/chart"
	"github.com/jajeong/jajeong/bench/process"
)

// The goals of the streams.
const (
	goalKiB       = 32 // memory of a stream
	goalTold      = 2 * time.Second
	goalApplying  = 1.5 // ratio of the 99th percentile to that of the quiet pod
	goalBackAgain = 10 * time.Second
)

// The scenes by place.
const (
	ofStreams = iota
	ofNobody
)

// spread is the median of a figure over the rounds, with its extremes.
type spread struct{ median, least, most float64 }

func over(all []result, figure func(result) float64) spread {
	figures := make([]float64, len(all))
	for i, r := range all {
		figures[i] = figure(r)
	}
	slices.Sort(figures)
	return spread{figures[len(figures)/2], figures[0], figures[len(figures)-1]}
}

func (s spread) text(format func(float64) string) string { return format(s.median) }

func (s spread) extremes(format func(float64) string) string {
	return format(s.least) + " to " + format(s.most)
}

func number(format string) func(float64) string {
	return func(n float64) string { return fmt.Sprintf(format, n) }
}

func millis(seconds float64) string { return milli(time.Duration(seconds * float64(time.Second))) }

func milli(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

func (r result) lastTold() float64 {
	return max(r.telling.winners.quantile(1), r.telling.others.quantile(1)).Seconds()
}

func ratio(w, to waits) float64 {
	return w.quantile(0.99).Seconds() / max(time.Microsecond, to.quantile(0.99)).Seconds()
}

func (s *stage) render(all [][]result, others float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s. The scenes take turns, %d rounds: medians, and the spread.\n", s.environment(), s.rounds)
	fmt.Fprintf(&b, "Pod, Redis, MySQL and settle share cores %s. The bench, with the users, has cores %s. Other programs used %.1f cores meanwhile.\n", serverCores, s.ownCores(), others)
	if s.urgent {
		b.WriteString("The bench and the servers have the highest priority of the machine.\n")
	}
	fmt.Fprintf(&b, "%d users have applied for one coupon with %d seats.", s.streams, s.winners)
	if s.streams < wantedStreams {
		fmt.Fprintf(&b, " They are not %d, because a process may have %d open files here.", wantedStreams, s.openFiles)
	}
	b.WriteString("\n\n## Goals\n\n| | goal | measured | spread | |\n| --- | ---: | ---: | ---: | --- |\n")
	s.renderGoals(&b, all)
	b.WriteString("\n## Waiting\n\nMemory of one user in KiB, beyond that of the server before; CPU time of a minute in which nothing happens. Commands within scripts count, too.\n\n" +
		"| | users | server | kernel, its end | Redis | CPU server | CPU Redis | CPU MySQL | Redis commands/s | MySQL questions/s | server's peak |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for i, sc := range scenes {
		r := all[i]
		if len(r) == 0 {
			continue
		}
		of := func(format func(float64) string, figure func(result) float64) string {
			return over(r, figure).text(format)
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", sc.name, r[0].users,
			of(number("%.1f"), func(r result) float64 { return r.each(r.server) }),
			of(number("%.1f"), func(r result) float64 { return r.each(r.kernel) }),
			of(number("%.1f"), func(r result) float64 { return r.each(r.redis) }),
			of(millis, func(r result) float64 { return r.cost.server.Seconds() }),
			of(millis, func(r result) float64 { return r.cost.redis.Seconds() }),
			of(millis, func(r result) float64 { return r.cost.mysql.Seconds() }),
			of(number("%.0f"), func(r result) float64 { return r.cost.commands }),
			of(number("%.0f"), func(r result) float64 { return r.cost.questions }),
			of(func(n float64) string { return process.MiB(int64(n)) }, func(r result) float64 { return float64(r.peak) }))
	}
	s.renderTelling(&b, all)
	renderApplying(&b, all, s.rate)
	return b.String()
}

// drawChart draws the memory of one user.
func drawChart(all [][]result) string {
	var groups []chart.Group
	for i, sc := range scenes {
		if i == ofNobody {
			continue
		}
		var figures []float64
		for _, of := range []func(result) int64{func(r result) int64 { return r.server }, func(r result) int64 { return r.kernel }, func(r result) int64 { return r.redis }} {
			figures = append(figures, math.Round(over(all[i], func(r result) float64 { return r.each(of(r)) }).median))
		}
		groups = append(groups, chart.Group{Name: sc.short, Figures: figures})
	}
	return chart.Bars("Memory of one waiting user", "KiB", []string{"server", "kernel, the server's end", "Redis"}, groups)
}

func (s *stage) renderGoals(b *strings.Builder, all [][]result) {
	streams := all[ofStreams]
	if len(streams) == 0 {
		return
	}
	goal := func(name string, limit float64, format func(float64) string, found spread) {
		verdict := "met"
		if found.median > limit {
			verdict = "**missed**"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", name, format(limit), found.text(format), found.extremes(format), verdict)
	}
	goal("memory of a stream, KiB", goalKiB, number("%.1f"), over(streams, func(r result) float64 { return r.each(r.server) }))
	goal("last one told after the commit of the own outcome", goalTold.Seconds(), millis, over(streams, result.lastTold))
	goal("apply p99 with waiting streams, ratio to the quiet pod", goalApplying, number("%.2f"), over(streams, func(r result) float64 { return ratio(r.apply.waiting, r.apply.quiet) }))
	goal("apply p99 while all are told, ratio to the quiet pod", goalApplying, number("%.2f"), over(streams, func(r result) float64 { return ratio(r.apply.telling, r.apply.quiet) }))
	if quiet := all[ofNobody]; len(quiet) > 0 {
		place := 0
		goal("the same, ratio to the same settlement while nobody waits", goalApplying, number("%.2f"), over(streams, func(r result) float64 {
			place++
			return ratio(r.apply.telling, quiet[place-1].apply.telling)
		}))
	}
	goal("all streams have their state again after a cut of all", goalBackAgain.Seconds(), millis, over(streams, func(r result) float64 { return r.back.quantile(1).Seconds() }))
}

func (s *stage) renderTelling(b *strings.Builder, all [][]result) {
	fmt.Fprintf(b, "\n## Telling\n\n`settle run` issues %d coupons in one commit, then records the other outcomes in commits of growing pages. A time is from the commit of the\nuser's own outcome until the user has read it. The bench asks for the commits every %s, so times are up to that and one question too long. Missing: not told within %s. Wrong: told something else.\n\n", s.winners, watchPause, toldWithin)
	b.WriteString("| | winners p50 | p99 | last | others p50 | p99 | last | from the first commit to the last one | settle | missing | wrong | not answered 200 |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for i, sc := range scenes {
		r := all[i]
		if len(r) == 0 {
			continue
		}
		if i == ofNobody {
			fmt.Fprintf(b, "| %s | – | – | – | – | – | – | – | %s | – | – | – |\n", sc.name, over(r, func(r result) float64 { return r.settled.Seconds() }).text(millis))
			continue
		}
		fmt.Fprintf(b, "| %s |", sc.name)
		for _, of := range []func(result) waits{func(r result) waits { return r.telling.winners }, func(r result) waits { return r.telling.others }} {
			for _, q := range []float64{0.5, 0.99, 1} {
				fmt.Fprintf(b, " %s |", over(r, func(r result) float64 { return of(r).quantile(q).Seconds() }).text(millis))
			}
		}
		var missing, wrong, refused int
		for _, r := range r {
			missing, wrong, refused = missing+r.telling.missing, wrong+r.telling.wrong, refused+r.refused
		}
		fmt.Fprintf(b, " %s | %s | %d | %d | %d |\n", over(r, func(r result) float64 { return r.untilLast.Seconds() }).text(millis),
			over(r, func(r result) float64 { return r.settled.Seconds() }).text(millis), missing, wrong, refused)
	}
	b.WriteString("\nAll streams are cut at once; each connects again after the time that the server named:\n\n| | back p50 | p99 | last | since connecting p50 | p99 | last |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for i, sc := range scenes {
		if len(all[i]) == 0 || len(all[i][0].back) == 0 {
			continue
		}
		fmt.Fprintf(b, "| %s |", sc.name)
		for _, of := range []func(result) waits{func(r result) waits { return r.back }, func(r result) waits { return r.connecting }} {
			for _, q := range []float64{0.5, 0.99, 1} {
				fmt.Fprintf(b, " %s |", over(all[i], func(r result) float64 { return of(r).quantile(q).Seconds() }).text(millis))
			}
		}
		b.WriteString("\n")
	}
}

func renderApplying(b *strings.Builder, all [][]result, rate float64) {
	fmt.Fprintf(b, "\n## Applying beside it\n\n%.0f applications a second for another coupon on the same pod, due at times that no answer changes. 99th percentiles, and their ratio to that of the\nquiet pod. While all are told: from the start of settle to the last one told. The plain server takes no applications; its pod is beside it.\n\n", rate)
	b.WriteString("| | quiet | while all wait | ratio | while all are told | ratio | while all come back | ratio |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for i, sc := range scenes {
		if len(all[i]) == 0 {
			continue
		}
		fmt.Fprintf(b, "| %s | %s |", sc.name, over(all[i], func(r result) float64 { return r.apply.quiet.quantile(0.99).Seconds() }).text(millis))
		for _, of := range []func(result) waits{func(r result) waits { return r.apply.waiting }, func(r result) waits { return r.apply.telling }, func(r result) waits { return r.apply.cut }} {
			if len(of(all[i][0])) == 0 {
				b.WriteString(" – | – |")
				continue
			}
			ratios := over(all[i], func(r result) float64 { return ratio(of(r), r.apply.quiet) })
			fmt.Fprintf(b, " %s | %s |", over(all[i], func(r result) float64 { return of(r).quantile(0.99).Seconds() }).text(millis), ratios.text(number("%.2f")))
		}
		b.WriteString("\n")
	}
}
