package settle

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/jajeong/jajeong/bench/report"
	"github.com/jajeong/jajeong/bench/stage"
)

// small compares many small coupons with one coupon of as many seats. A run by hand records its operator for each
// coupon, and asks for the policy of approvals; a nightly run does not.
func (m *measurement) small(ctx context.Context) (string, error) {
	const seats = 100
	coupons := *m.coupons
	builds, err := m.builds(ctx)
	if err != nil {
		return "", err
	}
	one := fmt.Sprintf("run by hand, coupons of %d seats: 1", coupons*seats)
	var ways []report.Way[settled]
	for _, of := range []struct {
		title string
		campaign
	}{
		{one, campaign{coupons: 1, seats: coupons * seats, candidates: coupons * seats}},
		{fmt.Sprintf("run by hand, coupons of %d seats: %d", seats, coupons), campaign{coupons, seats, seats, false}},
		{fmt.Sprintf("nightly run, coupons of %d seats: %d", seats, coupons), campaign{coupons, seats, seats, true}},
	} {
		for _, build := range builds {
			ways = append(ways, m.way(ctx, of.title, of.campaign, build))
		}
	}
	table, err := report.Measured("", *m.rounds, ways, append([]report.Column[settled]{
		report.Elapsed("time", took), report.Median("rows/s", report.Whole, rate),
		report.Ratio("ratio to the big one", report.To(one), rate),
	}, cpuColumns...)...)
	return fmt.Sprintf("Many small coupons compared with a big one, %d rounds:\n\n", *m.rounds) + table, err
}

// long measures few seats at the head of a long queue. With another build, only the longest.
func (m *measurement) long(ctx context.Context) (string, error) {
	const seats = 1000
	lengths := []int{seats, 100 * seats, *m.candidates}
	if *m.other != "" {
		lengths = lengths[2:]
	}
	builds, err := m.builds(ctx)
	if err != nil {
		return "", err
	}
	var ways []report.Way[settled]
	for _, n := range lengths {
		for _, build := range builds {
			ways = append(ways, report.Way[settled]{Name: fmt.Sprint(n) + build.title,
				Measure: func() (settled, error) {
					return m.headOf(ctx, campaign{coupons: 1, seats: seats, candidates: n}, build.program)
				}})
		}
	}
	table, err := report.Measured("candidates", *m.rounds, ways, append([]report.Column[settled]{
		report.Elapsed("coupons issued after", func(r settled) time.Duration { return r.issued }),
		report.Elapsed("whole run", took), report.Spread("fastest to slowest", report.Time, seconds),
		report.Median("candidates/s", report.Whole, rate),
	}, cpuColumns...)...)
	return fmt.Sprintf("%d seats at the head of a queue:\n\n", seats) + table, err
}

// headOf also measures when the coupons are issued.
func (m *measurement) headOf(ctx context.Context, c campaign, program string) (r settled, err error) {
	p, err := m.prepare(ctx, c)
	if err != nil {
		return r, err
	}
	defer p.Close()
	issued := make(chan time.Duration, 1)
	go func() {
		began := time.Now()
		_ = stage.Until(ctx, "issue", time.Hour, func() (bool, error) {
			n, err := p.Number(ctx, "SELECT issued_count FROM coupon")
			return n == c.seats, err
		})
		issued <- time.Since(began)
	}()
	if r, err = m.settle(ctx, p, c, program, false); err == nil {
		r.issued, r.rows = <-issued, c.candidates
	}
	return r, err
}

const (
	applyPause = 2 * time.Millisecond
	blockPause = 20 * time.Millisecond
	quietFor   = 2 * time.Second
)

