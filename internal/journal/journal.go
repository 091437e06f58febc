package journal

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
)

// Store is the part of Redis that the journal reads. candidates.Store implements it.
type Store interface {
	Look(ctx context.Context, couponID coupon.CouponID, known coupon.Known) (coupon.Look, error)
	Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor, cutoff time.Time) ([]coupon.Application,
		coupon.Cursor, error)
	Unmark(ctx context.Context, couponID coupon.CouponID) error
}

// Journal copies lines from Redis to MySQL.
type Journal struct {
	DB    *mysqltx.DB
	Store Store
	Rows  int // of one copy at most; 0: MaxRows
}

const (
	// MaxRows bounds the rows of one transaction.
	MaxRows = 5000
	// redisTimeout bounds the calls of Redis in one transaction: others wait for its locks.
	redisTimeout = 3 * time.Second
	// before is how far before the start of an epoch it is read: as long as pods remember what the journal has.
	before = 10 * time.Second
)

const (
	claimSQL = `
SELECT epoch, up_to, written_at, UTC_TIMESTAMP(6) FROM journal WHERE coupon_id = ? FOR UPDATE SKIP LOCKED`
	// moveSQL bounds accepted as table journal does: somebody may have written the count of Redis by hand.
	moveSQL = `
UPDATE journal SET epoch = ?, up_to = ?, accepted = LEAST(GREATEST(accepted, ?), 9007199254740991),
    asked = GREATEST(asked, ?), written_at = ? WHERE coupon_id = ?`
)

// Begin makes the coupon's row of table journal, for a coupon that was inserted by SQL.
func (j *Journal) Begin(ctx context.Context, id coupon.CouponID) error {
	return j.DB.Once(ctx, func(ctx context.Context, q mysqltx.Querier) error { return promise.Begin(ctx, q, id) })
}

// Progress is what a process remembers of its copies of one coupon. Its zero value remembers nothing.
type Progress struct {
	epoch string         // of the server that was copied last
	to    coupon.Arrival // everybody who stands there at this arrival or before it was copied
	seen  row            // table journal as the last copy has left it
}

// row is a row of table journal.
type row struct {
	promise.Mark
	writtenAt time.Time
}

// olderThan reports whether MySQL has fallen back since a copy left another row, or whether a restore from marks asks
// for the whole line. The end of a restore begins another epoch at a lower arrival.
func (r row) olderThan(left row) bool {
	return r.Epoch == left.Epoch && r.UpTo < left.UpTo || r.writtenAt.Before(left.writtenAt)
}

// Copied is the result of Copy.
type Copied struct {
	Rows int
	More bool // the line goes on, or another server has taken over
	Busy bool // another process copies the coupon, or its row of table journal does not exist
}

// Copy copies up to MaxRows applications of a coupon that the journal may lack, and keeps p.
func (j *Journal) Copy(ctx context.Context, id coupon.CouponID, p *Progress) (copied Copied, err error) {
	now := *p
	err = j.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) (err error) {
		now = *p
		copied, err = j.copy(ctx, tx, id, &now)
		return err
	})
	if err == nil {
		*p = now
	}
	return copied, mysqltx.Wrap(err, "write the journal of coupon %d", id)
}

func (j *Journal) copy(ctx context.Context, tx *sql.Tx, id coupon.CouponID, p *Progress) (copied Copied, err error) {
	var is row
	var now time.Time
	switch err := tx.QueryRowContext(ctx, claimSQL, id).Scan(&is.Epoch, &is.UpTo, &is.writtenAt, &now); {
	case errors.Is(err, sql.ErrNoRows):
		return Copied{Busy: true}, nil
	case err != nil:
		return Copied{}, err
	}
	r, fell, err := j.read(ctx, id, is, p)
	if err != nil { // a repetition at once would lock the row for as long again
		return Copied{}, &coupon.Error{Class: mysqltx.ClassOf(err), Err: err}
	}
	left := is
	if fell { // what was entered at an arrival of the past may lack its row: no pod may count on it
		left.UpTo = 0
	}
	accepted, asks := int64(0), int64(0)
	copied.More = !r.same || r.more
	*p = Progress{}
	if r.same {
		if err := promise.AddRows(ctx, tx, id, r.rows); err != nil {
			return Copied{}, err
		}
		copied.Rows = len(r.rows)
		stays, due, err := markStays(ctx, tx, id, r.last.Line)
		if err != nil {
			return copied, err
		}
		if !stays && r.to > 0 { // 0: nobody has applied yet
			left.Mark = promise.Mark{Epoch: r.first.Epoch, UpTo: r.to}
		}
		if r.first.Restored {
			accepted = r.first.Accepted
		}
		if due == promise.NewServer && copied.Rows > 0 { // the server before may serve again, and lack them
			asks = 1
		}
		*p = Progress{epoch: r.first.Epoch, to: r.to}
	}
	if p.seen = left; left == is && copied.Rows == 0 {
		return copied, nil
	}
	p.seen.writtenAt = now
	return copied, mysqltx.Exec(ctx, tx, 1, moveSQL, left.Epoch, left.UpTo, accepted, asks, now, id)
}

