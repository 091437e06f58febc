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
	seats           *[]int
	scenes          *[]stage.Scene[*measurement]
	candidates, big *int
	coupons         *int // of the scenes small and reads
	other           *string
	rounds          *int
}

var sizes = []int{1000, 10_000, 100_000, 200_000, 1_000_000}

// New registers the flags.
func New(o *stage.Options) func(ctx context.Context, s *stage.Stage) (string, error) {
	m := &measurement{
		seats: stage.Choose(o, "seats", sizes, strconv.Itoa),
		scenes: stage.Scenes(o, []stage.Scene[*measurement]{
			{Name: "small", Play: (*measurement).small}, {Name: "long", Play: (*measurement).long},
			{Name: "beside", Play: (*measurement).beside}, {Name: "events", Play: (*measurement).events},
			{Name: "reads", Play: (*measurement).reads}, {Name: "lists", Play: (*measurement).lists},
		}, "small", "long", "beside"),
		candidates: o.Int("candidates", 10_000_000, 1000, 20_000_000, "the longest queue of the scene long"),
		big: o.Int("big", 1_000_000, 1000, 10_000_000,
			"seats of the scene beside and users of a list; five times the seats of events"),
		coupons: o.Int("coupons", 1000, 1, 10_000,
			"coupons of the scene small; five times as many for the scene reads"),
		other:  o.Other(),
		rounds: o.Rounds(3),
	}
	return m.run
}

func (m *measurement) run(ctx context.Context, s *stage.Stage) (text string, err error) {
	m.Stage = s
	if len(*m.seats) > 0 {
		if text, err = m.inserts(ctx); err != nil {
			return "", err
		}
		text += "\n"
	}
	more, err := stage.Play(ctx, m, *m.scenes)
	return text + more, err
}

// build is a build of settle.
type build struct {
	title   string // appended to a row's name
	program string
}

// builds are this build and the other one.
func (m *measurement) builds(ctx context.Context) ([]build, error) {
	own, err := m.Build(ctx, "./cmd/settle")
	all := []build{{"", own}}
	if *m.other != "" {
		all = append(all, build{", the other build", *m.other})
	}
	return all, err
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
	var out []byte
	used, err := p.Use(ctx, nil, func() (err error) {
		r, out, err = measured(p.Command(ctx, program, args...))
		return err
	})
	r.redis, r.database = used.Redis, used.MySQL
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

// way measures a run in a shop of its own.
func (m *measurement) way(ctx context.Context, name string, c campaign, of build) report.Way[settled] {
	return report.Way[settled]{Name: name + of.title, Measure: func() (settled, error) {
		p, err := m.prepare(ctx, c)
		if err != nil {
			return settled{}, err
		}
		defer p.Close()
		return m.settle(ctx, p, c, of.program, false)
	}}
}

// inserts compares the contenders at each size.
func (m *measurement) inserts(ctx context.Context) (string, error) {
	builds, err := m.builds(ctx)
	if err != nil {
		return "", err
	}
	var ways []report.Way[settled]
	for _, seats := range *m.seats {
		for _, c := range contenders {
			name := fmt.Sprintf("%d | %s", seats, c.title)
			if seats <= c.limit && c.insert != nil {
				ways = append(ways, report.Way[settled]{Name: name, Measure: func() (settled, error) {
					return m.insert(ctx, seats, c.insert)
				}})
			}
			for _, build := range builds {
				if c.insert == nil {
					ways = append(ways, m.way(ctx, name, campaign{coupons: 1, seats: seats, candidates: seats}, build))
				}
			}
		}
	}
	return report.Measured("seats | contender", *m.rounds, ways,
		report.Elapsed("time", took), report.Median("rows/s", report.Whole, rate),
		report.Ratio("ratio to LOAD DATA", func(name string) string { return firstCell(name) + " | " + yardstick },
			rate),
		report.Most("peak memory", report.MiB, peak))
}

func (c contender) short() report.Short { return report.Short{Name: c.title, Label: c.title} }

// Charts draws rows per second over seats.
func Charts(tables []report.Printed) map[string]string {
	charts := map[string]string{}
	labels := report.Shorts(contenders, contender.short)
	for i, of := range []string{"MariaDB", "MySQL"} { // the order of the page
		if all := report.With(tables, "ratio to LOAD DATA"); i < len(all) {
			charts["settle-"+of+".svg"] = report.Lines{Title: "Rows per second over seats, " + of, Table: all[i],
				Contender: "contender", X: "seats", Y: "rows/s", Unit: "rows/s", Labels: labels}.Draw()
		}
	}
	return charts
}
