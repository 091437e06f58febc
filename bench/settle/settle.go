// Package settle compares a whole `settle run` with the fastest ways to write the same rows: LOAD DATA LOCAL INFILE,
// multi-row INSERTs, and one INSERT per user, with one transaction each and in order of arrival.
package settle

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/jajeong/jajeong/bench/report"
	"github.com/jajeong/jajeong/bench/stage"
)

type measurement struct {
	*stage.Stage
	seats, scenes   *[]string
	candidates, big *int
	coupons         *int // of the scenes small and reads
	other           *string
	rounds          *int
}

var sizes = []string{"1000", "10000", "100000", "200000", "1000000"}

// scenes are measurements of `settle run` alone.
var scenes = []struct {
	name string
	run  func(m *measurement, ctx context.Context) (string, error)
}{
	{"small", (*measurement).small},
	{"long", (*measurement).long},
	{"beside", (*measurement).beside},
	{"events", (*measurement).events},
	{"reads", (*measurement).reads},
}

// New registers the flags.
func New(o *stage.Options) func(ctx context.Context, s *stage.Stage) (string, error) {
	var all []string
	for _, s := range scenes {
		all = append(all, s.name)
	}
	m := &measurement{
		seats:      o.Choice("seats", sizes, sizes),
		scenes:     o.Choice("scenes", all, all[:3]),
		candidates: o.Int("candidates", 10_000_000, 1000, 20_000_000, "the longest queue of the scene long"),
		big:        o.Int("big", 1_000_000, 1000, 10_000_000, "seats of the scene beside; five times those of events"),
		coupons:    o.Int("coupons", 1000, 1, 10_000, "coupons of the scene small; five times as many for the scene reads"),
		other:      o.Other(),
		rounds:     o.Rounds(3),
	}
	return m.run
}

func (m *measurement) run(ctx context.Context, s *stage.Stage) (text string, err error) {
	m.Stage = s
	if len(*m.seats) > 0 {
		if text, err = m.inserts(ctx); err != nil {
			return "", err
		}
	}
	for _, name := range *m.scenes {
		for _, scene := range scenes {
			if scene.name != name {
				continue
			}
			found, err := scene.run(m, ctx)
			if err != nil {
				return "", fmt.Errorf("scene %s: %w", name, err)
			}
			text += "\n" + found
		}
	}
	return text, nil
}

// builds are the builds of settle by what a table calls them.
func (m *measurement) builds(ctx context.Context) (titles []string, programs map[string]string, err error) {
	own, err := m.Build(ctx, "./cmd/settle")
	titles, programs = []string{""}, map[string]string{"": own}
	if *m.other != "" {
		const title = ", the other build"
		titles, programs[title] = append(titles, title), *m.other
	}
	return titles, programs, err
}

// campaign describes the input of a run. Each coupon has the same numbers of seats and candidates.
type campaign struct {
	coupons, seats, candidates int
	nightly                    bool // the run is a nightly one, instead of a run by hand
}

func (c campaign) issued() int { return c.coupons * min(c.seats, c.candidates) }

// prepare opens a shop whose lines are full. For a nightly run, they are from before the last midnight.
func (m *measurement) prepare(ctx context.Context, c campaign) (*stage.Shop, error) {
	p, err := m.OpenShop(ctx, c.coupons, c.seats)
	if err != nil {
		return nil, err
	}
	ago := time.Hour
	if c.nightly {
		ago = 25 * time.Hour
	}
	err = p.AddUsers(ctx, 1, c.candidates)
	for id := 1; id <= c.coupons && err == nil; id++ {
		err = p.Fill(ctx, id, 1, c.candidates, ago)
	}
	if err != nil {
		p.Close()
	}
	return p, err
}

// settled has the resources of a run.
type settled struct {
	rows                 int
	took                 time.Duration // the whole process
	issued               time.Duration // until the commit of the coupons; 0: not watched
	peak                 int64         // bytes of resident memory
	job, redis, database time.Duration // CPU time; that of a database that the bench did not start is unknown
	published            int           // events meanwhile
}

