// Package redeem compares ways to use an issued coupon at checkout: Jajeong's wallet, a Redis lock around SELECT and
// UPDATE, and SELECT … FOR UPDATE. All are called in this process, without HTTP.
package redeem

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/bench/report"
	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/connect"
)

// maxPaused is the most coupons of the scene paused: each needs a connection of the holders, and one of the others.
const maxPaused = 30

type measurement struct {
	*stage.Shop
	contenders                             *[]contender
	scenes                                 *[]scene
	rounds, each, crowd, hot, waves, holds *int
	pause                                  *time.Duration
	coupons                                int // rows of table coupon
}

// scene is one kind of crowd. about introduces its table.
type scene struct {
	name    string
	coupons func(m *measurement) int
	about   func(m *measurement) string
}

const paused = "paused"

var scenes = []scene{
	{"distinct", func(m *measurement) int { return *m.each }, func(m *measurement) string {
		return fmt.Sprintf("%d clients use %d coupons a round, each for one order; %d rounds. %d connections to MySQL",
			*m.crowd, *m.each, *m.rounds, m.Servers.MySQL.Stats().MaxOpenConnections)
	}},
	{"hot", func(m *measurement) int { return *m.waves }, func(m *measurement) string {
		return fmt.Sprintf("%d clients want the same coupon at once, each for its own order; %d coupons a round, one "+
			"after another", *m.hot, *m.waves)
	}},
	{paused, func(m *measurement) int { return *m.holds }, func(m *measurement) string {
		return fmt.Sprintf("%d coupons, whose holder stops for %s", *m.holds, *m.pause)
	}},
}

// New registers the flags.
func New(o *stage.Options) func(ctx context.Context, s *stage.Stage) (string, error) {
	m := &measurement{
		contenders: stage.Choose(o, "contenders", contenders, func(c contender) string { return c.name }),
		scenes:     stage.Choose(o, "scenes", scenes, func(s scene) string { return s.name }), rounds: o.Rounds(5),
		each:  o.Int("coupons", 6000, 1, 1_000_000, "coupons of a round of the scene distinct"),
		crowd: o.Int("clients", 32, 1, 1000, "clients of the scene distinct"),
		hot:   o.Int("crowd", 256, 1, 10_000, "clients that want the same coupon in the scene hot"),
		waves: o.Int("waves", 10, 1, 1000, "hot coupons of a round, one after another"),
		holds: o.Int("paused", 20, 1, maxPaused, "coupons of the scene paused"),
		pause: o.Duration("pause", 11, 0, 60, "how long the holder of the lock stops in the scene paused"),
	}
	return m.run
}

func (m *measurement) run(ctx context.Context, s *stage.Stage) (text string, err error) {
	if m.Shop, err = s.OpenShop(ctx, 0, 0); err != nil {
		return "", err
	}
	defer m.Close()
	for _, c := range *m.contenders {
		if err := m.makeTables(ctx, c.table); err != nil {
			return "", fmt.Errorf("tables of %s: %w", c.title, err)
		}
	}
	for _, scene := range *m.scenes {
		rounds, columns := *m.rounds, columns
		if scene.name == paused {
			rounds, columns = 1, pausedColumns // its length is that of the pause
		}
		var ways []report.Way[result]
		for _, c := range *m.contenders {
			ways = append(ways, report.Way[result]{Name: c.title, Measure: func() (result, error) {
				return m.play(ctx, scene, c)
			}})
		}
		rows, err := report.InTurn(rounds, ways, columns...)
		if err != nil {
			return "", fmt.Errorf("scene %s: %w", scene.name, err)
		}
		text += scene.about(m) + ":\n\n" + report.Table("contender", rows, columns...) + "\n"
		for _, row := range rows {
			if failure := row.Rounds[0].failure; failure != nil {
				text += fmt.Sprintf("The first error of %s: %v\n\n", row.Name, failure)
			}
		}
	}
	return text, nil
}

func rate(r result) float64 { return float64(len(r.latencies)) / r.took.Seconds() }

func each(figure func(result) time.Duration) func(result) float64 {
	return func(r result) float64 { return figure(r).Seconds() / float64(max(1, len(r.latencies))) }
}

var columns = []report.Column[result]{
	report.Median("orders/s", report.Whole, rate), report.Spread("spread", report.Whole, rate),
	report.Ratio("ratio to "+yardstick, report.To(yardstick), rate),
	report.Elapsed("p50", func(r result) time.Duration { return r.latencies.Quantile(0.5) }),
	report.Elapsed("p99", func(r result) time.Duration { return r.latencies.Quantile(0.99) }),
	report.Median("CPU MySQL", report.CPU, each(func(r result) time.Duration { return r.server })),
	report.Median("CPU client, Redis", report.CPU, each(func(r result) time.Duration { return r.client })),
	report.Sum("coupons", func(r result) int { return r.expected }),
	report.Sum("used", func(r result) int { return r.used }),
	report.Sum("used twice", func(r result) int { return r.twice }),
	report.Sum("locked", func(r result) int { return r.busy }),
	report.Sum("errors", func(r result) int { return r.errors }),
}

