package settle

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Source is where an application stands before it is settled.
type Source byte

const (
	Waiting       Source = iota // in the queue
	Retryable                   // in the DLQ, tried again by every run
	RefusedBefore               // retryable, and its own row was refused before
	Tried                       // the same, by a nightly run of this very cutoff: see run.leavesOut
	Held                        // in the DLQ until a person decides: not in the line
	NotSelected                 // in MySQL, waiting for seats to be free again
)

// Application is one application in line.
type Application struct {
	Member  string // as it stands in Redis
	User    uint64 // 0 when the member is no user id
	Arrival int64  // µs since 1970
	Source  Source
}

// NewApplication reads an entry of the line in Redis.
func NewApplication(member string, arrival int64, source Source) Application {
	return Application{Member: member, User: parseUser(member), Arrival: arrival, Source: source}
}

// Cursor marks a place in the line in Redis; nil is its beginning.
type Cursor any

// Mark says which users the door is to answer at once from now on.
type Mark int

const (
	MarkNobody Mark = iota
	MarkIssued
	MarkRejected
)

// Failure is an application that could not be settled, and why.
type Failure struct {
	Application
	Cause     Cause
	Message   string
	Retryable bool
	Keep      bool      // it stands under review already: note the attempt, and keep why
	Row       bool      // the applicant's own row was refused, which is tried a bounded number of times
	Night     time.Time // the cutoff of the nightly run to which it was refused; zero: of no nightly run
}

// Clock is the clock of the line: Redis's.
type Clock interface {
	Now(ctx context.Context) (time.Time, error)
}

// Line is where the applications of a coupon wait. Everything is safe to repeat.
type Line interface {
	// Page reads what stands behind the cursor with an arrival before the cutoff, by arrival; nothing at the end.
	Page(ctx context.Context, coupon uint64, after Cursor, cutoff time.Time) ([]Application, Cursor, error)
	// Remove takes settled applications out and marks their users.
	Remove(ctx context.Context, coupon uint64, closes time.Time, mark Mark, settled []Application) error
	// Review puts applications into the DLQ with their arrivals; it returns how many still stood there.
	Review(ctx context.Context, coupon, run uint64, at time.Time, failed []Failure) (int64, error)
}

// DLQ is where applications stand that could not be settled. Everything is safe to repeat.
type DLQ interface {
	// UnderReview reads what stands behind the cursor, by arrival; nothing at the end.
	UnderReview(ctx context.Context, coupon uint64, after Cursor) ([]Application, Cursor, error)
	// Release makes applications retryable; it returns how many still stood there.
	Release(ctx context.Context, coupon uint64, held []Application) (int64, error)
}

// Door is what lets applications in.
type Door interface {
	// Renew gives the coupon's keys their full life again.
	Renew(ctx context.Context, coupon uint64, closes time.Time) error
	// Fence makes sure that nothing arrives below the cutoff any more, and that pods have put back whom a failover took with
	// it, or says how long to wait before that can be: for the cutoff, and for the pods. promised is what MySQL
	// remembers, nothing for a coupon that is over.
	Fence(ctx context.Context, coupon uint64, cutoff time.Time, promised Promised) (wait, forPods time.Duration, err error)
	// SetSold tells applicants whether every seat is taken.
	SetSold(ctx context.Context, coupon uint64, sold bool) error
	// Sweep clears away a finished coupon's keys; false when something still stands there.
	Sweep(ctx context.Context, coupon uint64, closes time.Time) (bool, error)
}

// Catalog knows the coupons when MySQL cannot be asked: what the doors were last told of them.
type Catalog interface {
	Coupons(ctx context.Context) ([]Coupon, error)
}

// parseUser reads a member as a user id: canonical decimal, from 1. Anything else is 0.
func parseUser(member string) uint64 {
	if member == "" || member[0] < '1' || member[0] > '9' {
		return 0
	}
	user, err := strconv.ParseUint(member, 10, 64)
	if err != nil {
		return 0
	}
	return user
}

// reader walks the line of one coupon before a cutoff, by arrival: what stands in Redis and, where seats are free
// again, those who were not selected before. It holds two pages in memory, whatever the length of the line.
type reader struct {
	line        Line
	coupon      uint64
	cutoff      time.Time
	notSelected bool // read those from MySQL too; there must be a connection
	size        int  // of a page

	standing    []Application
	cursor      Cursor
	standingEnd bool

	returned    []Application
	returnedAt  Application // the last one read from MySQL
	returnedEnd bool
}

// next returns the next page of the line; an empty one is its end.
func (r *reader) next(ctx context.Context, q querier) ([]Application, error) {
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
func (r *reader) nextOrNil(ctx context.Context) (*[]Application, error) {
	page, err := r.next(ctx, nil)
	if err != nil || len(page) == 0 {
		return nil, err
	}
	return &page, nil
}

// merge takes the next page out of both, by arrival. It ends where one runs out that may go on: what follows there is
// not known yet and may come before the other's next.
func (r *reader) merge() []Application {
	page := make([]Application, 0, r.size)
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

func selectNotSelected(ctx context.Context, q querier, coupon uint64, after Application, cutoff time.Time, limit int) ([]Application, error) {
	from := time.UnixMicro(after.Arrival).UTC()
	rows, err := q.QueryContext(ctx, selectNotSelectedSQL, coupon, cutoff.UTC(), from, from, after.User, limit)
	if err != nil {
		return nil, fmt.Errorf("read not selected of coupon %d: %w", coupon, err)
	}
	defer rows.Close()
	var page []Application
	for rows.Next() {
		a := Application{Source: NotSelected}
		var appliedAt time.Time
		if err := rows.Scan(&a.User, &appliedAt); err != nil {
			return nil, fmt.Errorf("read not selected of coupon %d: %w", coupon, err)
		}
		a.Member, a.Arrival = strconv.FormatUint(a.User, 10), appliedAt.UnixMicro()
		page = append(page, a)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read not selected of coupon %d: %w", coupon, err)
	}
	return page, nil
}
