package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jajeong/jajeong/bench/chart"
)

// result is what one measurement found.
type result struct {
	events, bytes       int
	relay, inSink, bare time.Duration
	page                time.Duration // of Redis for a script; 0 with Kafka
	fault
}

func (r result) rate(took time.Duration) float64 { return float64(r.events) / took.Seconds() }

// measured has the medians of a scene with a sink, and the sums of what was counted.
type measured struct {
	scene, sink        string
	events, bytes      int // of one round
	relay, bare        float64
	inSink             float64 // share of the relay's time
	ratio, least, most float64
	page               time.Duration
	fault
}

func summarise(scene, sink string, all []result) measured {
	m := measured{scene: scene, sink: sink, events: all[0].events, bytes: all[0].bytes}
	var relay, bare, inSink, ratios []float64
	var pages []time.Duration
	for _, r := range all {
		relay, bare = append(relay, r.rate(r.relay)), append(bare, r.rate(r.bare))
		inSink, ratios = append(inSink, r.inSink.Seconds()/r.relay.Seconds()), append(ratios, r.bare.Seconds()/r.relay.Seconds())
		pages = append(pages, r.page)
		m.missing, m.twice, m.inversions = m.missing+r.missing, m.twice+r.twice, m.inversions+r.inversions
	}
	m.relay, m.bare, m.inSink, m.ratio, m.page = median(relay), median(bare), median(inSink), median(ratios), median(pages)
	m.least, m.most = slices.Min(ratios), slices.Max(ratios)
	return m
}

func median[T float64 | time.Duration](all []T) T {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// render renders a table as Markdown. others is how many cores other programs used.
func (s *stage) render(all []measured, rounds int, others float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, Redis %s, %s, %d cores, %s. Relay and bare program take turns, %d rounds: medians, and the spread of the ratio.\n",
		s.mysql.Version, s.redisVersion, s.kafkaVersion(), runtime.NumCPU(), time.Now().Format(time.DateOnly), rounds)
	fmt.Fprintf(&b, "Other programs used %.1f cores meanwhile. The relay reads MySQL; the bare program has the bytes in memory.\n\n", others)
	fmt.Fprint(&b, "| published | sink | events | bytes an event | relay, events/s | of it in the sink | bare, events/s | ratio | spread | Redis, a page of 200 | missing | twice | out of order |\n"+
		"| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, m := range all {
		page := "–"
		if m.page > 0 {
			page = fmt.Sprintf("%d µs", m.page.Microseconds())
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %.0f | %.0f %% | %.0f | %.2f | %.2f to %.2f | %s | %d | %d | %d |\n", m.scene, m.sink, m.events, m.bytes/m.events,
			m.relay, 100*m.inSink, m.bare, m.ratio, m.least, m.most, page, m.missing, m.twice, m.inversions)
	}
	return b.String()
}

// drawChart draws events per second, as the table has them.
func drawChart(all []measured) string {
	var groups []chart.Group
	for _, m := range all {
		groups = append(groups, chart.Group{Name: m.scene + ", " + m.sink, Figures: []float64{math.Round(m.relay), math.Round(m.bare)}})
	}
	return chart.Bars("Events per second", "events/s", []string{"relay", "bare program"}, groups)
}