// reading is what Redis says in one copy.
type reading struct {
	first, last coupon.Look
	same        bool // all of it is of one epoch
	rows        []coupon.Answer
	to          coupon.Arrival // everybody up to it was read
	more        bool
}

// read reads the applications behind those that the journal has. fell reports that MySQL has fallen back, or that
// up_to was written by hand: the whole line is read again then.
func (j *Journal) read(ctx context.Context, id coupon.CouponID, is row, p *Progress) (r reading, fell bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	known := coupon.Known{Highest: is.UpTo}
	if r.first, err = j.Store.Look(ctx, id, known); err != nil {
		return r, false, err
	}
	fell = is.olderThan(p.seen) || ahead(is.Mark, r.first)
	from := coupon.Arrival(0)
	if !fell {
		if from = begin(is.Mark, r.first.Epoch, r.first.Since).UpTo; p.epoch == r.first.Epoch {
			from = max(from, p.to)
		}
	}
	r.to = max(from, min(r.first.Last, r.first.Latest()))
	if err := j.readPages(ctx, id, from, &r); err != nil || !r.same {
		return r, fell, err
	}
	r.last, err = j.Store.Look(ctx, id, known)
	r.same = err == nil && r.last.Epoch == r.first.Epoch
	return r, fell, err
}

// begin returns how far the journal has an epoch that a restore has compared: as far as it has the epoch before, but
// for the last ten seconds.
func begin(m promise.Mark, epoch string, since coupon.Arrival) promise.Mark {
	if m.Epoch == epoch {
		return m
	}
	return promise.Mark{Epoch: epoch, UpTo: max(0, min(m.UpTo, since)-coupon.Arrival(before.Microseconds()))}
}

// ahead reports whether a mark claims arrivals that nobody can have yet: it was written by hand, or by a wrong clock.
func ahead(m promise.Mark, l coupon.Look) bool {
	return m.UpTo > l.Latest() || m.Epoch == l.Epoch && m.UpTo > l.Last
}

// readPages reads the applications from one arrival to r.to, or as many as one copy may write.
func (j *Journal) readPages(ctx context.Context, id coupon.CouponID, from coupon.Arrival, r *reading) error {
	limit := MaxRows
	if j.Rows > 0 {
		limit = min(limit, j.Rows)
	}
	var all []coupon.Application
	for after, end := Behind(from), (r.to + 1).Time(); ; {
		page, next, err := j.Store.Page(ctx, id, after, end)
		if err != nil {
			return err
		}
		if r.same = next.Epoch == r.first.Epoch; !r.same {
			return nil
		}
		all = append(all, page...)
		if len(all) >= limit {
			some := all[:limit]
			if some[limit-1].Arrival-1 <= from { // more than limit have one arrival, written by hand
				some = all
			}
			// The next entry may have the same arrival as the last one, which is then read again.
			if last := some[len(some)-1].Arrival; last-1 > from {
				all, r.to, r.more = some, last-1, true
				break
			}
		}
		if len(page) == 0 || next.End {
			break
		}
		after = next
	}
	for _, a := range all {
		if user := a.User(); user != 0 {
			r.rows = append(r.rows, coupon.Answer{User: user, Arrival: a.Arrival})
		}
	}
	return nil
}

// Behind is a cursor before every entry that arrived after an arrival.
func Behind(arrival coupon.Arrival) coupon.Cursor {
	return coupon.Cursor{Score: strconv.FormatInt(int64(arrival)+1, 10)}
}

