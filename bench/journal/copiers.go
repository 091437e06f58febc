package journal

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/bench/report"
	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// firstUser is the first user of a filled line.
const firstUser = 1_000_000_000

// copier is one way to copy lines. Every way reads them from Redis.
type copier struct {
	name     string
	parallel int  // calls at a time
	group    int  // coupons of a call
	few      bool // it can copy only fewRows in a reasonable time
	// copy writes the next page of each coupon to the journal. It returns the coupons that have more.
	copy func(ctx context.Context, p *stage.Shop, ids []coupon.CouponID, lines lines) (again []coupon.CouponID,
		err error)
}

// line says how far the line of a coupon was copied. One call at a time uses it.
type line struct {
	last     coupon.Arrival // highest arrival of the coupon
	to       coupon.Arrival // everybody up to it was copied
	progress journal.Progress
}

type lines = map[coupon.CouponID]*line

const (
	shipped   = "Jajeong"
	plainest  = "one INSERT for each row"
	plain500  = "INSERT of 500 rows"
	fewRows   = 20_000
	shortRows = 100 // applications of a short line
)

// copiers are the ways to copy one long queue. Each uses one connection, which holds the lock on the coupon's row.
var copiers = []copier{
	{shipped, 1, 1, false, each(journalCopy)},
	{plainest, 1, 1, true, each(plainCopy(1))},
	{plain500, 1, 1, false, each(plainCopy(500))},
	{"transactions of 1,000, ON DUPLICATE KEY UPDATE", 1, 1, false, each(transaction(1000, insert(keepRowsSQL)))},
	{"transactions of 5,000, ON DUPLICATE KEY UPDATE", 1, 1, false, each(transaction(5000, insert(keepRowsSQL)))},
	{"transactions of 20,000, ON DUPLICATE KEY UPDATE", 1, 1, false, each(transaction(20_000, insert(keepRowsSQL)))},
	{"transactions of 5,000, INSERT alone", 1, 1, false, each(transaction(5000, insert("")))},
	{"transactions of 5,000, JSON_TABLE", 1, 1, false, each(transaction(5000, insertJSON))},
}

// shortCopiers copy many short lines.
var shortCopiers = []copier{
	{shipped, 4, 1, false, each(journalCopy)},
	{shipped + ", one at a time", 1, 1, false, each(journalCopy)},
	{shipped + ", eight at a time", 8, 1, false, each(journalCopy)},
	{plainest, 1, 1, true, each(plainCopy(1))},
	{plain500, 4, 1, false, each(plainCopy(500))},
	{"transactions of 5,000, JSON_TABLE", 4, 1, false, each(transaction(5000, insertJSON))},
	{"one transaction for 50 coupons", 4, 50, false, groupCopy},
}

func (m *measurement) longLine(ctx context.Context) (string, error) {
	table, err := m.copies(ctx, copiers, 1, *m.backlog)
	return "The line of one coupon, over one connection:\n\n" + table, err
}

func (m *measurement) shortLines(ctx context.Context) (string, error) {
	table, err := m.copies(ctx, shortCopiers, *m.lines, shortRows)
	return fmt.Sprintf("%d short lines, %d applications each:\n\n", *m.lines, shortRows) + table, err
}

// copies measures the copiers with lines of n applications.
func (m *measurement) copies(ctx context.Context, among []copier, lines, n int) (string, error) {
	p, err := m.OpenShop(ctx, lines, stage.Never)
	if err != nil {
		return "", err
	}
	defer p.Close()
	few, err := m.OpenShop(ctx, 1, stage.Never)
	if err != nil {
		return "", err
	}
	defer few.Close()
	for id := 1; id <= lines; id++ {
		if err := p.Fill(ctx, id, firstUser, n, time.Hour); err != nil {
			return "", err
		}
	}
	if err := few.Fill(ctx, 1, firstUser, min(fewRows, lines*n), time.Hour); err != nil {
		return "", err
	}
	type copied struct {
		connections, rows int
		rate              float64
	}
	rate := func(r copied) float64 { return r.rate }
	var ways []report.Way[copied]
	for _, c := range among {
		ways = append(ways, report.Way[copied]{Name: c.name, Measure: func() (copied, error) {
			of, coupons, rows := p, lines, lines*n
			if c.few {
				of, coupons, rows = few, 1, min(fewRows, lines*n)
			}
			took, err := copyLines(ctx, of, c, coupons)
			if err != nil {
				return copied{}, err
			}
			stored, err := of.Number(ctx, "SELECT COUNT(*) FROM line_journal")
			if err == nil && stored != rows {
				err = fmt.Errorf("%d rows stored, want %d", stored, rows)
			}
			return copied{min(c.parallel, coupons), rows, float64(rows) / took.Seconds()}, err
		}})
	}
	return report.Measured("way", *m.rounds, ways,
		report.Count("connections", func(r copied) int { return r.connections }),
		report.Count("rows", func(r copied) int { return r.rows }),
		report.Median("rows/s", report.Whole, rate), report.Spread("spread", report.Whole, rate),
		report.Ratio("ratio to "+plain500, report.To(plain500), rate),
		report.Ratio("ratio to "+plainest, report.To(plainest), rate))
}

