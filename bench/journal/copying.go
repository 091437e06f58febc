package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// copier is one way to copy lines. Every way reads them from Redis.
type copier struct {
	name     string
	limit    int // the most applications that it copies in a reasonable time
	parallel int // calls of copy at a time
	group    int // coupons of a call
	copy     way
}

const (
	shipped   = "Jajeong"
	plainest  = "one INSERT for each row"
	plain500  = "INSERT of 500 rows"
	unlimited = 10_000_000
)

// copiers copy one long line.
var copiers = []copier{
	{shipped, unlimited, 1, 1, each(journalCopy)},
	{plainest, fewRows, 1, 1, each(plainCopy(1))},
	{plain500, unlimited, 1, 1, each(plainCopy(500))},
	{"transactions of 1,000, ON DUPLICATE KEY UPDATE", unlimited, 1, 1, each(transaction(1000, upsert))},
	{"transactions of 5,000, ON DUPLICATE KEY UPDATE", unlimited, 1, 1, each(transaction(5000, upsert))},
	{"transactions of 20,000, ON DUPLICATE KEY UPDATE", unlimited, 1, 1, each(transaction(20_000, upsert))},
	{"transactions of 5,000, INSERT alone", unlimited, 1, 1, each(transaction(5000, insert))},
	{"transactions of 5,000, JSON_TABLE", unlimited, 1, 1, each(transaction(5000, insertJSON))},
}

// shortCopiers copy many short lines.
var shortCopiers = []copier{
	{shipped, unlimited, 4, 1, each(journalCopy)},
	{shipped, unlimited, 1, 1, each(journalCopy)},
	{shipped, unlimited, 8, 1, each(journalCopy)},
	{plainest, fewRows, 4, 1, each(plainCopy(1))},
	{plain500, unlimited, 4, 1, each(plainCopy(500))},
	{"transactions of 5,000, JSON_TABLE", unlimited, 4, 1, each(transaction(5000, insertJSON))},
	{"one transaction for 50 coupons", unlimited, 4, 50, groupCopy},
}

// copyLines copies the lines of coupons until nothing is left, and returns how long that takes.
func (p *shop) copyLines(ctx context.Context, c copier, ids []coupon.CouponID) (time.Duration, error) {
	began := time.Now()
	for len(ids) > 0 {
		lines, err := p.store.Lines(ctx, ids)
		if err != nil {
			return 0, err
		}
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
			return 0, fmt.Errorf("%s: %w", c.name, err)
		}
		close(again)
		ids = nil
		for more := range again {
			ids = append(ids, more...)
		}
	}
	return time.Since(began), nil
}

// emptyJournal lets the journal begin again.
func (p *shop) emptyJournal(ctx context.Context) error {
	ids, err := mysqltx.Column[coupon.CouponID](ctx, p.db, "SELECT id FROM coupon")
	if err != nil {
		return err
	}
	_, err = p.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, id := range ids {
			pipe.HDel(ctx, p.state(id), "journalled", "restored", "missing")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return p.execute(ctx, "TRUNCATE TABLE line_journal", "DELETE FROM journal",
		"INSERT INTO journal (coupon_id, written_at) SELECT id, UTC_TIMESTAMP(6) FROM coupon")
}

// copied has the rates of a copier.
type copied struct {
	copier
	lines, applications int
	rates               []float64 // rows/s, by round
}

// copies measures the copiers in turn, so that other work of the machine affects all of them.
func (s *stage) copies(ctx context.Context, among []copier, lines, n int) ([]copied, error) {
	all := make([]copied, len(among))
	sizes, ids := make([]int, lines), make([]coupon.CouponID, lines)
	for i := range ids {
		sizes[i], ids[i] = n, coupon.CouponID(i+1)
	}
	p, err := s.openShop(ctx, lines, never)
	if err != nil {
		return nil, err
	}
	defer p.close()
	few, err := s.openShop(ctx, 1, never)
	if err != nil {
		return nil, err
	}
	defer few.close()
	if err := errors.Join(p.fill(ctx, sizes...), few.fill(ctx, fewRows)); err != nil {
		return nil, err
	}
	for round := range s.rounds {
		for turn := range among {
			place := (round + turn) % len(among)
			c, in, of, rows := among[place], p, ids, lines*n
			if rows > c.limit {
				in, of, rows = few, ids[:1], fewRows
			}
			rate, err := in.measure(ctx, c, of, rows)
			if err != nil {
				return nil, err
			}
			one := &all[place]
			one.copier, one.lines, one.applications, one.rates = c, len(of), rows, append(one.rates, rate)
			say("%d of %d  %4d lines  %-48s %8.0f rows/s", round+1, s.rounds, len(of), c.name, rate)
		}
	}
	return all, nil
}

// measure copies lines with so many applications, and returns how many rows a second are written.
func (p *shop) measure(ctx context.Context, c copier, ids []coupon.CouponID, rows int) (float64, error) {
	if err := p.emptyJournal(ctx); err != nil {
		return 0, err
	}
	took, err := p.copyLines(ctx, c, ids)
	if err != nil {
		return 0, err
	}
	stored, err := p.number(ctx, "SELECT COUNT(*) FROM line_journal")
	if err == nil && stored != int64(rows) {
		err = fmt.Errorf("%s: %d rows stored, want %d", c.name, stored, rows)
	}
	return float64(rows) / took.Seconds(), err
}
