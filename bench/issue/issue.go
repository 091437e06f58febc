// Package issue compares the immediate issuing of Jajeong with three ways to build it: a Redis Stream with consumers,
// seat rows with SKIP LOCKED inside the request, and asynq. All contenders are pressed in this process by the same
// open loop, and issue into the same table. Workers are processes. Latency counts from the time at which a press was
// due to the time at which another connection can read its row.
package issue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jajeong/jajeong/bench/report"
	"github.com/jajeong/jajeong/bench/stage"
)

type measurement struct {
	*stage.Stage
	contenders *[]contender
	scenes     *[]stage.Scene[*measurement]
	length     *time.Duration
	quick      *int
	loads      []report.Row[outcome]
}

const (
	interval = 100 * time.Millisecond // the default of ISSUE_INTERVAL
	lowRate  = 1_000
	highRate = 10_000
	burst    = 50_000

	burstLength = time.Second
	manySeats   = 0.8 // seats per press in the burst on ten coupons: some users find the coupon sold out
	tenCoupons  = 10
)

// New registers the flags.
func New(o *stage.Options) func(ctx context.Context, s *stage.Stage) (string, error) {
	m := &measurement{
		contenders: stage.Choose(o, "contenders", contenders, func(c contender) string { return c.name }),
		scenes: stage.Scenes(o, []stage.Scene[*measurement]{
			{Name: "loads", Play: (*measurement).measureLoads}, {Name: "knee", Play: (*measurement).findKnees},
			{Name: "idle", Play: (*measurement).measureIdle}, {Name: "faults", Play: (*measurement).measureFaults},
			{Name: "yardstick", Play: (*measurement).compareWithNight},
		}),
		length: o.Duration("seconds", 60, 1, 600, "the loads on one coupon at 100 ms; the others take a sixth"),
		quick:  o.Int("quick", 1, 1, 100, "divides all rates and sizes, to see that everything works"),
	}
	return func(ctx context.Context, s *stage.Stage) (string, error) {
		m.Stage = s
		return stage.Play(ctx, m, *m.scenes)
	}
}

// part is the length of a load, in parts of the whole.
func (m *measurement) part(parts time.Duration) time.Duration {
	return max(time.Second, *m.length/parts)
}

// rate is a rate or a size, smaller if it is only to be seen that everything works.
func (m *measurement) rate(of float64) float64 { return of / float64(*m.quick) }

// once opens a stand for one load.
func (m *measurement) once(ctx context.Context, c contender, of setup, l plan, disturb func(*stand) disturbance) (
	o outcome, err error) {
	v, err := m.openStand(ctx, c, of)
	if err != nil {
		return o, err
	}
	defer v.close()
	var during disturbance
	if disturb != nil {
		during = disturb(v)
	}
	if o, err = v.run(ctx, l, during); err == nil {
		stage.Say("%s %s: %.0f/s on %d: %+v, %.0f rows/s, %+v; errors %d %s", c.name, of.interval, l.rate, of.coupons,
			o.latency,
			o.rows, o.verdict, o.pressed[failed], o.failure)
	}
	return o, err
}

// title is what the tables call a contender.
func (o outcome) title() string {
	if o.contender.name == yardstick {
		return fmt.Sprintf("%s, %s", o.contender.title, o.interval)
	}
	return o.contender.title
}

func (o outcome) rowName() string { return fmt.Sprintf("%.0f | %d | %s", o.rate, o.coupons, o.title()) }

// atLeast marks the lower bounds of a load that was given up.
func atLeast(head string, figure func(outcome) string) report.Column[outcome] {
	return report.Text(head, func(o outcome) string {
		if o.gaveUp {
			return "≥ " + figure(o)
		}
		return figure(o)
	})
}

func shown(d time.Duration) string { return report.Time(d.Seconds()) }

// ratioToJajeong compares the 99th percentile with that of Jajeong at its default interval under the same load.
func (m *measurement) ratioToJajeong(o outcome) string {
	for _, row := range m.loads {
		j := row.Rounds[0]
		if j.contender.name == yardstick && j.interval == interval && j.rate == o.rate && j.coupons == o.coupons &&
			j.latency.P99 > 0 {
			return report.Two(o.latency.P99.Seconds() / j.latency.P99.Seconds())
		}
	}
	return "–"
}