// copyLines lets the journal of the first coupons begin again, and copies their lines until nothing is left.
func copyLines(ctx context.Context, p *stage.Shop, c copier, coupons int) (time.Duration, error) {
	ids, lines := make([]coupon.CouponID, coupons), lines{}
	for i := range ids {
		ids[i] = coupon.CouponID(i + 1)
		look, err := p.Store.Observe(ctx, ids[i], 0)
		if err != nil {
			return 0, err
		}
		lines[ids[i]] = &line{last: look.Last}
	}
	for _, statement := range []string{"TRUNCATE TABLE line_journal", "DELETE FROM journal",
		"INSERT INTO journal (coupon_id, written_at) SELECT id, UTC_TIMESTAMP(6) FROM coupon"} {
		if err := p.Exec(ctx, statement); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	for len(ids) > 0 {
		again := make(chan []coupon.CouponID, len(ids))
		workers, ctx := errgroup.WithContext(ctx)
		workers.SetLimit(c.parallel)
		for group := range slices.Chunk(ids, c.group) {
			workers.Go(func() error {
				more, err := c.copy(ctx, p, group, lines)
				again <- more
				return err
			})
		}
		if err := workers.Wait(); err != nil {
			return 0, err
		}
		close(again)
		ids = nil
		for more := range again {
			ids = append(ids, more...)
		}
	}
	return time.Since(began), nil
}

// wayOfOne copies a part of one line.
type wayOfOne func(ctx context.Context, p *stage.Shop, id coupon.CouponID, line *line) (more bool, err error)

func each(one wayOfOne) func(context.Context, *stage.Shop, []coupon.CouponID, lines) ([]coupon.CouponID, error) {
	return func(ctx context.Context, p *stage.Shop, ids []coupon.CouponID, of lines) (again []coupon.CouponID,
		err error) {
		for _, id := range ids {
			more, err := one(ctx, p, id, of[id])
			if err != nil {
				return nil, err
			}
			if more {
				again = append(again, id)
			}
		}
		return again, nil
	}
}

// journalCopy is the product.
func journalCopy(ctx context.Context, p *stage.Shop, id coupon.CouponID, line *line) (more bool, err error) {
	j := &journal.Journal{DB: mysqltx.New(p.Servers.MySQL), Store: p.Store}
	copied, err := j.Copy(ctx, id, &line.progress)
	return copied.More, err
}

// plainCopy is what comes to mind first: pages of 500 by score, and INSERTs without a transaction.
func plainCopy(rows int) wayOfOne {
	return func(ctx context.Context, p *stage.Shop, id coupon.CouponID, _ *line) (more bool, err error) {
		const page = 500
		for after := "-inf"; ; {
			by := &redis.ZRangeBy{Min: after, Max: "+inf", Count: page}
			entries, err := p.RDB.ZRangeByScoreWithScores(ctx, stage.QueueKey(int(id)), by).Result()
			if err != nil {
				return false, err
			}
			for part := range slices.Chunk(entries, rows) {
				var args []any
				for _, z := range part {
					args = append(args, uint64(id), int64(z.Score), z.Member)
				}
				if _, err := p.Servers.MySQL.ExecContext(ctx, insertSQL+mysqltx.List("(?, ?, ?)", len(part)),
					args...); err != nil {
					return false, err
				}
			}
			if len(entries) < page {
				return false, nil
			}
			after = "(" + strconv.FormatInt(int64(entries[page-1].Score), 10)
		}
	}
}

// writer inserts a page in a transaction.
type writer func(ctx context.Context, tx *sql.Tx, id coupon.CouponID, page []coupon.Application) error

const (
	insertSQL     = "INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES "
	keepRowsSQL   = " ON DUPLICATE KEY UPDATE user_id = user_id"
	insertJSONSQL = `INSERT INTO line_journal (coupon_id, arrival, user_id)
SELECT ?, j.arrival, j.user_id FROM ` + mysqltx.ApplicationsTable + ` WHERE NOT EXISTS (
	SELECT 1 FROM line_journal l WHERE l.coupon_id = ? AND l.arrival = j.arrival AND l.user_id = j.user_id)`
	moveSQL = "UPDATE journal SET up_to = ?, written_at = UTC_TIMESTAMP(6) WHERE coupon_id = ?"
)

func rowArgs(id coupon.CouponID, page []coupon.Application) (args []any) {
	for _, a := range page {
		args = append(args, uint64(id), int64(a.Arrival), uint64(a.User()))
	}
	return args
}

// insert inserts rows by a statement that ends with suffix.
func insert(suffix string) writer {
	return func(ctx context.Context, tx *sql.Tx, id coupon.CouponID, page []coupon.Application) error {
		_, err := tx.ExecContext(ctx, insertSQL+mysqltx.List("(?, ?, ?)", len(page))+suffix, rowArgs(id, page)...)
		return err
	}
}

func insertJSON(ctx context.Context, tx *sql.Tx, id coupon.CouponID, page []coupon.Application) error {
	_, err := tx.ExecContext(ctx, insertJSONSQL, id, mysqltx.ApplicationsJSON(page), id)
	return err
}

// transaction copies as the product does, with pages and a statement of its own.
func transaction(rows int, write writer) wayOfOne {
	return func(ctx context.Context, p *stage.Shop, id coupon.CouponID, line *line) (more bool, err error) {
		page, more, err := read(ctx, p, id, line, rows)
		if err != nil || len(page) == 0 {
			return false, err
		}
		to := page[len(page)-1].Arrival
		err = mysqltx.New(p.Servers.MySQL).Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
			if _, err := claim(ctx, tx, id); err != nil {
				return err
			}
			if err := write(ctx, tx, id, page); err != nil {
				return err
			}
			return mysqltx.Exec(ctx, tx, 1, moveSQL, to, id)
		})
		if err == nil {
			line.to = to
		}
		return more, err
	}
}