func took(r settled) time.Duration { return r.took }
func seconds(r settled) float64    { return r.took.Seconds() }
func rate(r settled) float64       { return float64(r.rows) / r.took.Seconds() }
func peak(r settled) float64       { return float64(r.peak) }

// cpuColumns are the CPU times of the three programs.
var cpuColumns = []report.Column[settled]{
	report.Elapsed("CPU of the job", func(r settled) time.Duration { return r.job }),
	report.Elapsed("of the database", func(r settled) time.Duration { return r.database }),
	report.Elapsed("of Redis", func(r settled) time.Duration { return r.redis }),
	report.Most("peak memory", report.MiB, peak),
}

// settle measures a run, from the start of its process to its exit. Users who are blocked meanwhile are not issued.
func (m *measurement) settle(ctx context.Context, p *stage.Shop, c campaign, program string, blocks bool) (
	r settled, err error) {
	args := stage.ByHand
	if c.nightly {
		args = []string{"run", "--output=json"}
	}
	redis, database := stage.CPU(p.Redis.Pid()), stage.CPU(m.MySQLPid())
	var out []byte
	r, out, err = measured(p.Command(ctx, program, args...))
	r.redis, r.database = stage.CPU(p.Redis.Pid())-redis, stage.CPU(m.MySQLPid())-database
	if err != nil {
		return r, err
	}
	var told struct {
		Total struct{ Issued, Rejected, UnderReview int }
	}
	if err := json.Unmarshal(out, &told); err != nil {
		return r, fmt.Errorf("settle run: %w", err)
	}
	blocked := told.Total.Rejected + told.Total.UnderReview
	if !blocks && blocked > 0 || told.Total.Issued+blocked != c.issued() {
		return r, fmt.Errorf("settle run issued %d of %d and did not issue %d", told.Total.Issued, c.issued(), blocked)
	}
	r.rows = c.issued()
	return r, nil
}

// once measures a run in a shop of its own.
func (m *measurement) once(ctx context.Context, c campaign, program string) (settled, error) {
	p, err := m.prepare(ctx, c)
	if err != nil {
		return settled{}, err
	}
	defer p.Close()
	return m.settle(ctx, p, c, program, false)
}

// inserts compares the contenders at each size.
func (m *measurement) inserts(ctx context.Context) (string, error) {
	type one struct {
		contender
		seats   int
		program string
	}
	builds, programs, err := m.builds(ctx)
	if err != nil {
		return "", err
	}
	var names []string
	var all []one
	for _, size := range *m.seats {
		seats, err := strconv.Atoi(size)
		if err != nil {
			return "", err
		}
		for _, c := range contenders {
			for _, build := range builds {
				if seats <= c.limit && (build == "" || c.insert == nil) {
					names = append(names, size+" | "+c.title+build)
					all = append(all, one{c, seats, programs[build]})
				}
			}
		}
	}
	columns := []report.Column[settled]{
		report.Elapsed("time", took), report.Median("rows/s", report.Whole, rate),
		report.Ratio("ratio to LOAD DATA", func(name string) string { return firstCell(name) + " | " + yardstick }, rate),
		report.Most("peak memory", report.MiB, peak),
	}
	rows, err := report.InTurn(*m.rounds, names, func(i int) (settled, error) {
		if all[i].insert != nil {
			return m.insert(ctx, all[i].seats, all[i].insert)
		}
		return m.once(ctx, campaign{coupons: 1, seats: all[i].seats, candidates: all[i].seats}, all[i].program)
	}, columns...)
	return report.Table("seats | contender", rows, columns...), err
}

// Charts draws rows per second over seats.
func Charts(tables []report.Printed) map[string]string {
	charts := map[string]string{}
	var labels []report.Short
	for _, c := range contenders {
		labels = append(labels, report.Short{Name: c.title, Label: c.title})
	}
	for i, of := range []string{"MariaDB", "MySQL"} { // the order of the page
		if all := report.With(tables, "ratio to LOAD DATA"); i < len(all) {
			charts["settle-"+of+".svg"] = report.Lines{Title: "Rows per second over seats, " + of, Table: all[i],
				Contender: "contender", X: "seats", Y: "rows/s", Unit: "rows/s", Labels: labels}.Draw()
		}
	}
	return charts
}