var pausedColumns = []report.Column[result]{
	report.Sum("coupons", func(r result) int { return r.expected }),
	report.Sum("used by one order", func(r result) int { return r.used - r.twice }),
	report.Sum("used by two orders", func(r result) int { return r.twice }),
	report.Sum("errors", func(r result) int { return r.errors }),
}

// makeTables gives a plain contender its own tables, with the columns and indexes of the product's.
func (m *measurement) makeTables(ctx context.Context, table string) error {
	if table == "user_coupon" {
		return nil
	}
	for _, statement := range []string{
		"CREATE TABLE %s LIKE user_coupon", "ALTER TABLE %s ADD COLUMN reserved_until DATETIME(6) NULL",
		"CREATE TABLE %s_order LIKE coupon_order", "CREATE TABLE %s_log LIKE coupon_log",
	} {
		if err := m.Exec(ctx, fmt.Sprintf(statement, table)); err != nil {
			return err
		}
	}
	return nil
}

// issue makes a new coupon and issues it to the users from 1 to n.
func (m *measurement) issue(ctx context.Context, c contender, n int) (id int, err error) {
	m.coupons++
	err = m.Exec(ctx, `INSERT INTO coupon
		(id, name, total_quantity, issued_count, apply_opens_at, apply_closes_at, discount_won)
		VALUES (?, 'bench', ?, ?, UTC_TIMESTAMP(6) - INTERVAL 1 DAY, UTC_TIMESTAMP(6) + INTERVAL 1 DAY,
			5000)`, m.coupons, n, n)
	if err != nil {
		return 0, err
	}
	into := c.table + " (coupon_id, user_id, position, applied_at, issued_at, expires_at)"
	return m.coupons, stage.LoadData(ctx, m.DB, into, func(w io.Writer) error {
		now, until := time.Now().UTC().Format(time.DateTime), time.Now().AddDate(0, 0, 30).UTC().Format(time.DateTime)
		for user := 1; user <= n; user++ {
			fmt.Fprintf(w, "%d\t%d\t%[2]d\t%s\t%[3]s\t%s\n", m.coupons, user, now, until)
		}
		return nil
	})
}

// play measures a contender once.
func (m *measurement) play(ctx context.Context, scene scene, c contender) (r result, err error) {
	p := plain{m.Servers.MySQL, m.Servers.Redis, c.table}
	steps := c.open(p)
	n := scene.coupons(m)
	const warm = 256 // opens all connections
	first, err := m.issue(ctx, c, warm)
	if err != nil {
		return r, err
	}
	id, err := m.issue(ctx, c, n)
	if err != nil {
		return r, err
	}
	askDistinct(ctx, steps, first, warm, m.Servers.MySQL.Stats().MaxOpenConnections)
	runtime.GC()
	switch scene.name {
	case "distinct":
		used, err := m.Use(ctx, []int{os.Getpid()}, func() error {
			r = askDistinct(ctx, steps, id, n, *m.crowd)
			return nil
		})
		r.server, r.client = used.MySQL, used.Own+used.Redis
		return r, err
	case "hot":
		r = askHot(ctx, steps, id, n, *m.hot)
	default:
		return m.playPaused(ctx, c, steps, id)
	}
	return r, ctx.Err()
}

func (m *measurement) playPaused(ctx context.Context, c contender, steps []step, id int) (r result, err error) {
	config, err := mysql.ParseDSN(m.DSN)
	if err != nil {
		return r, err
	}
	const network = "stalled"
	st := &stall{pause: *m.pause, stopped: make(chan struct{}), left: *m.holds}
	mysql.RegisterDialContext(network, st.dial)
	defer mysql.DeregisterDialContext(network)
	config.Net = network
	pool, err := (&connect.MySQLSettings{MySQLDSN: config.FormatDSN()}).Open(connect.Patient, zap.NewNop())
	if err != nil {
		return r, err
	}
	defer pool.Close()
	holder := func() []step { return c.open(plain{pool, m.Servers.Redis, c.table}) }
	r = askPaused(ctx, holder, steps, id, *m.holds, st.stopped)
	return r, ctx.Err()
}

func (c contender) short() report.Short { return report.Short{Name: c.title, Label: c.name} }

// Charts draws orders per second.
func Charts(tables []report.Printed) map[string]string {
	of := report.With(tables, "orders/s")
	if len(of) < 2 {
		return nil
	}
	labels := report.Shorts(contenders, contender.short)
	return map[string]string{"redeem.svg": report.Bars{Title: "Orders per second", Unit: "orders/s", Labels: labels,
		Bars: []report.Bar{
			{Label: "distinct coupons", Table: of[0], Column: "orders/s"}, {Label: "one hot coupon", Table: of[1],
				Column: "orders/s"},
		}}.Draw()}
}