// read reads up to rows applications, and up to 500 more.
func read(ctx context.Context, p *stage.Shop, id coupon.CouponID, line *line, rows int) (
	page []coupon.Application, more bool, err error) {
	for after := journal.Behind(line.to); len(page) < rows; {
		part, next, err := p.Store.Page(ctx, id, after, (line.last + 1).Time())
		if err != nil {
			return nil, false, err
		}
		if page = append(page, part...); len(part) == 0 || next.End {
			return page, false, nil
		}
		after = next
	}
	return page, true, nil
}

// claim locks the rows of coupons that no other process has locked.
func claim(ctx context.Context, tx *sql.Tx, ids ...coupon.CouponID) ([]coupon.CouponID, error) {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = uint64(id)
	}
	return mysqltx.Column[coupon.CouponID](ctx, tx,
		"SELECT coupon_id FROM journal WHERE coupon_id IN "+mysqltx.In(len(ids))+" FOR UPDATE SKIP LOCKED", args...)
}

// groupCopy copies up to 500 applications of each coupon in one transaction. The scan for its coupons also skips
// coupons that it only shares a gap with: those come again.
func groupCopy(ctx context.Context, p *stage.Shop, ids []coupon.CouponID, of lines) (again []coupon.CouponID,
	err error) {
	moved := make(map[coupon.CouponID]coupon.Arrival, len(ids))
	err = mysqltx.New(p.Servers.MySQL).Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		clear(moved)
		mine, err := claim(ctx, tx, ids...)
		if err != nil {
			return err
		}
		again = slices.DeleteFunc(slices.Clone(ids), func(id coupon.CouponID) bool { return slices.Contains(mine, id) })
		var rows []any
		for _, id := range mine {
			page, more, err := read(ctx, p, id, of[id], 1)
			if err != nil {
				return err
			}
			if more {
				again = append(again, id)
			}
			if len(page) > 0 {
				moved[id] = page[len(page)-1].Arrival
				rows = append(rows, rowArgs(id, page)...)
			}
		}
		if len(rows) == 0 {
			return nil
		}
		if _, err := tx.ExecContext(ctx, insertSQL+mysqltx.List("(?, ?, ?)", len(rows)/3)+keepRowsSQL,
			rows...); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE journal SET written_at = UTC_TIMESTAMP(6), up_to =
			(SELECT MAX(arrival) FROM line_journal l WHERE l.coupon_id = journal.coupon_id)
			WHERE coupon_id IN `+mysqltx.In(len(moved)), anyOf(moved)...)
		return err
	})
	for id, to := range moved {
		if err == nil {
			of[id].to = to
		}
	}
	return again, err
}

func anyOf(moved map[coupon.CouponID]coupon.Arrival) (ids []any) {
	for id := range moved {
		ids = append(ids, uint64(id))
	}
	return ids
}
