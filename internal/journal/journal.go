package journal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Store is the part of Redis that the journal reads and writes. candidates.Store implements it.
type Store interface {
	Lines(ctx context.Context, coupons []coupon.CouponID) (map[coupon.CouponID]candidates.Line, error)
	Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor, cutoff time.Time) ([]coupon.Application,
		coupon.Cursor, error)
	MoveJournalled(ctx context.Context, couponID coupon.CouponID, line candidates.Line, to coupon.Arrival) (moved bool,
		err error)
}

// Journal copies lines from Redis to MySQL.
type Journal struct {
	DB    *mysqltx.DB
	Store Store
	Pace  Pace // nil: rows are written as fast as they can be
	Rows  int  // of one copy at most; 0: MaxRows
}

// Pace bounds the rows that are written in a second.
type Pace interface {
	Wait(ctx context.Context) error // returns when rows may be written
	Written(rows int)
}

// MaxRows bounds the rows of one transaction.
const MaxRows = 5000

// redisTimeout bounds the calls of Redis in one transaction: others wait for its locks.
const redisTimeout = 3 * time.Second

const (
	addCouponSQL = "INSERT INTO journal (coupon_id, written_at) VALUES (?, UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE " +
		"coupon_id = coupon_id"
	claimSQL    = "SELECT up_to FROM journal WHERE coupon_id = ? FOR UPDATE SKIP LOCKED"
	addRowsSQL  = "INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES "
	keepRowsSQL = " ON DUPLICATE KEY UPDATE user_id = user_id"
	moveSQL     = "UPDATE journal SET up_to = ?, written_at = UTC_TIMESTAMP(6) WHERE coupon_id = ?"

	// promiseSQL raises the promise to the counts of the same epoch, or of the first one. Counts of different epochs
	// must be merged by Redis. The assignments have an effect on those behind them.
	promiseSQL = `
INSERT INTO promise (coupon_id, accepted, last_arrival, twice, counted_since, seen_at) VALUES (?, ?, ?, ?, ?,
    UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE counted_since = IF(accepted = 0, GREATEST(counted_since, ?), counted_since),
    last_arrival = GREATEST(last_arrival, ?),
       accepted = IF(counted_since = ?, GREATEST(accepted, ?), accepted),
         twice = IF(counted_since = ?, GREATEST(twice, ?), twice)`
)

// Copied is the result of Copy.
type Copied struct {
	Rows int
	UpTo coupon.Arrival // the journal has everybody up to this arrival
	More bool           // the line goes on, or somebody was entered meanwhile
	Busy bool           // another process copies the coupon, or its row of table journal does not exist
}

// Begin makes the coupon's row of table journal.
func (j *Journal) Begin(ctx context.Context, id coupon.CouponID) error {
	return j.DB.Once(ctx, func(ctx context.Context, q mysqltx.Querier) error {
		return mysqltx.Upsert(ctx, q, addCouponSQL, id)
	})
}

// Copy copies up to MaxRows applications of a coupon that the journal may lack. line is what Redis said of the coupon.
func (j *Journal) Copy(ctx context.Context, id coupon.CouponID, line candidates.Line) (copied Copied, err error) {
	var to coupon.Arrival
	if j.Pace != nil {
		if err := j.Pace.Wait(ctx); err != nil {
			return Copied{}, err
		}
	}
	err = j.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) (err error) {
		copied, to, err = j.copy(ctx, tx, id, line)
		return err
	})
	if j.Pace != nil {
		j.Pace.Written(copied.Rows)
	}
	if err != nil || copied.Busy || to == line.Journalled {
		return copied, mysqltx.Wrap(err, "write the journal of coupon %d", id)
	}
	moved, err := j.Store.MoveJournalled(ctx, id, line, to)
	copied.More = copied.More || !moved
	return copied, err
}