func (m *measurement) measureLoads(ctx context.Context) (string, error) {
	add := func(c contender, l plan, coupons int, every time.Duration) error {
		of := l.of(coupons, every)
		if coupons > 1 && l.burst {
			of.seats = int(manySeats * float64(l.n()) / float64(coupons))
		}
		o, err := m.once(ctx, c, of, l, nil)
		m.loads = append(m.loads, report.Row[outcome]{Name: o.rowName(), Rounds: []outcome{o}})
		return err
	}
	peak := plan{rate: m.rate(burst), length: burstLength, burst: true}
	for _, coupons := range []int{1, tenCoupons} {
		low, high := plan{rate: m.rate(lowRate), length: *m.length}, plan{rate: m.rate(highRate), length: *m.length}
		for _, l := range []plan{low, high, peak} {
			if *m.quick > 1 && (coupons == 1) != (l.rate == m.rate(lowRate)) {
				continue
			}
			brief := plan{rate: l.rate, length: min(l.length, m.part(6)), burst: l.burst}
			for _, c := range *m.contenders {
				if coupons > 1 && c.variant {
					continue
				}
				of := l
				if coupons > 1 || c.variant {
					of = brief
				}
				err := add(c, of, coupons, interval)
				for _, every := range []time.Duration{20 * time.Millisecond, 200 * time.Millisecond} {
					if err == nil && c.name == yardstick && coupons == 1 {
						err = add(c, brief, coupons, every)
					}
				}
				if err != nil {
					return "", err
				}
			}
		}
	}
	return m.renderLoads(), nil
}

func (m *measurement) renderLoads() string {
	table := report.Table("presses/s | coupons | contender", m.loads,
		atLeast("p50", func(o outcome) string { return shown(o.latency.P50) }),
		atLeast("p99", func(o outcome) string { return shown(o.latency.P99) }),
		atLeast("p99.9", func(o outcome) string { return shown(o.latency.P999) }),
		atLeast("p99 to Jajeong's", m.ratioToJajeong),
		report.Median("rows/s", report.Whole, func(o outcome) float64 { return o.rows }),
		report.Text("lag", outcome.lag),
		report.Elapsed("drained after", func(o outcome) time.Duration { return o.drain }),
		report.Sum("errors", func(o outcome) int { return o.pressed[failed] }),
		report.Sum("inversions", func(o outcome) int { return o.verdict.Inversions }),
		report.Elapsed("overtaken by", func(o outcome) time.Duration { return o.verdict.Overtaken }),
		report.Sum("oversold", func(o outcome) int { return o.verdict.Oversold }),
		report.Sum("twice", func(o outcome) int { return o.verdict.Twice }),
		report.Text("lost", func(o outcome) string {
			if o.gaveUp {
				return "–"
			}
			return fmt.Sprint(o.verdict.Lost)
		}))
	verified, of, notChosen, slowest := 0, 0, 0, time.Duration(0)
	for _, row := range m.loads {
		o := row.Rounds[0]
		if slowest = max(slowest, o.watched); o.contender.name == yardstick {
			of++
			notChosen += o.notChosen
			if o.verified {
				verified++
			}
		}
	}
	return table +
		fmt.Sprintf("\n`settle verify` found nothing after %d of the %d loads of Jajeong. NOT_SELECTED after "+
			"they were in its line: %d users. The statement that looks for new rows took %s in the mean at most.\n",
			verified,
			of, notChosen, shown(slowest))
}

func (o outcome) lag() string {
	switch {
	case o.gaveUp:
		return "grows: given up"
	case o.burst:
		return "–"
	case o.growing:
		return "grows"
	default:
		return "steady"
	}
}

// Charts draws the 99th percentile over the rates on one coupon.
func Charts(tables []report.Printed) map[string]string {
	of := report.With(tables, "p99 to Jajeong's")
	if len(of) == 0 {
		return nil
	}
	var labels []report.Short
	for _, c := range contenders {
		labels = append(labels, report.Short{Name: strings.Replace(c.title, "Jajeong", "Jajeong, "+interval.String(),
			1),
			Label: c.name})
	}
	return map[string]string{"issue.svg": report.Lines{
		Title: "From the press to the visible row: 99th percentile on one coupon",
		Table: of[0], Contender: "contender", X: "presses/s", Y: "p99", Unit: "ms",
		Where: map[string]string{"coupons": "1"}, Labels: labels}.Draw()}
}
