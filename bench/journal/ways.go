package main

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// way copies a part of the lines of coupons, and returns the coupons whose lines go on.
type way func(ctx context.Context, p *shop, ids []coupon.CouponID, lines lines) (again []coupon.CouponID, err error)

type lines = map[coupon.CouponID]candidates.Line

// wayOfOne copies a part of one line.
type wayOfOne func(ctx context.Context, p *shop, id coupon.CouponID, line candidates.Line) (more bool, err error)

func each(one wayOfOne) way {
	return func(ctx context.Context, p *shop, ids []coupon.CouponID, of lines) (again []coupon.CouponID, err error) {
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
func journalCopy(ctx context.Context, p *shop, id coupon.CouponID, line candidates.Line) (more bool, err error) {
	copied, err := p.journal().Copy(ctx, id, line)
	return copied.More, err
}

// plainCopy is what comes to mind first: pages of 500 by score, and INSERTs without a transaction.
func plainCopy(rows int) wayOfOne {
	return func(ctx context.Context, p *shop, id coupon.CouponID, _ candidates.Line) (more bool, err error) {
		const page = 500
		for after := "-inf"; ; {
			by := &redis.ZRangeBy{Min: after, Max: "+inf", Count: page}
			entries, err := p.rdb.ZRangeByScoreWithScores(ctx, p.queue(id), by).Result()
			if err != nil {
				return false, err
			}
			for from := 0; from < len(entries); from += rows {
				part := entries[from:min(from+rows, len(entries))]
				var args []any
				for _, z := range part {
					args = append(args, uint64(id), int64(z.Score), z.Member)
				}
				if _, err := p.servers.MySQL.ExecContext(ctx, insertSQL+mysqltx.List("(?, ?, ?)", len(part)), args...); err != nil {
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
	claimSQL = "SELECT coupon_id FROM journal WHERE coupon_id IN "
	moveSQL  = "UPDATE journal SET up_to = ?, written_at = UTC_TIMESTAMP(6) WHERE coupon_id = ?"
)

func rowArgs(id coupon.CouponID, page []coupon.Application) (args []any) {
	for _, a := range page {
		args = append(args, uint64(id), int64(a.Arrival), uint64(a.User()))
	}
	return args
}

func upsert(ctx context.Context, tx *sql.Tx, id coupon.CouponID, page []coupon.Application) error {
	_, err := tx.ExecContext(ctx, insertSQL+mysqltx.List("(?, ?, ?)", len(page))+keepRowsSQL, rowArgs(id, page)...)
	return err
}

func insert(ctx context.Context, tx *sql.Tx, id coupon.CouponID, page []coupon.Application) error {
	_, err := tx.ExecContext(ctx, insertSQL+mysqltx.List("(?, ?, ?)", len(page)), rowArgs(id, page)...)
	return err
}

func insertJSON(ctx context.Context, tx *sql.Tx, id coupon.CouponID, page []coupon.Application) error {
	_, err := tx.ExecContext(ctx, insertJSONSQL, id, mysqltx.ApplicationsJSON(page), id)
	return err
}

// transaction copies as the product does, with pages and a statement of its own.
func transaction(rows int, write writer) wayOfOne {
	return func(ctx context.Context, p *shop, id coupon.CouponID, line candidates.Line) (more bool, err error) {
		page, more, err := p.read(ctx, id, line, rows)
		if err != nil || len(page) == 0 {
			return false, err
		}
		to := page[len(page)-1].Arrival
		err = mysqltx.New(p.servers.MySQL).Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
			if _, err := claim(ctx, tx, id); err != nil {
				return err
			}
			if err := write(ctx, tx, id, page); err != nil {
				return err
			}
			return mysqltx.Exec(ctx, tx, 1, moveSQL, to, id)
		})
		if err == nil {
			_, err = p.store.MoveJournalled(ctx, id, line, to)
		}
		return more, err
	}
}

// read reads up to rows applications, and up to 500 more.
func (p *shop) read(ctx context.Context, id coupon.CouponID, line candidates.Line, rows int) (
	page []coupon.Application, more bool, err error) {
	for after := candidates.Behind(line.Journalled); len(page) < rows; {
		part, next, err := p.store.Standing(ctx, id, after, line.Last)
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
	return mysqltx.Column[coupon.CouponID](ctx, tx, claimSQL+mysqltx.In(len(ids))+" FOR UPDATE SKIP LOCKED", args...)
}

const moveManySQL = `UPDATE JSON_TABLE(?, '$[*]' COLUMNS (coupon_id BIGINT UNSIGNED PATH '$[0]', up_to BIGINT UNSIGNED PATH '$[1]')) AS t
STRAIGHT_JOIN journal j ON j.coupon_id = t.coupon_id SET j.up_to = t.up_to, j.written_at = UTC_TIMESTAMP(6)`

// groupCopy copies up to 500 applications of each coupon in one transaction.
// The scan for its coupons also skips coupons that it only shares a gap with: those come again.
func groupCopy(ctx context.Context, p *shop, ids []coupon.CouponID, of lines) (again []coupon.CouponID, err error) {
	moved := make(map[coupon.CouponID]coupon.Arrival, len(ids))
	err = mysqltx.New(p.servers.MySQL).Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		clear(moved)
		again = nil
		mine, err := claim(ctx, tx, ids...)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if !slices.Contains(mine, id) {
				again = append(again, id)
			}
		}
		var rows []any
		var upTo []byte
		for _, id := range mine {
			page, more, err := p.read(ctx, id, of[id], 1)
			if err != nil {
				return err
			}
			if more {
				again = append(again, id)
			}
			if len(page) > 0 {
				moved[id] = page[len(page)-1].Arrival
				rows, upTo = append(rows, rowArgs(id, page)...), fmt.Appendf(upTo, ",[%d,%d]", id, moved[id])
			}
		}
		if len(rows) == 0 {
			return nil
		}
		if _, err := tx.ExecContext(ctx, insertSQL+mysqltx.List("(?, ?, ?)", len(rows)/3)+keepRowsSQL, rows...); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, moveManySQL, "["+string(upTo[1:])+"]")
		return err
	})
	for id, to := range moved {
		if err == nil {
			_, err = p.store.MoveJournalled(ctx, id, of[id], to)
		}
	}
	return again, err
}
