// Package line reads the line of a coupon: the applications that wait for a seat, by arrival.
package line

import (
	"context"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Queue is the part of the line that is in Redis: queue and DLQ.
type Queue interface {
	// Page reads, by arrival, the next applications after the cursor and before the cutoff. It returns none at the end.
	Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor,
		cutoff time.Time) ([]coupon.Application, coupon.Cursor, error)
}

// Reader reads the line of one coupon before a cutoff: the applications in Redis and, if seats are free again, the
// NOT_SELECTED applications in MySQL. It holds at most two pages of each source in memory.
type Reader struct {
	Queue       Queue
	Coupon      coupon.CouponID
	Cutoff      time.Time
	NotSelected bool // also read the NOT_SELECTED applications; Next then needs a Querier
	Size        int  // number of applications in a page

	inRedis    []coupon.Application
	cursor     coupon.Cursor
	redisEnded bool

	inMySQL    []coupon.Application
	after      coupon.Application // the last one read from MySQL
	mysqlEnded bool
}

// Next returns the next page of the line. An empty page means that there are no more.
func (r *Reader) Next(ctx context.Context, q mysqltx.Querier) ([]coupon.Application, error) {
	if err := r.readRedis(ctx); err != nil {
		return nil, err
	}
	if r.NotSelected && len(r.inMySQL) < r.Size && !r.mysqlEnded {
		from := r.after.Arrival.Time()
		rows, err := mysqltx.CollectApplications(ctx, q, coupon.SourceNotSelected, selectNotSelectedSQL,
			r.Coupon, r.Cutoff.UTC(), from, from, r.after.User(), r.Size)
		if err != nil {
			return nil, mysqltx.Wrap(err, "read not selected of coupon %d", r.Coupon)
		}
		r.inMySQL, r.mysqlEnded = append(r.inMySQL, rows...), len(rows) < r.Size
		if len(rows) > 0 {
			r.after = rows[len(rows)-1]
		}
	}
	if len(r.inMySQL) == 0 {
		n := min(len(r.inRedis), r.Size)
		page := r.inRedis[:n:n]
		r.inRedis = r.inRedis[n:]
		return page, nil
	}
	return r.merge(), nil
}

// readRedis bounds the calls together: a transaction may be waiting for them, silent to MySQL.
func (r *Reader) readRedis(ctx context.Context) error {
	ctx, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	for len(r.inRedis) < r.Size && !r.redisEnded {
		entries, cursor, err := r.Queue.Page(ctx, r.Coupon, r.cursor, r.Cutoff)
		if err != nil {
			return err
		}
		r.cursor, r.redisEnded = cursor, len(entries) == 0
		r.inRedis = append(r.inRedis, entries...)
	}
	return nil
}

// merge takes the next page out of both sources, by arrival. If all applications read from one source are used up, but
// that source has more, the page ends early: the next application of that source may be the earliest.
func (r *Reader) merge() []coupon.Application {
	page := make([]coupon.Application, 0, r.Size)
	for len(page) < r.Size && len(r.inRedis)+len(r.inMySQL) > 0 {
		if (len(r.inRedis) == 0 && !r.redisEnded) || (len(r.inMySQL) == 0 && !r.mysqlEnded) {
			break
		}
		from := &r.inRedis
		if len(r.inRedis) == 0 || (len(r.inMySQL) > 0 && r.inMySQL[0].Arrival <= r.inRedis[0].Arrival) {
			from = &r.inMySQL
		}
		page = append(page, (*from)[0])
		*from = (*from)[1:]
	}
	return page
}

const selectNotSelectedSQL = `
SELECT user_id, applied_at FROM application_outcome
WHERE coupon_id = ? AND outcome = 'NOT_SELECTED' AND applied_at < ?
  AND (applied_at > ? OR (applied_at = ? AND user_id > ?))
ORDER BY applied_at, user_id LIMIT ?`
