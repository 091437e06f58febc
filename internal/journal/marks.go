package journal

import (
	"context"
	"database/sql"
	"slices"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const (
	countMarksSQL = `
SELECT (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL),
       (SELECT COUNT(DISTINCT user_id) FROM application_outcome WHERE coupon_id = ? AND outcome = 'REJECTED')`
	issuedSQL = "SELECT user_id FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL AND user_id > ? ORDER " +
		"BY user_id LIMIT ?"
	rejectedSQL = `
SELECT DISTINCT user_id FROM application_outcome WHERE coupon_id = ? AND outcome = 'REJECTED' AND user_id > ?
    ORDER BY user_id LIMIT ?`
)

// mark makes Redis answer ALREADY_ISSUED and REJECTED again, if it has forgotten some of these users.
func (r *Restorer) mark(ctx context.Context, tx *sql.Tx, c coupon.Coupon) (marked int64, err error) {
	var issued, rejected int64
	if err := tx.QueryRowContext(ctx, countMarksSQL, c.ID, c.ID).Scan(&issued, &rejected); err != nil {
		return 0, mysqltx.Wrap(err, "count the outcomes of coupon %d", c.ID)
	}
	before, err := r.Line.Counts(ctx, c.ID, 0)
	if err != nil {
		return 0, err
	}
	if before.Issued < issued {
		if err := r.markAll(ctx, tx, c, coupon.MarkIssued, issuedSQL); err != nil {
			return 0, err
		}
	}
	if before.Rejected < rejected {
		if err := r.markAll(ctx, tx, c, coupon.MarkRejected, rejectedSQL); err != nil {
			return 0, err
		}
	}
	return max(issued-before.Issued, 0) + max(rejected-before.Rejected, 0), nil
}

// markAll marks the users that a query finds. It removes nobody from the queue: no entry has the arrival that it gives.
func (r *Restorer) markAll(ctx context.Context, tx *sql.Tx, c coupon.Coupon, mark coupon.Mark, query string) error {
	for after := coupon.UserID(0); ; {
		users, err := mysqltx.Column[coupon.UserID](ctx, tx, query, c.ID, after, MaxRows)
		if err != nil || len(users) == 0 {
			return mysqltx.Wrap(err, "read the outcomes of coupon %d", c.ID)
		}
		entries := make([]coupon.Application, len(users))
		for i, user := range users {
			entries[i] = coupon.Application{Member: user.Member(), Arrival: -1}
		}
		if err := r.markSome(ctx, c, mark, entries); err != nil {
			return err
		}
		after = users[len(users)-1]
	}
}

func (r *Restorer) markSome(ctx context.Context, c coupon.Coupon, mark coupon.Mark,
	entries []coupon.Application) error {
	ctx, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	_, err := r.Line.Remove(ctx, c.ID, c.ClosesAt, mark, entries)
	return err
}

const (
	holdersSQL       = "SELECT user_id FROM user_coupon WHERE coupon_id = ? AND user_id IN "
	firstArrivalsSQL = "SELECT user_id, MIN(arrival) FROM line_journal WHERE coupon_id = ? AND user_id IN "
)

// fromMarks enters the winners again whom only their marks in Redis know, at the first arrivals that the journal has.
func (r *Restorer) fromMarks(ctx context.Context, tx *sql.Tx, c coupon.Coupon, dryRun bool, done *Restored) error {
	var told []coupon.UserID
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		some, next, err := r.marked(ctx, c.ID, cursor)
		if err == nil {
			// Keeps the session: the server would end one that is silent during all the marks.
			err = tx.QueryRowContext(ctx, aliveSQL).Scan(new(int))
		}
		if err != nil {
			return mysqltx.Wrap(err, "read the marks of coupon %d", c.ID)
		}
		told, cursor = append(told, some...), next
	}
	slices.Sort(told)
	for part := range slices.Chunk(slices.Compact(told), MaxRows) {
		if err := r.readmit(ctx, tx, c.ID, part, dryRun, done); err != nil {
			return err
		}
	}
	return nil
}

const aliveSQL = "SELECT 1"

// marked reads about MaxRows users who are marked as issued. next is 0 at the end.
func (r *Restorer) marked(ctx context.Context, id coupon.CouponID,
	after uint64) (told []coupon.UserID, next uint64, err error) {
	ctx, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	for next = after; len(told) < MaxRows; {
		members, cursor, err := r.Line.Marked(ctx, id, coupon.MarkIssued, next)
		if err != nil {
			return nil, 0, err
		}
		for _, member := range members {
			if user := coupon.ParseUserID(member); user != 0 {
				told = append(told, user)
			}
		}
		if next = cursor; next == 0 {
			break
		}
	}
	return told, next, nil
}

func (r *Restorer) readmit(ctx context.Context, tx *sql.Tx, id coupon.CouponID, told []coupon.UserID, dryRun bool,
	done *Restored) error {
	holders, err := mysqltx.Column[coupon.UserID](ctx, tx, holdersSQL+mysqltx.In(len(told)), args(id, told)...)
	if err != nil {
		return mysqltx.Wrap(err, "read the holders of coupon %d", id)
	}
	has := make(map[coupon.UserID]bool, len(holders))
	for _, user := range holders {
		has[user] = true
	}
	forgotten := slices.DeleteFunc(told, func(user coupon.UserID) bool { return has[user] })
	if len(forgotten) == 0 {
		return nil
	}
	rows, err := mysqltx.Collect(ctx, tx, func(r *row) []any { return []any{&r.user, &r.arrival} },
		firstArrivalsSQL+mysqltx.In(len(forgotten))+" GROUP BY user_id ORDER BY user_id", args(id, forgotten)...)
	if err != nil {
		return mysqltx.Wrap(err, "read the journal of coupon %d", id)
	}
	var winners []candidates.Answer
	known := make(map[coupon.UserID]bool, len(rows))
	for _, one := range rows {
		known[one.user] = true
		winners = append(winners, candidates.Answer{User: one.user, Arrival: one.arrival})
	}
	done.Unknown = append(done.Unknown, slices.DeleteFunc(forgotten,
		func(user coupon.UserID) bool { return known[user] })...)
	if dryRun {
		done.note(winners)
		done.FromMarks += int64(len(winners))
		return nil
	}
	ctx, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	for part := range slices.Chunk(winners, candidates.MaxRestored) {
		entered, err := r.Line.Readmit(ctx, id, part)
		if done.FromMarks += entered; err != nil {
			return err
		}
	}
	return nil
}

func args(id coupon.CouponID, users []coupon.UserID) []any {
	all := make([]any, 0, 1+len(users))
	all = append(all, id)
	for _, user := range users {
		all = append(all, user)
	}
	return all
}
