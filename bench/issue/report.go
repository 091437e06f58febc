package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jajeong/jajeong/bench/chart"
)

func method() string {
	return fmt.Sprintf("Presses are due at Poisson times, independent of answers; each %dth is a repetition. At most %d are under way. Latency: from the due time to the\n"+
		"moment another connection can read the row, seen every %s. 32 connections to MySQL and 64 to Redis for each process. A load whose lag exceeds %s is given\n"+
		"up; its latencies are lower bounds (≥), and its errors are presses that this cut off.\n", repeatEvery, pressers, watchPause, longestLag)
}

func (o outcome) rendered(d time.Duration) string {
	if o.gaveUp {
		return "≥ " + milli(d)
	}
	return milli(d)
}

func milli(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

func (o outcome) contenderTitle() string {
	if o.contender.name == yardstick {
		return fmt.Sprintf("%s, %s", o.contender.title, o.interval)
	}
	return o.contender.title
}

const loadColumns = "| presses/s | coupons | contender | p50 | p99 | p99.9 | p99 to Jajeong's | rows/s | lag | drained after | errors | inversions | overtaken by | oversold | twice | lost |\n" +
	"| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"

func renderLoads(all []outcome) string {
	var b strings.Builder
	b.WriteString(loadColumns)
	for _, o := range all {
		lost, lag := fmt.Sprint(o.verdict.Lost), "steady"
		switch {
		case o.gaveUp:
			lost, lag = "–", "grows: given up"
		case o.length == burstLength:
			lag = "–"
		case o.growing:
			lag = "grows"
		}
		fmt.Fprintf(&b, "| %.0f | %d | %s | %s | %s | %s | %s | %.0f | %s | %s | %d | %d | %s | %d | %d | %s |\n", o.rate, o.coupons, o.contenderTitle(),
			o.rendered(o.latency.P50), o.rendered(o.latency.P99), o.rendered(o.latency.P999), ratioToJajeong(o, all), o.rows, lag, milli(o.drain),
			o.pressed[failed], o.verdict.Inversions, milli(o.verdict.Overtaken), o.verdict.Oversold, o.verdict.Twice, lost)
	}
	fmt.Fprintf(&b, "\n50,000 presses/s are a burst of one second. On ten coupons, it has %.0f seats for each 100 presses. Inversions: users who were issued behind one who was\n"+
		"accepted later. Overtaken by: the longest time by which a press was due before another that was issued first. ", 100*manySeats)
	b.WriteString("The order of acceptance, and\nthe column that numbers the rows:\n\n")
	var told []string
	for _, o := range all {
		if !slices.Contains(told, o.contender.name) {
			told = append(told, o.contender.name)
			fmt.Fprintf(&b, "- %s: %s, `%s`\n", o.contender.title, o.contender.accepts, o.contender.place)
		}
	}
	b.WriteString("\n")
	for _, o := range all {
		if o.contender.name == yardstick && o.rate == lowRate && o.coupons == 1 {
			fmt.Fprintf(&b, "Jajeong at %d presses/s on one coupon, %s: p50 %.2f of the interval, p99 %.2f of it.\n", lowRate, o.interval,
				o.latency.P50.Seconds()/o.interval.Seconds(), o.latency.P99.Seconds()/o.interval.Seconds())
		}
	}
	if slices.ContainsFunc(all, func(o outcome) bool { return o.verified }) {
		n, of := 0, 0
		for _, o := range all {
			if o.contender.name == yardstick {
				of++
				if o.verified {
					n++
				}
			}
		}
		fmt.Fprintf(&b, "`settle verify` found nothing after %d of the %d loads of Jajeong.\n", n, of)
	}
	for _, o := range all {
		if o.notChosen > 0 {
			fmt.Fprintf(&b, "At %.0f presses/s on %d coupons, Jajeong took %d more users into its line than there were seats, and told them NOT_SELECTED.\n", o.rate, o.coupons, o.notChosen)
		}
	}
	var slowest time.Duration
	for _, o := range all {
		slowest = max(slowest, o.watched)
	}
	fmt.Fprintf(&b, "The statement that looks for new rows took %s in the mean at most.\n", milli(slowest))
	return b.String()
}

// ratioToJajeong compares the 99th percentile with that of Jajeong at its default interval under the same load.
func ratioToJajeong(o outcome, all []outcome) string {
	i := slices.IndexFunc(all, func(j outcome) bool {
		return j.contender.name == yardstick && j.interval == interval && j.rate == o.rate && j.coupons == o.coupons
	})
	if i < 0 || all[i].latency.P99 == 0 {
		return "–"
	}
	text := fmt.Sprintf("%.2f", float64(o.latency.P99)/float64(all[i].latency.P99))
	if o.gaveUp {
		return "≥ " + text
	}
	return text
}

func renderKnees(all []knee) string {
	var b strings.Builder
	b.WriteString("The highest offered rate without growing lag, on one coupon:\n\n| contender | presses/s | p50 | p99 | the lag grew at |\n| --- | ---: | ---: | ---: | ---: |\n")
	for _, k := range all {
		grew := fmt.Sprintf("%.0f", k.refused)
		if k.refused == 0 {
			grew = "–"
		}
		fmt.Fprintf(&b, "| %s | %.0f | %s | %s | %s |\n", k.title, k.sustained, milli(k.latency.P50), milli(k.latency.P99), grew)
	}
	return b.String()
}

func renderIdle(all []idle) string {
	var b strings.Builder
	b.WriteString("Nobody presses:\n\n| contender | open coupons | workers | Redis commands/s | CPU of the workers |\n| --- | ---: | ---: | ---: | ---: |\n")
	for _, i := range all {
		fmt.Fprintf(&b, "| %s | %d | %d | %.0f | %.1f %% of a core |\n", i.title, i.coupons, i.workers, i.commands, 100*i.cpu)
	}
	b.WriteString("\nOf the contenders beside Jajeong, an open coupon costs nothing while nobody presses: their one queue is empty. Commands inside scripts count.\n")
	return b.String()
}

func renderFaults(all []fault) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Faults at %d presses/s on one coupon. From the kill, or from the moment MySQL answers again, to the first row of a press that was due after the fault\n"+
		"began. Longest wait: of the presses from a second before the fault to a second after it. MySQL is killed, stays away for 5 s, and then recovers for some seconds:\n\n| fault | contender | goes on | first new row | longest wait | told an error | lost | twice | inversions |\n"+
		"| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n", lowRate)
	for _, f := range all {
		goesOn := f.contender.resumes
		if f.what != killed {
			goesOn = "–"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %d | %d | %d | %d |\n", f.what, f.contender.title, goesOn, milli(f.first), milli(f.longest), f.toldError,
			f.verdict.Lost, f.verdict.Twice, f.verdict.Inversions)
	}
	return b.String()
}

