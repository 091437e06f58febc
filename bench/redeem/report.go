package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jajeong/jajeong/bench/chart"
)

// measured has the medians of a contender in a scene, and the sums of what was counted.
type measured struct {
	scene, contender    string
	rate, least, most   float64
	p50, p99            time.Duration
	expected, used      int
	twice, busy, errors int
	failure             error

	server, client time.Duration // CPU time of an order; 0: not measured
}

func summarise(scene, contender string, all []result) measured {
	m := measured{scene: scene, contender: contender}
	var rates []float64
	var p50, p99, server, client []time.Duration
	for _, r := range all {
		rates, p50, p99 = append(rates, r.rate()), append(p50, r.quantile(0.5)), append(p99, r.quantile(0.99))
		asked := time.Duration(max(1, len(r.latencies)))
		server, client = append(server, r.server/asked), append(client, r.client/asked)
		m.expected, m.used, m.twice, m.busy, m.errors = m.expected+r.expected, m.used+r.used, m.twice+r.twice, m.busy+r.busy, m.errors+r.errors
		if m.failure == nil {
			m.failure = r.failure
		}
	}
	m.rate, m.least, m.most = median(rates), slices.Min(rates), slices.Max(rates)
	m.p50, m.p99, m.server, m.client = median(p50), median(p99), median(server), median(client)
	return m
}

func median[T float64 | time.Duration](all []T) T {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

func milli(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

func micro(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%d µs", d.Microseconds())
}

func (s *stage) render(all []measured) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s. The contenders take turns, %d rounds: medians, and the spread.\n%d connections to MySQL.\n",
		s.environment(), s.rounds, s.servers.MySQL.Stats().MaxOpenConnections)
	base := map[string]float64{}
	for _, m := range all {
		if m.contender == yardstick {
			base[m.scene] = m.rate
		}
	}
	for _, scene := range s.scenes {
		switch scene {
		case distinct:
			fmt.Fprintf(&b, "\n## Distinct coupons\n\n%d clients use %d coupons a round, each for one order. A time is that of all steps of an order.\n\n", s.clients, s.options.coupons)
		case hot:
			fmt.Fprintf(&b, "\n## One hot coupon\n\n%d clients want the same coupon at once, each for its own order; %d coupons a round, one after another. A time is that until\nthe order has the coupon or is refused. Locked: answers that the coupon is locked. The client then tries again.\n\n", s.crowd, s.waves)
		case paused:
			fmt.Fprintf(&b, "\n## The holder stops for %s\n\n%d coupons. The first order stops between SELECT and its first write, in the first step. Then a second order wants the same coupon.\nUsed: the order was told that the coupon is used.\n\n| contender | coupons | used by one order | used by two orders | errors |\n| --- | ---: | ---: | ---: | ---: |\n", s.pause, s.paused)
		}
		if scene != paused {
			fmt.Fprintf(&b, "| contender | orders/s | spread | ratio to %s | p50 | p99 | CPU MySQL | CPU client, Redis | used | used twice | locked | errors |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n", yardstick)
		}
		for _, m := range all {
			switch {
			case m.scene != scene:
			case scene == paused:
				fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", m.contender, m.expected, m.used-m.twice, m.twice, m.errors)
			default:
				fmt.Fprintf(&b, "| %s | %.0f | %.0f to %.0f | %s | %s | %s | %s | %s | %d of %d | %d | %d | %d |\n", m.contender, m.rate, m.least, m.most, ratio(m.rate, base[scene]),
					milli(m.p50), milli(m.p99), micro(m.server), micro(m.client), m.used, m.expected, m.twice, m.busy, m.errors)
			}
		}
	}
	for _, m := range all {
		if m.failure != nil {
			fmt.Fprintf(&b, "\nThe first error of %s, %s: %v\n", m.contender, m.scene, m.failure)
		}
	}
	return b.String()
}

func ratio(rate, base float64) string {
	if base == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", rate/base)
}

// drawChart draws orders per second, as the tables have them.
func drawChart(all []measured) string {
	var groups []chart.Group
	for _, m := range all {
		if m.scene == paused {
			continue
		}
		i := slices.IndexFunc(groups, func(g chart.Group) bool { return g.Name == shortName[m.contender] })
		if i < 0 {
			i = len(groups)
			groups = append(groups, chart.Group{Name: shortName[m.contender]})
		}
		groups[i].Figures = append(groups[i].Figures, math.Round(m.rate))
	}
	if len(groups) == 0 {
		return ""
	}
	return chart.Bars("Orders per second", "orders/s", []string{"distinct coupons", "one hot coupon"}, groups)
}

var shortName = map[string]string{"Jajeong": "Jajeong", "Jajeong, each call alone": "each alone", yardstick: "lock, two steps", "Redis lock, one step": "lock, one step",
	"Redis lock, two steps, with records": "lock, records", "SELECT … FOR UPDATE": "FOR UPDATE"}
