package promise

import (
	"cmp"
	"context"
	"slices"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const beginSQL = "INSERT INTO journal (coupon_id, written_at) VALUES (?, UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE " +
	"coupon_id = coupon_id"

// Begin makes the coupon's row of table journal, unless there is one.
func Begin(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) error {
	return mysqltx.Wrap(mysqltx.Upsert(ctx, q, beginSQL, id), "begin the journal of coupon %d", id)
}

// addRowsSQL ignores rows that exist, since the account of a pod may not update them. IGNORE can hide nothing else: the
// columns are three numbers.
const addRowsSQL = "INSERT IGNORE INTO line_journal (coupon_id, arrival, user_id) VALUES "

// rowsAtOnce bounds the rows of one statement.
const rowsAtOnce = 5000

// Row is a row of the journal.
type Row struct {
	Coupon coupon.CouponID
	coupon.Answer
}

// AddRows adds applications of a coupon to the journal, which may have them already.
func AddRows(ctx context.Context, q mysqltx.Querier, id coupon.CouponID, all []coupon.Answer) error {
	rows := make([]Row, len(all))
	for i, a := range all {
		rows[i] = Row{id, a}
	}
	return mysqltx.Wrap(Add(ctx, q, rows), "coupon %d", id)
}

// Add sorts rows, so that two processes cannot deadlock, and adds them to the journal, which may have them already.
func Add(ctx context.Context, q mysqltx.Querier, rows []Row) error {
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Coupon, b.Coupon), cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.User, b.User))
	})
	for some := range slices.Chunk(rows, rowsAtOnce) {
		args := make([]any, 0, 3*len(some))
		for _, r := range some {
			args = append(args, r.Coupon, r.Arrival, r.User)
		}
		if _, err := q.ExecContext(ctx, addRowsSQL+mysqltx.List("(?, ?, ?)", len(some)), args...); err != nil {
			return mysqltx.Wrap(err, "add %d applications to the journal", len(some))
		}
	}
	return nil
}