func (j *Journal) copy(ctx context.Context, tx *sql.Tx, id coupon.CouponID,
	line candidates.Line) (copied Copied, to coupon.Arrival, err error) {
	var upTo coupon.Arrival
	switch err := tx.QueryRowContext(ctx, claimSQL, id).Scan(&upTo); {
	case errors.Is(err, sql.ErrNoRows):
		return Copied{Busy: true}, 0, nil
	case err != nil:
		return Copied{}, 0, err
	}
	from := min(line.Journalled, upTo)
	reading, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	page, to, more, err := j.read(reading, id, from, max(line.Last, from))
	if err != nil { // a repetition at once would lock the row for as long again
		return Copied{}, 0, &coupon.Error{Class: mysqltx.ClassOf(err), Err: err}
	}
	if err := j.add(ctx, tx, id, page); err != nil {
		return Copied{}, 0, err
	}
	copied = Copied{Rows: len(page), UpTo: to, More: more}
	if err := mysqltx.Exec(ctx, tx, 1, moveSQL, to, id); err != nil {
		return copied, to, err
	}
	return copied, to, promise(ctx, tx, id, line)
}

// promise makes a loss of Redis known by count before any pod has refreshed its catalog: a settlement then restores
// first, and users are not told that they have not applied.
func promise(ctx context.Context, tx *sql.Tx, id coupon.CouponID, l candidates.Line) error {
	err := mysqltx.Upsert(ctx, tx, promiseSQL, id, l.Accepted, l.Last, l.Twice, l.Since, l.Since, l.Last, l.Since,
		l.Accepted, l.Since, l.Twice)
	return mysqltx.Wrap(err, "raise the promise of coupon %d", id)
}

// read reads the applications after from, and says up to which arrival it has all of them.
func (j *Journal) read(ctx context.Context, id coupon.CouponID, from,
	last coupon.Arrival) (all []coupon.Application, to coupon.Arrival, more bool, err error) {
	limit := MaxRows
	if j.Rows > 0 {
		limit = min(limit, j.Rows)
	}
	for after := candidates.Behind(from); len(all) < limit; {
		page, next, err := j.Store.Page(ctx, id, after, (last + 1).Time())
		if err != nil {
			return nil, 0, false, err
		}
		if all = append(all, page...); len(page) == 0 || next.End {
			return all, last, false, nil
		}
		after = next
	}
	all = all[:min(len(all), limit)]
	to = all[len(all)-1].Arrival
	if to-1 > from { // the next entry may have the same arrival
		to--
	}
	return all, to, true, nil
}

// add inserts the users whom the journal lacks at these arrivals.
func (j *Journal) add(ctx context.Context, tx *sql.Tx, id coupon.CouponID, all []coupon.Application) error {
	args := make([]any, 0, 3*len(all))
	for _, a := range all {
		if user := a.User(); user != 0 {
			args = append(args, id, a.Arrival, user)
		}
	}
	if len(args) == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, addRowsSQL+mysqltx.List("(?, ?, ?)", len(args)/3)+keepRowsSQL, args...)
	return err
}

const (
	endedSQL = `
SELECT j.coupon_id FROM journal j LEFT JOIN coupon c ON c.id = j.coupon_id
WHERE c.id IS NULL OR c.finalised_at IS NOT NULL ORDER BY j.coupon_id LIMIT ?`
	clearSQL  = "DELETE FROM line_journal WHERE coupon_id = ? LIMIT ?"
	forgetSQL = "DELETE FROM journal WHERE coupon_id = ?"
)

// maxEnded bounds the finalised coupons that one call of Clear finds.
const maxEnded = 100

// Clear deletes the journals of finalised coupons, MaxRows rows at a time. A journal that cannot be deleted keeps no
// other.
func (j *Journal) Clear(ctx context.Context) error {
	return j.DB.Once(ctx, func(ctx context.Context, q mysqltx.Querier) error {
		ended, err := mysqltx.Column[coupon.CouponID](ctx, q, endedSQL, maxEnded)
		if err != nil {
			return mysqltx.Wrap(err, "find journals of finalised coupons")
		}
		var problems error
		for _, id := range ended {
			problems = errors.Join(problems, mysqltx.Wrap(clearOne(ctx, q, id), "delete the journal of coupon %d", id))
		}
		return problems
	})
}

func clearOne(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) (err error) {
	for n := MaxRows; n == MaxRows; {
		if n, err = mysqltx.Affected(q.ExecContext(ctx, clearSQL, id, MaxRows)); err != nil {
			return err
		}
	}
	_, err = q.ExecContext(ctx, forgetSQL, id)
	return err
}
