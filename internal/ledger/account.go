package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
)

// Store is what the ledger reads of Redis; candidates.Store has it.
type Store interface {
	Figures(ctx context.Context, coupon uint64) (candidates.Figures, error)
	Page(ctx context.Context, coupon uint64, after candidates.Cursor, cutoff time.Time) ([]candidates.Entry, candidates.Cursor, error)
	MarkedIssued(ctx context.Context, coupon uint64, after uint64) (users []string, next uint64, err error)
}

// Ledger reads one deployment.
type Ledger struct{ Store Store }

// Account is where the promises of one coupon are. Invariant 4: accepted = waiting + under review + issued by a run +
// recorded outcomes, where an application that stands in Redis and is settled in MySQL with the same arrival counts once.
type Account struct {
	Accepted    int64 `json:"accepted"`    // ever promised, by the higher of Redis's and MySQL's word
	Waiting     int64 `json:"waiting"`     // in the queue
	UnderReview int64 `json:"underReview"` // in the DLQ
	Issued      int64 `json:"issued"`      // coupons given by a run
	Outcomes    int64 `json:"outcomes"`    // recorded in application_outcome
	Twice       int64 `json:"twice"`       // both in Redis and settled in MySQL: a clean-up still to come
	WrittenOff  int64 `json:"writtenOff"`  // lost promises that an operator has accepted

	LastArrival int64 `json:"lastArrival"` // highest ever given, µs since 1970
}

// Gap is how many promises were lost; below zero, how many applications nobody promised.
func (a Account) Gap() int64 {
	return a.Accepted - a.WrittenOff - (a.Waiting + a.UnderReview + a.Issued + a.Outcomes - a.Twice)
}

func (a Account) String() string {
	return fmt.Sprintf("accepted %d, waiting %d, under review %d, issued %d, other outcomes %d, counted twice %d, written off %d",
		a.Accepted, a.Waiting, a.UnderReview, a.Issued, a.Outcomes, a.Twice, a.WrittenOff)
}

// Account adds up one coupon inside tx, which should hold its lock. Only with settling, which says that some
// settlement has not been cleaned up yet, is the line walked for what is counted twice.
func (l *Ledger) Account(ctx context.Context, tx *sql.Tx, coupon uint64, settling bool) (Account, error) {
	a, figures, err := l.count(ctx, tx, coupon)
	if err != nil || !settling {
		return a, err
	}
	err = l.walk(ctx, tx, coupon, figures, func(s standing) {
		if s.settled() {
			a.Twice++
		}
	})
	return a, err
}

const promisedSQL = `
SELECT COALESCE(MAX(accepted), 0), COALESCE(MAX(last_arrival), 0), COALESCE(MAX(written_off), 0)
FROM promise WHERE coupon_id = ?`

const settledSQL = `
SELECT (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL),
       (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ?)`

// count adds up what can be counted without walking the line. The order matters, since no lock keeps applications
// from arriving: the promises that MySQL remembers, then Redis, then what is settled. The catalog lifts the promise row
// at any time; read after Redis, it would name applications that Redis had not been asked for yet, and they would
// look lost.
func (l *Ledger) count(ctx context.Context, tx *sql.Tx, coupon uint64) (a Account, f candidates.Figures, err error) {
	err = tx.QueryRowContext(ctx, promisedSQL, coupon).Scan(&a.Accepted, &a.LastArrival, &a.WrittenOff)
	if err != nil {
		return Account{}, f, fmt.Errorf("account for coupon %d: %w", coupon, err)
	}
	if f, err = l.Store.Figures(ctx, coupon); err != nil {
		return Account{}, f, err
	}
	if err = tx.QueryRowContext(ctx, settledSQL, coupon, coupon).Scan(&a.Issued, &a.Outcomes); err != nil {
		return Account{}, f, fmt.Errorf("account for coupon %d: %w", coupon, err)
	}
	a.Accepted, a.LastArrival = max(a.Accepted, f.Accepted), max(a.LastArrival, f.LastArrival)
	a.Waiting, a.UnderReview = f.Waiting, f.DLQ
	return a, f, nil
}

// standing is one application in Redis and what MySQL says of it.
type standing struct {
	candidates.Entry
	user     uint64
	active   bool // the user exists and is active
	holds    bool // the user holds the coupon, by whatever way
	issued   bool // MySQL holds a coupon of this very application
	recorded bool // MySQL holds another outcome of this very application
}

func (s standing) settled() bool { return s.issued || s.recorded }

const standingSQL = `
SELECT j.n, COALESCE(u.status = 'ACTIVE', FALSE),
       EXISTS (SELECT 1 FROM user_coupon h WHERE h.coupon_id = ? AND h.user_id = j.user_id),
       EXISTS (SELECT 1 FROM user_coupon c WHERE c.coupon_id = ? AND c.user_id = j.user_id AND c.run_id IS NOT NULL
               AND c.applied_at = CAST('1970-01-01' AS DATETIME(6)) + INTERVAL j.arrival MICROSECOND),
       EXISTS (SELECT 1 FROM application_outcome o WHERE o.coupon_id = ? AND o.user_id = j.user_id
               AND o.applied_at = CAST('1970-01-01' AS DATETIME(6)) + INTERVAL j.arrival MICROSECOND)
FROM JSON_TABLE(?, '$[*]' COLUMNS (
	n FOR ORDINALITY, user_id BIGINT UNSIGNED PATH '$[0]', arrival BIGINT UNSIGNED PATH '$[1]')) AS j
LEFT JOIN ` + "`user`" + ` u ON u.id = j.user_id
ORDER BY j.n`

// walk visits everything that stood in Redis when figures were counted, with MySQL's word on each user id; members
// that are no user ids are not visited.
func (l *Ledger) walk(ctx context.Context, tx *sql.Tx, coupon uint64, f candidates.Figures, visit func(standing)) error {
	end := time.UnixMicro(max(f.LastArrival, f.Highest) + 1)
	var cursor candidates.Cursor
	for {
		page, next, err := l.Store.Page(ctx, coupon, cursor, end)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		cursor = next
		if err := visitPage(ctx, tx, coupon, page, visit); err != nil {
			return fmt.Errorf("walk the line of coupon %d: %w", coupon, err)
		}
	}
}

func visitPage(ctx context.Context, tx *sql.Tx, coupon uint64, page []candidates.Entry, visit func(standing)) error {
	var users []standing
	asked := []byte{'['}
	for _, e := range page {
		user, err := strconv.ParseUint(e.Member, 10, 64)
		if err != nil || strconv.FormatUint(user, 10) != e.Member {
			continue
		}
		if len(users) > 0 {
			asked = append(asked, ',')
		}
		asked = fmt.Appendf(asked, "[%d,%d]", user, e.Arrival)
		users = append(users, standing{Entry: e, user: user})
	}
	if len(users) == 0 {
		return nil
	}
	rows, err := tx.QueryContext(ctx, standingSQL, coupon, coupon, coupon, string(append(asked, ']')))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		var active, holds, issued, recorded bool
		if err := rows.Scan(&n, &active, &holds, &issued, &recorded); err != nil {
			return err
		}
		s := users[n-1]
		s.active, s.holds, s.issued, s.recorded = active, holds, issued, recorded
		visit(s)
	}
	return rows.Err()
}
