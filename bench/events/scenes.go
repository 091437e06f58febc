package events

import (
	"cmp"
	"context"
	"database/sql"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/coupon"
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
	write func(ctx context.Context, p *stage.Shop, n int) error
	ids   string // statement for the ids of the events, in the order of publication
}

const (
	issuedIDs  = "SELECT CONCAT('issued-', user_id) FROM user_coupon ORDER BY position"
	changedIDs = "SELECT CONCAT_WS('-', u.user_id, l.seq, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.at)) " +
		"FROM coupon_log l JOIN user_coupon u ON u.id = l.user_coupon_id ORDER BY l.id"
)

var scenes = []scene{
	{"one settlement", 1, func(ctx context.Context, p *stage.Shop, n int) error { return settle(ctx, p, 1, n) },
		issuedIDs},
	{"settlements of 10", 1, func(ctx context.Context, p *stage.Shop, n int) error {
		return settle(ctx, p, n/tiny, tiny)
	}, issuedIDs},
	{"changes", 4, change, changedIDs},
}

// settle writes settlements of seats coupons each, as the product does. Users are random: a statement inserts its rows
// sorted by user.
func settle(ctx context.Context, p *stage.Shop, settlements, seats int) error {
	users := rand.Perm(settlements * seats)
	return stage.InTransaction(ctx, p.Servers.MySQL, func(tx *sql.Tx) error {
		for run := range settlements {
			if err := settleOnce(ctx, tx, run, users[run*seats:(run+1)*seats]); err != nil {
				return err
			}
		}
		return nil
	})
}

func settleOnce(ctx context.Context, tx *sql.Tx, run int, users []int) error {
	at := time.Now().UTC().Truncate(time.Microsecond)
	of, about := records.Run{ID: coupon.RunID(run + 1), At: at}, coupon.Coupon{ID: 1, ValidityDays: 30}
	done := records.Settlement{Issued: len(users), First: 1, Last: 1}
	position := run * len(users)
	for some := range slices.Chunk(users, statementRows) {
		page := make([]coupon.Application, len(some))
		for i, user := range some {
			page[i].Member = coupon.UserID(user + 1).Member()
			page[i].Arrival = coupon.Arrival(at.UnixMicro() + int64(position+i))
		}
		row, err := records.InsertIssued(ctx, tx, of, about, time.UTC, position, records.PackSeats(page))
		if err != nil {
			return err
		}
		done.FirstRow = cmp.Or(done.FirstRow, row)
		position += len(some)
	}
	return records.InsertSettlement(ctx, tx, of, 1, done)
}

// change writes rows of coupon_log for issued coupons whose events are published.
func change(ctx context.Context, p *stage.Shop, n int) error {
	if err := settle(ctx, p, 1, n); err != nil {
		return err
	}
	if err := p.Exec(ctx, "UPDATE settlement SET published_at = UTC_TIMESTAMP(6)"); err != nil {
		return err
	}
	return p.Exec(ctx, `INSERT INTO coupon_log (user_coupon_id, seq, kind, order_id, amount_won, discount_won, actor,
		at)
		SELECT id, 1, 'USED', CONCAT('A-', id), 30000, 5000, 'checkout', UTC_TIMESTAMP(6) FROM user_coupon ORDER BY id`)
}
