package settle

import (
	"context"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Clock is the clock that judges arrivals: Redis's.
type Clock interface {
	Now(ctx context.Context) (time.Time, error)
}

// Line is the queue and the DLQ of every coupon. Everything is safe to repeat.
type Line interface {
	// Page reads the applications behind the cursor with an arrival before the cutoff, by arrival; none at the end.
	Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor, cutoff time.Time) ([]coupon.Application, coupon.Cursor, error)
	// Remove takes settled applications out and marks their users; it returns the number of applications removed.
	Remove(ctx context.Context, couponID coupon.CouponID, closes time.Time, mark coupon.Mark, settled []coupon.Application) (int64, error)
	// Review moves applications to the DLQ with their arrivals; it returns the number moved.
	Review(ctx context.Context, couponID coupon.CouponID, run coupon.RunID, at time.Time, failed []coupon.Failure) (int64, error)
}

// DLQ holds the applications that could not be settled. Everything is safe to repeat.
type DLQ interface {
	// UnderReview reads the entries behind the cursor, by arrival; none at the end.
	UnderReview(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor) ([]coupon.Application, coupon.Cursor, error)
	// Release makes entries retryable; it returns the number of entries found.
	Release(ctx context.Context, couponID coupon.CouponID, held []coupon.Application) (int64, error)
}

// Door decides in Redis which applications are accepted.
type Door interface {
	// Renew gives the coupon's keys their full life again.
	Renew(ctx context.Context, couponID coupon.CouponID, closes time.Time) error
	// Fence makes sure that nothing arrives below the cutoff any more, and that pods have put back the applications that a
	// failover lost, or returns how long to wait for the cutoff and for the pods. known is MySQL's promise, the zero Promise
	// for a finalised coupon.
	Fence(ctx context.Context, couponID coupon.CouponID, cutoff time.Time, known coupon.Promise) (wait, forPods time.Duration, err error)
	// SetSold has applying answer SOLD_OUT, or accept again.
	SetSold(ctx context.Context, couponID coupon.CouponID, sold bool) error
	// Sweep removes the keys of a finished coupon; false when applications are left in them.
	Sweep(ctx context.Context, couponID coupon.CouponID, closes time.Time) (bool, error)
}

// Catalog knows the coupons when MySQL cannot be reached.
type Catalog interface {
	Coupons(ctx context.Context) ([]coupon.Coupon, error)
}

// reader walks the line of one coupon before a cutoff, by arrival: what stands in Redis and, where seats are free
// again, those who were not selected before. It holds two pages in memory, whatever the length of the line.
type reader struct {
	line        Line
	coupon      coupon.CouponID
	cutoff      time.Time
	notSelected bool // read those from MySQL too; there must be a connection
	size        int  // of a page

	standing    []coupon.Application
	cursor      coupon.Cursor
	standingEnd bool

	returned    []coupon.Application
	returnedAt  coupon.Application // the last one read from MySQL
	returnedEnd bool
}

// next returns the next page of the line; an empty one is its end.
func (r *reader) next(ctx context.Context, q mysqltx.Querier) ([]coupon.Application, error) {
	for len(r.standing) < r.size && !r.standingEnd {
		entries, cursor, err := r.line.Page(ctx, r.coupon, r.cursor, r.cutoff)
		if err != nil {
			return nil, err
		}
		r.cursor, r.standingEnd = cursor, len(entries) == 0
		r.standing = append(r.standing, entries...)
	}
	if r.notSelected && len(r.returned) < r.size && !r.returnedEnd {
		rows, err := selectNotSelected(ctx, q, r.coupon, r.returnedAt, r.cutoff, r.size)
		if err != nil {
			return nil, err
		}
		r.returned, r.returnedEnd = append(r.returned, rows...), len(rows) < r.size
		if len(rows) > 0 {
			r.returnedAt = rows[len(rows)-1]
		}
	}
	if len(r.returned) == 0 {
		n := min(len(r.standing), r.size)
		page := r.standing[:n:n]
		r.standing = r.standing[n:]
		return page, nil
	}
	return r.merge(), nil
}

// nextOrNil is next as ahead asks for it, of what stands in Redis.
func (r *reader) nextOrNil(ctx context.Context) (*[]coupon.Application, error) {
	page, err := r.next(ctx, nil)
	if err != nil || len(page) == 0 {
		return nil, err
	}
	return &page, nil
}

// merge takes the next page out of both, by arrival. It ends where one runs out that may go on: what follows there is
// not known yet and may come before the other's next.
func (r *reader) merge() []coupon.Application {
	page := make([]coupon.Application, 0, r.size)
	for len(page) < r.size && len(r.standing)+len(r.returned) > 0 {
		if (len(r.standing) == 0 && !r.standingEnd) || (len(r.returned) == 0 && !r.returnedEnd) {
			break
		}
		from := &r.standing
		if len(r.standing) == 0 || (len(r.returned) > 0 && r.returned[0].Arrival <= r.standing[0].Arrival) {
			from = &r.returned
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
ORDER BY applied_at, user_id
LIMIT ?`

func selectNotSelected(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID, after coupon.Application, cutoff time.Time, limit int) ([]coupon.Application, error) {
	from := time.UnixMicro(after.Arrival).UTC()
	rows, err := q.QueryContext(ctx, selectNotSelectedSQL, couponID, cutoff.UTC(), from, from, after.User(), limit)
	if err != nil {
		return nil, fmt.Errorf("read not selected of coupon %d: %w", couponID, err)
	}
	defer rows.Close()
	var page []coupon.Application
	for rows.Next() {
		var user coupon.UserID
		var appliedAt time.Time
		if err := rows.Scan(&user, &appliedAt); err != nil {
			return nil, fmt.Errorf("read not selected of coupon %d: %w", couponID, err)
		}
		page = append(page, coupon.Application{Member: coupon.Member(user), Arrival: coupon.ArrivalAt(appliedAt), Source: coupon.SourceNotSelected})
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read not selected of coupon %d: %w", couponID, err)
	}
	return page, nil
}
