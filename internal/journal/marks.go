package journal

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/sleep"
)

const (
	countMarksSQL = `
SELECT (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL),
       (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND run_id IS NULL),
       (SELECT COUNT(DISTINCT user_id) FROM application_outcome
        WHERE coupon_id = ? AND outcome = 'REJECTED' AND user_id > 0)`
	issuedSQL = `
SELECT user_id, IF(run_id IS NULL, 0, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', applied_at)) FROM user_coupon
WHERE coupon_id = ? AND user_id > ? ORDER BY user_id LIMIT ?`
	rejectedSQL = `
SELECT user_id, MAX(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', applied_at)) FROM application_outcome
WHERE coupon_id = ? AND outcome = 'REJECTED' AND user_id > ? GROUP BY user_id ORDER BY user_id LIMIT ?`
)

// mark makes Redis answer ALREADY_ISSUED and REJECTED again. In the first restore of an epoch, numbers tell nothing:
// Redis may mark others, whose settlement MySQL has lost. It returns the number of coupons from runs.
func (r *restore) mark(ctx context.Context) (issued int64, err error) {
	var byHand, rejected int64
	id := r.coupon.ID
	if err := r.tx.QueryRowContext(ctx, countMarksSQL, id, id, id).Scan(&issued, &byHand, &rejected); err != nil {
		return 0, mysqltx.Wrap(err, "count the outcomes of coupon %d", id)
	}
	redis, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	before, err := r.Line.Look(redis, r.coupon.ID, coupon.Known{})
	if err != nil {
		return 0, err
	}
	if r.first() || before.Issued < issued || before.ByHand < byHand {
		if err := r.markAll(ctx, coupon.MarkIssued, issuedSQL); err != nil {
			return 0, err
		}
	}
	if r.first() || before.Rejected < rejected {
		if err := r.markAll(ctx, coupon.MarkRejected, rejectedSQL); err != nil {
			return 0, err
		}
	}
	r.done.Marked += max(issued-before.Issued, 0) + max(byHand-before.ByHand, 0) + max(rejected-before.Rejected, 0)
	return issued, nil
}

// markAll marks the users that a query finds, as the clean-up of their settlement does.
func (r *restore) markAll(ctx context.Context, mark coupon.Mark, query string) error {
	for after := coupon.UserID(0); ; {
		users, err := mysqltx.Collect(ctx, r.tx, func(a *coupon.Answer) []any { return []any{&a.User, &a.Arrival} },
			query, r.coupon.ID, after, MaxRows)
		if err != nil || len(users) == 0 {
			return mysqltx.Wrap(err, "read the outcomes of coupon %d", r.coupon.ID)
		}
		entries := make([]coupon.Application, len(users))
		for i, user := range users {
			entries[i] = coupon.Application{Member: user.User.Member(), Arrival: user.Arrival}
		}
		redis, cancel := mysqltx.Meanwhile(ctx)
		_, err = r.Line.Remove(redis, r.coupon.ID, r.coupon.ClosesAt, mark, entries)
		if cancel(); err != nil {
			return err
		}
		after = users[len(users)-1].User
	}
}

const (
	// A server says 0 and 1, or OFF and other words.
	readOnlySQL = "SELECT @@global.read_only NOT IN ('0', 'OFF')"
	wholeSQL    = "UPDATE journal SET up_to = 0 WHERE coupon_id = ?"
	// writableAfter is how long a server must have been writable. A primary that was replaced is read-only soon.
	writableAfter = time.Second
)

// enterMarked enters those marked as issued who have no coupon from a run, if people are missing or if more are marked
// than have such a coupon: MySQL has lost their settlement. Their rows are in the journal before.
func (r *restore) enterMarked(ctx context.Context, issued int64) error {
	account, err := r.Ledger.Account(ctx, r.tx, r.coupon.ID)
	if err != nil || account.Gap() <= 0 && account.Line.Issued <= issued {
		return err
	}
	forgotten, err := r.forgotten(ctx)
	if err != nil || len(forgotten) == 0 {
		return err
	}
	for n := range 2 {
		var readOnly bool
		if err := r.tx.QueryRowContext(ctx, readOnlySQL).Scan(&readOnly); err != nil || readOnly {
			return mysqltx.Wrap(err, "ask whether mysql is read-only")
		}
		if n == 0 {
			if err := sleep.For(ctx, writableAfter); err != nil {
				return err
			}
		}
	}
	answers := make([]coupon.Answer, len(forgotten))
	for i, e := range forgotten {
		answers[i] = e.Answer
	}
	err = r.beside(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := mysqltx.Exec(ctx, tx, 1, wholeSQL, r.coupon.ID); err != nil { // others may be lost there, too
			return err
		}
		return r.addRows(ctx, tx, answers)
	})
	if err != nil {
		return err
	}
	before := r.done.Back
	err = r.enter(ctx, forgotten)
	r.done.FromMarks += r.done.Back - before
	return err
}

// forgotten returns those marked as issued, at an arrival, who are in Redis nowhere else and in MySQL nowhere.
func (r *restore) forgotten(ctx context.Context) (all []candidates.Entry, err error) {
	for cursor, begun := uint64(0), false; !begun || cursor != 0; begun = true {
		absent, next, err := r.absentMarked(ctx, cursor)
		if err != nil {
			return nil, err
		}
		lost, err := unsettled(ctx, r.tx, r.coupon.ID, absent)
		if err != nil {
			return nil, err
		}
		all, cursor = append(all, r.possibleOf(lost)...), next
	}
	slices.SortFunc(all, func(a, b candidates.Entry) int {
		return cmp.Or(cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.User, b.User))
	})
	return slices.Compact(all), nil
}

// absentMarked reads about MaxRows users who are marked as issued at an arrival, and returns those who do not stand in
// Redis. next is 0 at the end.
func (r *restore) absentMarked(ctx context.Context, after uint64) (absent []coupon.Answer, next uint64, err error) {
	ctx, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	var all []coupon.Answer
	for next = after; len(all) < MaxRows; {
		page, cursor, err := r.Line.Marked(ctx, r.coupon.ID, coupon.MarkIssued, next)
		if err != nil {
			return nil, 0, err
		}
		for _, a := range page {
			if user := a.User(); user != 0 && a.Arrival > 0 {
				all = append(all, coupon.Answer{User: user, Arrival: a.Arrival})
			}
		}
		if next = cursor; next == 0 {
			break
		}
	}
	absent, err = r.absent(ctx, all)
	return absent, next, err
}