const pendingSQL = "SELECT EXISTS (SELECT 1 FROM settlement WHERE coupon_id = ? AND cleaned_at IS NULL)"

// markStays reports whether up_to must stay: a restore is due, or a clean-up is pending. The line was read before.
func markStays(ctx context.Context, tx *sql.Tx, id coupon.CouponID,
	line coupon.Line) (stays bool, due promise.Cause, err error) {
	books, err := promise.Read(ctx, tx, id)
	if err != nil {
		return true, promise.NotDue, err
	}
	if due = books.Due(line); due != promise.NotDue {
		return true, due, nil
	}
	err = tx.QueryRowContext(ctx, pendingSQL, id).Scan(&stays)
	return stays, due, mysqltx.Wrap(err, "look for clean-ups of coupon %d", id)
}

const (
	// endedSQL reads one entry of the index for each coupon of line_journal. Its rows alone tell of a coupon that never
	// existed, or of one whose journal was deleted before.
	endedSQL = `
SELECT j.coupon_id FROM (SELECT coupon_id FROM journal UNION SELECT DISTINCT coupon_id FROM line_journal) j
    LEFT JOIN coupon c ON c.id = j.coupon_id
WHERE c.id IS NULL OR c.finalised_at < UTC_TIMESTAMP(6) - INTERVAL ? SECOND ORDER BY j.coupon_id LIMIT ?`
	// lockEndedSQL is false for a coupon that is open again.
	lockEndedSQL = `
SELECT COALESCE(finalised_at < UTC_TIMESTAMP(6) - INTERVAL ? SECOND, FALSE) FROM coupon WHERE id = ? FOR UPDATE`
	isOpen = "EXISTS (SELECT 1 FROM coupon c WHERE c.id = ? AND (c.finalised_at IS NULL OR " +
		"c.finalised_at >= UTC_TIMESTAMP(6) - INTERVAL ? SECOND))"
	clearSQL  = "DELETE FROM line_journal WHERE coupon_id = ? AND NOT " + isOpen + " LIMIT ?"
	forgetSQL = "DELETE FROM journal WHERE coupon_id = ? AND NOT " + isOpen
)

// maxEnded bounds the coupons that one call of Clear finds.
const maxEnded = 100

// Clear forgets coupons that were finalised some minutes ago or do not exist: it deletes their marks in Redis, and
// their journals, MaxRows rows at a time. A coupon that cannot be forgotten keeps no other.
func (j *Journal) Clear(ctx context.Context) error {
	var ended []coupon.CouponID
	err := j.DB.Once(ctx, func(ctx context.Context, q mysqltx.Querier) (err error) {
		ended, err = mysqltx.Column[coupon.CouponID](ctx, q, endedSQL, coupon.EndGuard.Seconds(), maxEnded)
		return mysqltx.Wrap(err, "find journals of finalised coupons")
	})
	for _, id := range ended {
		problem := j.unmark(ctx, id)
		if problem == nil {
			problem = j.deleteRows(ctx, id)
		}
		err = errors.Join(err, mysqltx.Wrap(problem, "delete the journal of coupon %d", id))
	}
	return err
}

// unmark deletes the marks of a coupon whose end MySQL keeps, under the coupon's lock: an operator may open it again.
func (j *Journal) unmark(ctx context.Context, id coupon.CouponID) error {
	return j.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		var ended bool
		err := tx.QueryRowContext(ctx, lockEndedSQL, coupon.EndGuard.Seconds(), id).Scan(&ended)
		if errors.Is(err, sql.ErrNoRows) || err == nil && !ended {
			return nil
		}
		if err != nil {
			return err
		}
		redis, cancel := mysqltx.Meanwhile(ctx)
		defer cancel()
		return j.Store.Unmark(redis, id)
	})
}

// deleteRows deletes nothing of a coupon that is open again: an operator may have extended it.
func (j *Journal) deleteRows(ctx context.Context, id coupon.CouponID) error {
	return j.DB.Once(ctx, func(ctx context.Context, q mysqltx.Querier) (err error) {
		for n := MaxRows; n == MaxRows; {
			n, err = mysqltx.Affected(q.ExecContext(ctx, clearSQL, id, id, coupon.EndGuard.Seconds(), MaxRows))
			if err != nil {
				return err
			}
		}
		_, err = q.ExecContext(ctx, forgetSQL, id, id, coupon.EndGuard.Seconds())
		return err
	})
}