func median(all []time.Duration) time.Duration { return slices.Sorted(slices.Values(all))[len(all)/2] }

func renderNight(seats int, night, once []time.Duration, measured []outcome) string {
	perSecond := func(d time.Duration) float64 { return float64(seats) / d.Seconds() }
	var b strings.Builder
	fmt.Fprintf(&b, "%d in line for as many seats, from the start of the process to the last visible row, medians of %d rounds:\n\n| | time | rows/s | ratio |\n| --- | ---: | ---: | ---: |\n",
		seats, len(night))
	fmt.Fprintf(&b, "| one nightly settlement, `settle run` | %s | %.0f | 1.00 |\n", milli(median(night)), perSecond(median(night)))
	fmt.Fprintf(&b, "| immediately, `settle serve` | %s | %.0f | %.2f |\n", milli(median(once)), perSecond(median(once)), float64(median(night))/float64(median(once)))
	for _, o := range measured {
		if o.contender.name == yardstick && o.rate == burst && o.coupons == 1 && o.interval == interval {
			fmt.Fprintf(&b, "| immediately, while they press for a second, from the first press | %s | %.0f | as fast as they press |\n", milli(o.length+o.drain), o.rows)
		}
	}
	return b.String()
}

// drawChart draws the 99th percentile over the rates on one coupon.
func drawChart(all []outcome) string {
	lines := make([]chart.Line, len(contenders))
	for i, c := range contenders {
		lines[i].Name = c.name
		for _, o := range all {
			if o.contender.name == c.name && o.coupons == 1 && o.interval == interval && o.latency.P99 > 0 {
				lines[i].Points = append(lines[i].Points, chart.Point{X: o.rate, Y: float64(max(1, o.latency.P99.Milliseconds()))})
			}
		}
	}
	return chart.Lines("From the press to the visible row: 99th percentile on one coupon", "presses/s", "ms", lines)
}
