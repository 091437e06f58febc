package main

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/records"
)

const (
	statementRows = 20_000 // of a settlement
	tiny          = 10     // coupons of a small settlement
)

// scene writes rows whose events are published. It has one part-th of the events.
type scene struct {
	name  string
	part  int
	write func(ctx context.Context, db *sql.DB, n int) error
	ids   string // statement for the ids of the events, in the order of publication
}

const (
	issuedIDs  = "SELECT CONCAT('issued-', user_id) FROM user_coupon ORDER BY position"
	changedIDs = "SELECT CONCAT(user_coupon_id, '-', seq) FROM coupon_log ORDER BY id"
)

var scenes = []scene{
	{"one settlement", 1, func(ctx context.Context, db *sql.DB, n int) error { return settle(ctx, db, 1, n) }, issuedIDs},
	{"settlements of 10", 1, func(ctx context.Context, db *sql.DB, n int) error { return settle(ctx, db, n/tiny, tiny) }, issuedIDs},
	{"changes", 4, change, changedIDs},
}

// settle writes settlements of seats coupons each, as the product does. Users are random: a statement inserts its rows sorted
// by user.
func settle(ctx context.Context, db *sql.DB, settlements, seats int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	users := rand.Perm(settlements * seats)
	at := time.Now().UTC().Truncate(time.Microsecond)
	for run := range settlements {
		of := records.Run{ID: coupon.RunID(run + 1), At: at}
		var first coupon.UserCouponID
		for seated := 0; seated < seats; {
			n := min(statementRows, seats-seated)
			page := make([]coupon.Application, n)
			for i := range page {
				place := run*seats + seated + i
				page[i] = coupon.Application{Member: coupon.UserID(users[place] + 1).Member(), Arrival: coupon.Arrival(at.UnixMicro() + int64(place))}
			}
			row, err := records.InsertIssued(ctx, tx, of, coupon.Coupon{ID: 1, ValidityDays: 30}, time.UTC, run*seats+seated, records.PackSeats(page))
			if err != nil {
				return err
			}
			if seated == 0 {
				first = row
			}
			seated += n
		}
		if err := records.InsertSettlement(ctx, tx, of, 1, records.Settlement{Issued: seats, First: 1, Last: 1, FirstRow: first}); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// change writes rows of coupon_log for issued coupons whose events are published.
func change(ctx context.Context, db *sql.DB, n int) error {
	if err := settle(ctx, db, 1, n); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, "UPDATE settlement SET published_at = UTC_TIMESTAMP(6)")
	if err == nil {
		_, err = db.ExecContext(ctx, `INSERT INTO coupon_log (user_coupon_id, seq, kind, order_id, amount_won, discount_won, actor, at)
			SELECT id, 1, 'USED', CONCAT('A-', id), 30000, 5000, 'checkout', UTC_TIMESTAMP(6) FROM user_coupon ORDER BY id`)
	}
	return err
}

// wanted returns the ids of the scene's events.
func (sc scene) wanted(ctx context.Context, db *sql.DB) ([]string, error) {
	return mysqltx.Column[string](ctx, db, sc.ids)
}
