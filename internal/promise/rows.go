package promise

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const beginSQL = "INSERT INTO journal (coupon_id, written_at) VALUES (?, UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE " +
	"coupon_id = coupon_id"

// Begin makes the coupon's row of table journal, unless there is one.
func Begin(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) error {
	return mysqltx.Wrap(mysqltx.Upsert(ctx, q, beginSQL, id), "begin the journal of coupon %d", id)
}

// askSQL stays at the highest number that table journal takes. The rows of the same transaction must not be refused.
const askSQL = "UPDATE journal SET asked = LEAST(asked + 1, 9007199254740991) WHERE coupon_id = ?"

// Ask asks for a restore of a coupon.
func Ask(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) error {
	_, err := q.ExecContext(ctx, askSQL, id)
	return mysqltx.Wrap(err, "ask for a restore of coupon %d", id)
}

// Copied returns the epoch of the server that the journal of a coupon was last copied from; empty: none was. It waits
// for no copy under way.
func Copied(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) (epoch string, err error) {
	err = q.QueryRowContext(ctx, "SELECT COALESCE(MAX(epoch), '') FROM journal WHERE coupon_id = ?", id).Scan(&epoch)
	return epoch, mysqltx.Wrap(err, "read the journal of coupon %d", id)
}

// AskIfNew asks for a restore of a coupon if the journal was not last copied from the server of an epoch.
func AskIfNew(ctx context.Context, q mysqltx.Querier, id coupon.CouponID, epoch string) error {
	copied, err := Copied(ctx, q, id)
	if err == nil && copied != epoch {
		err = Ask(ctx, q, id)
	}
	return err
}

// laterSQL looks at each application after the cutoff of a run. After a nightly one, that is who came since midnight.
const laterSQL = `
SELECT EXISTS (SELECT 1 FROM line_journal l STRAIGHT_JOIN application_outcome o
    ON o.coupon_id = l.coupon_id AND o.user_id = l.user_id AND o.run_id = ?
    WHERE l.coupon_id = ? AND l.arrival >= ?)`

// AskForLater asks for a restore if the journal has a user of a run at an arrival that the run does not account for: a
// restore had moved the user to an earlier one. The run must have left nobody in Redis whom it settled.
func AskForLater(ctx context.Context, q mysqltx.Querier, run coupon.RunID, cutoff time.Time,
	id coupon.CouponID) (asks bool, err error) {
	err = q.QueryRowContext(ctx, laterSQL, run, id, coupon.ArrivalAt(cutoff)).Scan(&asks)
	if err != nil || !asks {
		return false, mysqltx.Wrap(err, "look for users of run %d who applied again for coupon %d", run, id)
	}
	return true, Ask(ctx, q, id)
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
