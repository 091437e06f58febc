package settle

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/jajeong/jajeong/bench/report"
	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/wallet"
)

const (
	reserving    = "reserve a coupon"
	reservePause = 10 * time.Millisecond
	// reservers have a coupon of their own, which they use while the list is granted.
	reservers = 20_000
)

// lists measures `settle coupon grant --file` beside LOAD DATA into the same two tables, and what others notice.
func (m *measurement) lists(ctx context.Context) (string, error) {
	const loaded = yardstick + " into both tables"
	ways := []report.Way[settled]{{Name: loaded, Measure: func() (settled, error) { return m.loadList(ctx) }}}
	builds, err := m.builds(ctx)
	if err != nil {
		return "", err
	}
	for _, build := range builds {
		ways = append(ways, report.Way[settled]{Name: "settle coupon grant --file" + build.title,
			Measure: func() (r settled, err error) {
				p, file, err := m.prepareList(ctx)
				if err != nil {
					return r, err
				}
				defer p.Close()
				return m.grantList(ctx, p, build.program, 1, file)
			}})
	}
	table, err := report.Measured("", *m.rounds, ways, append([]report.Column[settled]{
		report.Elapsed("time", took), report.Median("rows/s", report.Whole, rate),
		report.Ratio("ratio to "+yardstick, report.To(loaded), rate)}, cpuColumns...)...)
	if err != nil {
		return "", err
	}
	beside, err := m.besideList(ctx, builds[0].program)
	head := fmt.Sprintf("A coupon for a list of %d users, %d rounds:\n\n", *m.big, *m.rounds)
	return head + table + "\n" + beside, err
}

// prepareList opens a shop with two coupons, and a list of all but the first users.
func (m *measurement) prepareList(ctx context.Context) (*stage.Shop, string, error) {
	p, err := m.OpenShop(ctx, 2, 1)
	if err != nil {
		return nil, "", err
	}
	if err = p.AddUsers(ctx, 1, reservers+*m.big); err == nil {
		var file string
		if file, err = m.writeList("list.csv", reservers+1, *m.big); err == nil {
			return p, file, nil
		}
	}
	p.Close()
	return nil, "", err
}

func (m *measurement) writeList(name string, first, n int) (path string, err error) {
	path = filepath.Join(os.TempDir(), fmt.Sprint("jajeong-bench-", os.Getpid(), "-", name))
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	for user := first; user < first+n; user++ {
		fmt.Fprintln(out, user)
	}
	return path, out.Flush()
}

func (m *measurement) grantList(ctx context.Context, p *stage.Shop, program string, id int, file string) (r settled,
	err error) {
	defer os.Remove(file)
	used, err := p.Use(ctx, nil, func() (err error) {
		r, _, err = measured(p.Command(ctx, program, "coupon", "grant", strconv.Itoa(id), "--file="+file,
			"--operator=bench", "--reason=bench", "--output=json"))
		return err
	})
	if err != nil {
		return r, err
	}
	r.redis, r.database = used.Redis, used.MySQL
	r.rows, err = p.Number(ctx, "SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ?", id)
	return r, err
}

// loadList loads the rows of a list in one transaction, from memory.
func (m *measurement) loadList(ctx context.Context) (r settled, err error) {
	p, err := m.OpenShop(ctx, 1, 1)
	if err != nil {
		return r, err
	}
	defer p.Close()
	began := time.Now()
	err = stage.InTransaction(ctx, p.DB, func(tx *sql.Tx) error {
		err := stage.LoadData(ctx, tx, "user_coupon (id, coupon_id, user_id, issued_at, expires_at, seq)",
			func(w io.Writer) error {
				for n := 1; n <= *m.big; n++ {
					fmt.Fprintf(w, "%d\t1\t%d\t%s\t%s\t1\n", n, reservers+n, issuedAt, expiresAt)
				}
				return nil
			})
		if err != nil {
			return err
		}
		return stage.LoadData(ctx, tx, "coupon_log (user_coupon_id, seq, kind, expires_at, seats, actor, at)",
			func(w io.Writer) error {
				for n := 1; n <= *m.big; n++ {
					fmt.Fprintf(w, "%d\t1\tGRANTED\t%s\t1\tbench\t%s\n", n, expiresAt, issuedAt)
				}
				return nil
			})
	})
	r.took, r.rows = time.Since(began), *m.big
	return r, err
}

// besideList measures the response times of others while a list is granted: of applications, of blocked users, and of
// orders.
func (m *measurement) besideList(ctx context.Context, program string) (string, error) {
	p, file, err := m.prepareList(ctx)
	if err != nil {
		return "", err
	}
	defer p.Close()
	few, err := m.writeList("few.csv", 1, reservers)
	if err == nil {
		_, err = m.grantList(ctx, p, program, 2, few)
	}
	if err != nil {
		return "", err
	}
	cores, err := m.Apart(runtime.NumCPU() - 1)
	if err != nil {
		return "", err
	}
	next := 0
	all := func(first int, do func() error) (all map[string]noticed, err error) {
		during, end := context.WithCancel(ctx)
		defer end()
		var ordering sync.WaitGroup
		var failed error
		var reserved noticed
		start := next
		ordering.Go(func() {
			reserved, failed = every(during, reservePause, func(n int) error { return reserve(ctx, p, start+n) })
		})
		all, err = others(ctx, p, first, do)
		end()
		ordering.Wait()
		next += len(reserved) + 1
		if err == nil {
			all[reserving], err = reserved, failed
		}
		return all, err
	}
	quiet, err := all(1001, func() error { return stage.Wait(ctx, quietFor) })
	if err != nil {
		return "", err
	}
	var r settled
	busy, err := all(2001, func() (err error) {
		r, err = m.grantList(ctx, p, program, 1, file)
		return err
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("While a coupon is given to a list of %d users (%s), every %s, %s and %s. %s\n\n", *m.big,
		r.took.Round(time.Millisecond), applyPause, blockPause, reservePause, cores) +
		waited(quiet, busy, applying, blocking, reserving), nil
}

// reserve reserves the coupon of a user for an order.
func reserve(ctx context.Context, p *stage.Shop, n int) error {
	if n >= reservers {
		return nil
	}
	call := wallet.Call{Verb: wallet.Reserve, Actor: "bench", OrderID: fmt.Sprint("order-", n),
		User: coupon.UserID(n + 1), AmountWon: 9000, TTL: time.Hour}
	done, err := wallet.Redeem(ctx, mysqltx.NewBrief(p.Servers.MySQL), 2, call)
	if err == nil && done.Code != wallet.Done {
		err = fmt.Errorf("reserve: %v", done.Code)
	}
	return err
}