// beside measures other users of the same servers during the settlement of a big coupon.
func (m *measurement) beside(ctx context.Context) (string, error) {
	c := campaign{coupons: 1, seats: *m.big, candidates: *m.big}
	builds, err := m.builds(ctx)
	if err != nil {
		return "", err
	}
	p, err := m.prepare(ctx, c)
	if err != nil {
		return "", err
	}
	defer p.Close()
	cores, err := m.Apart(runtime.NumCPU() - 1)
	if err != nil {
		return "", err
	}
	quiet, err := others(ctx, p, 1001, func() error { return stage.Wait(ctx, quietFor) })
	if err != nil {
		return "", err
	}
	if err := p.Exec(ctx, "UPDATE `user` SET status = 'ACTIVE'"); err != nil {
		return "", err
	}
	var r settled
	busy, err := others(ctx, p, 2001, func() (err error) {
		r, err = m.settle(ctx, p, c, builds[0].program, true)
		return err
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("During the settlement of %d seats (%s), every %s and every %s. %s\n\n", c.seats,
		r.took.Round(time.Millisecond), applyPause, blockPause, cores) + waited(quiet, busy, applying, blocking), nil
}

// waited is a table of response times, for each kind of work when nothing else happened and during something.
func waited(quiet, busy map[string]noticed, kinds ...string) string {
	quantile := func(head string, q float64) report.Column[noticed] {
		return report.Elapsed(head, func(n noticed) time.Duration { return n.Quantile(q) })
	}
	var rows []report.Row[noticed]
	for _, what := range kinds {
		rows = append(rows, report.Row[noticed]{Name: what + ", idle", Rounds: []noticed{quiet[what]}},
			report.Row[noticed]{Name: what + ", during it", Rounds: []noticed{busy[what]}})
	}
	return report.Table("", rows, quantile("p50", 0.5), quantile("p99", 0.99), quantile("p99.9", 0.999),
		quantile("longest", 1),
		report.Ratio("ratio of p99", idleName, func(n noticed) float64 { return n.Quantile(0.99).Seconds() }))
}

// countsSQL reads each row once, as the least that a report and a check must read.
const countsSQL = `
SELECT SUM(n) FROM (
	SELECT coupon_id, run_id, COUNT(*) AS n, MIN(applied_at), MAX(applied_at) FROM user_coupon GROUP BY coupon_id,
		run_id
	UNION ALL SELECT coupon_id, run_id, COUNT(*), MIN(applied_at), MAX(applied_at)
	FROM application_outcome GROUP BY coupon_id, run_id) g`

// reads measures `settle verify` and `settle report` over many settled coupons.
func (m *measurement) reads(ctx context.Context) (string, error) {
	c := campaign{coupons: 5 * *m.coupons, seats: 240, candidates: 300}
	builds, err := m.builds(ctx)
	if err != nil {
		return "", err
	}
	p, err := m.prepare(ctx, c)
	if err != nil {
		return "", err
	}
	defer p.Close()
	if _, err := m.settle(ctx, p, c, builds[0].program, false); err != nil {
		return "", err
	}
	month := time.Now().Add(-time.Hour).UTC().Add(9 * time.Hour).Format("2006-01") // in Seoul
	const counted = "the rows, counted by one statement"
	ways := []report.Way[settled]{{Name: counted, Measure: func() (settled, error) {
		began := time.Now()
		n, err := p.Number(ctx, countsSQL)
		if err == nil && n != c.coupons*c.candidates {
			err = fmt.Errorf("%d rows counted, want %d", n, c.coupons*c.candidates)
		}
		return settled{took: time.Since(began)}, err
	}}}
	for _, build := range builds {
		for _, args := range [][]string{{"verify"}, {"report", "--month=" + month}} {
			name := "settle " + args[0] + build.title
			ways = append(ways, report.Way[settled]{Name: name, Measure: func() (settled, error) {
				r, _, err := measured(p.Command(ctx, build.program, append(args, "--output=json")...))
				return r, err
			}})
		}
	}
	table, err := report.Measured("", *m.rounds, ways,
		report.Elapsed("time", took), report.Spread("fastest to slowest", report.Time, seconds),
		report.Ratio("ratio to the rows", report.To(counted), seconds), report.Most("peak memory", report.MiB, peak))
	return fmt.Sprintf("Reading %d settled coupons with %d issued coupons and %d other outcomes, %d rounds:\n\n",
		c.coupons, c.issued(), c.coupons*(c.candidates-c.seats), *m.rounds) + table, err
}
