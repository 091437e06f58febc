package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jajeong/jajeong/internal/coupon"
)

// Period is a span of arrivals: from From on and before To.
type Period struct {
	From, To time.Time
	Bucket   time.Duration // of the Timeline, whole seconds
}

// edges are the bounds of the buckets from an arrival on, in µs since 1970; none behind the period.
func (p Period) edges(from int64) []int64 {
	from = max(from, p.From.UnixMicro())
	edges := []int64{from}
	for next := p.From.Add(time.Duration(p.bucket(from)+1) * p.Bucket); next.Before(p.To); next = next.Add(p.Bucket) {
		edges = append(edges, next.UnixMicro())
	}
	return append(edges, max(from, p.To.UnixMicro()))
}

// bucket is where an arrival is counted.
func (p Period) bucket(µs int64) int {
	return int((µs - p.From.UnixMicro()) / p.Bucket.Microseconds())
}

func (p Period) holds(µs int64) bool { return p.From.UnixMicro() <= µs && µs < p.To.UnixMicro() }

// Counts are applications that arrived in a period, each of them once, by what has become of it up to now:
// Applications = Issued + NotSelected + Rejected + AlreadyIssued + UnderReview + Waiting. Since an application arrives
// once, the counts of a month are the sums of those of its days.
type Counts struct {
	Applications  int64 `json:"applications"`
	Issued        int64 `json:"issued"` // by a run; not what was given by hand, for which nobody applied
	NotSelected   int64 `json:"notSelected"`
	Rejected      int64 `json:"rejected"`
	AlreadyIssued int64 `json:"alreadyIssued"`
	UnderReview   int64 `json:"underReview"` // in the DLQ
	Waiting       int64 `json:"waiting"`

	ValueWon *big.Int `json:"valueWon"` // what the issued are worth

	// Of the whole coupon as it is now, whenever the applications arrived.
	Seats     int64 `json:"seats"`
	SeatsLeft int64 `json:"seatsLeft"`
	Gap       int64 `json:"gap"` // lost promises; nobody knows when those arrived
}

func (c *Counts) add(b Counts) {
	c.Applications += b.Applications
	c.Issued += b.Issued
	c.NotSelected += b.NotSelected
	c.Rejected += b.Rejected
	c.AlreadyIssued += b.AlreadyIssued
	c.UnderReview += b.UnderReview
	c.Waiting += b.Waiting
	c.ValueWon.Add(c.ValueWon, b.ValueWon)
	c.Seats += b.Seats
	c.SeatsLeft += b.SeatsLeft
	c.Gap += b.Gap
}

// CouponReport is one coupon in a period.
type CouponReport struct {
	Coupon      uint64 `json:"coupon"`
	Name        string `json:"name"`
	DiscountWon int64  `json:"discountWon"`
	Counts

	SettledBy

	AuditHead Head `json:"auditHead"` // of the coupon's audit chain

	// Deeds are what was done to the coupon by hand, or held back, from the beginning of the period until the last of its
	// applications was settled, as far as it stands in the audit chain; the first mostDeedsTold of them.
	Deeds        []DeedsAtOnce `json:"deeds"`
	DeedsLeftOut int64         `json:"deedsLeftOut"`
}

// DeedsAtOnce are what somebody did at once, for one reason: to the coupon, or to so many of its applications.
type DeedsAtOnce struct {
	Deed
	Count int64 `json:"count"` // 1, and then Detail says what of, or more
}

// Unread is a coupon that could not be read, since somebody held its row.
type Unread struct {
	Coupon uint64 `json:"coupon"`
	Name   string `json:"name"` // empty: not known
	Error  string `json:"error"`

	Err error `json:"-"`
}

// SettledBy tells which runs settled the applications of a period.
type SettledBy struct {
	Runs           []uint64   `json:"runs"`     // the first mostRunsNamed of them
	RunCount       int        `json:"runCount"` // all
	FirstSettledAt *time.Time `json:"firstSettledAt,omitempty"`
	LastSettledAt  *time.Time `json:"lastSettledAt,omitempty"`
	Millis         *int64     `json:"durationMs,omitempty"` // that these runs spent on the coupon; not of runs that were killed
}

// Report is what became of the applications of a period, coupon by coupon. Reading it again gives the same until
// something of it is settled, or a seat, a promise or a price changes.
type Report struct {
	Coupons []CouponReport `json:"coupons"`
	Total   Counts         `json:"total"`  // the sums of the coupons
	Unread  []Unread       `json:"unread"` // what is missing in them

	// Timeline counts the applications by when they arrived: one number for each Bucket of the period.
	Timeline []int64 `json:"-"`
}

// mostUnread bounds how long a report waits for rows that somebody holds, ten seconds each.
const mostUnread = 10

// mostDeedsTold bounds what a report tells of one coupon; more than a person reads.
const mostDeedsTold = 50

// mostRunsNamed bounds what a report says of one coupon that was settled again and again.
const mostRunsNamed = 20

// reportedAtOnce bounds how many coupon ids are read at once.
const reportedAtOnce = 1000

// What can have applications of a period: coupons that were open then, that are not over, or that were settled since.
// The others are left out by what is found of them. A window may have been changed since.
const reportedSQL = `
SELECT c.id FROM coupon c
WHERE c.id > ? AND ((c.apply_opens_at < ? AND c.apply_closes_at > ?) OR c.finalised_at IS NULL
      OR EXISTS (SELECT 1 FROM settlement s JOIN settlement_run r ON r.id = s.run_id WHERE s.coupon_id = c.id AND r.cutoff > ?))
ORDER BY c.id LIMIT ?`

// Report reads the applications of a period, of the coupons named or else of all: then those that were open in the period
// or have applications of it.
func (l *Ledger) Report(ctx context.Context, db *sql.DB, period Period, coupons []uint64) (*Report, error) {
	report := &Report{Coupons: []CouponReport{}, Unread: []Unread{}, Timeline: make([]int64, (period.To.Sub(period.From)+period.Bucket-1)/period.Bucket)}
	report.Total.ValueWon = new(big.Int)
	visit := func(coupon uint64) error {
		f, err := l.inPeriod(ctx, db, coupon, period)
		if busy(err) && len(report.Unread) < mostUnread {
			report.Unread = append(report.Unread, Unread{coupon, f.Name, err.Error(), err})
			return nil
		}
		if err != nil {
			return err
		}
		if len(coupons) == 0 && !f.open && f.Applications == 0 {
			return nil // it has nothing to do with the period
		}
		report.Coupons = append(report.Coupons, f.CouponReport)
		report.Total.add(f.Counts)
		for bucket, n := range f.timeline {
			report.Timeline[bucket] += n
		}
		return nil
	}
	if len(coupons) > 0 {
		named := slices.Compact(slices.Sorted(slices.Values(coupons)))
		return report, eachOf(named, visit)
	}
	for after := uint64(0); ; {
		page, err := ids(ctx, db, reportedSQL, after, period.To.UTC(), period.From.UTC(), period.From.UTC(), reportedAtOnce)
		if err != nil {
			return nil, fmt.Errorf("read the coupons of the period: %w", err)
		}
		if err := eachOf(page, visit); err != nil {
			return nil, err
		}
		if len(page) < reportedAtOnce {
			return report, nil
		}
		after = page[len(page)-1]
	}
}

func eachOf(coupons []uint64, visit func(uint64) error) error {
	for _, coupon := range coupons {
		if err := visit(coupon); err != nil {
			return err
		}
	}
	return nil
}

// busy is whether somebody holds the coupon's row, or alters its table.
func busy(err error) bool {
	var numbered *mysql.MySQLError
	return errors.As(err, &numbered) && numbered.Number == lockWaitTimeout
}

// lockWaitTimeout is MySQL's number of a lock that was waited for in vain.
const lockWaitTimeout = 1205

// found is a coupon in a period, as it is read.
type found struct {
	CouponReport
	open     bool // its window and the period meet
	runs     map[uint64]bool
	timeline map[int]int64
}

// inPeriod looks at one coupon in one snapshot of MySQL, and again under its lock when the account does not come out even:
// a settlement may have committed and told Redis in between. After an error it knows the name at most.
func (l *Ledger) inPeriod(ctx context.Context, db *sql.DB, coupon uint64, period Period) (found, error) {
	f, err := l.lookInto(ctx, db, coupon, period, periodCouponSQL)
	if err != nil || f.Gap == 0 {
		return f, err
	}
	name := f.Name
	if f, err = l.lookInto(ctx, db, coupon, period, periodCouponSQL+underLock); err != nil {
		f.Name = name
	}
	return f, err
}

const periodCouponSQL = `
SELECT name, discount_won, total_quantity, issued_count, apply_opens_at < ? AND apply_closes_at > ?
FROM coupon WHERE id = ?`

func (l *Ledger) lookInto(ctx context.Context, db *sql.DB, coupon uint64, period Period, query string) (f found, err error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead}) // one snapshot for all counts
	if err != nil {
		return f, fmt.Errorf("report coupon %d: %w", coupon, err)
	}
	defer func() { _ = tx.Rollback() }() // only reads: there is nothing to keep

	f = found{runs: map[uint64]bool{}, timeline: map[int]int64{}}
	f.Coupon, f.Runs, f.ValueWon = coupon, []uint64{}, new(big.Int)
	var issued int64
	err = tx.QueryRowContext(ctx, query, period.To.UTC(), period.From.UTC(), coupon).
		Scan(&f.Name, &f.DiscountWon, &f.Seats, &issued, &f.open)
	if errors.Is(err, sql.ErrNoRows) {
		return f, fmt.Errorf("coupon %d: %w", coupon, ErrNoCoupon)
	}
	if err != nil {
		return f, fmt.Errorf("report coupon %d: %w", coupon, err)
	}
	f.SeatsLeft = f.Seats - issued
	for _, read := range []func() error{
		func() error { return f.readIssued(ctx, tx, period) },
		func() error { return f.readOutcomes(ctx, tx, period) },
		func() error { return l.readStanding(ctx, tx, &f, period) },
		func() error { return f.readRuns(ctx, tx) },
		func() error { return f.readDeeds(ctx, tx, period) },
		func() (err error) { f.AuditHead, err = AuditHead(ctx, tx, coupon); return err },
	} {
		if err := read(); err != nil {
			return f, fmt.Errorf("report coupon %d: %w", coupon, err)
		}
	}
	f.Applications = f.Issued + f.NotSelected + f.Rejected + f.AlreadyIssued + f.UnderReview + f.Waiting
	f.ValueWon.Mul(big.NewInt(f.DiscountWon), big.NewInt(f.Issued))
	return f, nil
}

// periodIssuedSQL counts rows. It reads all of a coupon, since nothing orders them by arrival, but none where no settlement
// has issued to arrivals of the period.
const periodIssuedSQL = `
SELECT 'ISSUED', run_id, TIMESTAMPDIFF(SECOND, CAST(? AS DATETIME(6)), applied_at) DIV ? AS bucket, COUNT(*)
FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL AND applied_at >= ? AND applied_at < ?
  AND EXISTS (SELECT 1 FROM settlement s WHERE s.coupon_id = user_coupon.coupon_id AND s.first_arrival < ? AND s.last_arrival >= ?)
GROUP BY run_id, bucket`

func (f *found) readIssued(ctx context.Context, tx *sql.Tx, p Period) error {
	return f.read(ctx, tx, periodIssuedSQL, p.From.UTC(), int64(p.Bucket.Seconds()), f.Coupon, p.From.UTC(), p.To.UTC(),
		p.To.UnixMicro(), p.From.UnixMicro())
}

const periodOutcomesSQL = `
SELECT outcome, COALESCE(run_id, 0), TIMESTAMPDIFF(SECOND, CAST(? AS DATETIME(6)), applied_at) DIV ? AS bucket, COUNT(*)
FROM application_outcome
WHERE coupon_id = ? AND outcome IN ('NOT_SELECTED', 'REJECTED', 'ALREADY_ISSUED') AND applied_at >= ? AND applied_at < ?
GROUP BY outcome, run_id, bucket`

func (f *found) readOutcomes(ctx context.Context, tx *sql.Tx, p Period) error {
	return f.read(ctx, tx, periodOutcomesSQL, p.From.UTC(), int64(p.Bucket.Seconds()), f.Coupon, p.From.UTC(), p.To.UTC())
}

func (f *found) read(ctx context.Context, tx *sql.Tx, query string, args ...any) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var outcome string
		var run uint64
		var bucket int
		var n int64
		if err := rows.Scan(&outcome, &run, &bucket, &n); err != nil {
			return err
		}
		switch outcome {
		case "ISSUED":
			f.Issued += n
		case "NOT_SELECTED":
			f.NotSelected += n
		case "REJECTED":
			f.Rejected += n
		case "ALREADY_ISSUED":
			f.AlreadyIssued += n
		default:
			return fmt.Errorf("unknown outcome %q", outcome)
		}
		if run != 0 {
			f.runs[run] = true
		}
		f.timeline[bucket] += n
	}
	return rows.Err()
}

// readStanding counts who stands in Redis. Behind what is settled nobody can be settled, so that counting is enough; up to
// there MySQL is asked about each. The account comes last: whatever leaves Redis before it shows as a gap.
func (l *Ledger) readStanding(ctx context.Context, tx *sql.Tx, f *found, p Period) error {
	a, settled, err := recorded(ctx, tx, f.Coupon)
	if err != nil {
		return err
	}
	if err := l.countBehind(ctx, f, p, settled+1); err != nil {
		return err
	}
	a, _, err = l.addUp(ctx, tx, f.Coupon, a, settled, func(s standing) {
		if s.settled() || !p.holds(s.Arrival) {
			return
		}
		f.timeline[p.bucket(s.Arrival)]++
		if s.Source == coupon.SourceQueue {
			f.Waiting++
		} else {
			f.UnderReview++
		}
	})
	f.Gap = a.Gap()
	return err
}

// countBehind counts who stands in Redis from an arrival on: nobody, of most coupons, and else bucket by bucket.
func (l *Ledger) countBehind(ctx context.Context, f *found, p Period, from int64) error {
	edges := p.edges(from)
	waiting, dlq, err := l.Store.Spans(ctx, f.Coupon, []int64{edges[0], edges[len(edges)-1]})
	if err != nil || waiting[0]+dlq[0] == 0 {
		return err
	}
	if waiting, dlq, err = l.Store.Spans(ctx, f.Coupon, edges); err != nil {
		return err
	}
	for i := range waiting {
		f.Waiting += waiting[i]
		f.UnderReview += dlq[i]
		if n := waiting[i] + dlq[i]; n > 0 {
			f.timeline[p.bucket(edges[i])] += n
		}
	}
	return nil
}

// periodDeedsSQL: an order about many applications has an event for each.
const periodDeedsSQL = `
SELECT e.at, e.actor, e.action, e.reason, IF(COUNT(*) = 1, MIN(e.detail), ''), COUNT(*) FROM audit_event e
JOIN audit_head h ON h.coupon_id = e.coupon_id AND e.seq BETWEEN 1 AND h.seq
WHERE e.coupon_id = ? AND e.at >= ? AND (e.at < ? OR e.at <= ?)
GROUP BY e.at, e.actor, e.action, e.reason, e.run_id ORDER BY MIN(e.seq)`

func (f *found) readDeeds(ctx context.Context, tx *sql.Tx, p Period) error {
	f.Deeds = []DeedsAtOnce{}
	until := p.From.UTC()
	if f.LastSettledAt != nil {
		until = *f.LastSettledAt
	}
	rows, err := tx.QueryContext(ctx, periodDeedsSQL, f.Coupon, p.From.UTC(), p.To.UTC(), until)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var d DeedsAtOnce
		if err := rows.Scan(&d.At, &d.Actor, &d.Action, &d.Reason, &d.Detail, &d.Count); err != nil {
			return err
		}
		if len(f.Deeds) < mostDeedsTold {
			f.Deeds = append(f.Deeds, d)
		} else {
			f.DeedsLeftOut++
		}
	}
	return rows.Err()
}

const periodRunsSQL = `
SELECT s.run_id, s.settled_at, x.duration_ms FROM settlement s
LEFT JOIN run_coupon x ON x.run_id = s.run_id AND x.coupon_id = s.coupon_id
WHERE s.coupon_id = ? ORDER BY s.run_id`

// readRuns finds when the runs were that settled what was counted.
func (f *found) readRuns(ctx context.Context, tx *sql.Tx) error {
	if len(f.runs) == 0 {
		return nil
	}
	rows, err := tx.QueryContext(ctx, periodRunsSQL, f.Coupon)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var run uint64
		var at time.Time
		var millis sql.NullInt64
		if err := rows.Scan(&run, &at, &millis); err != nil {
			return err
		}
		if !f.runs[run] {
			continue
		}
		if f.RunCount++; f.RunCount <= mostRunsNamed {
			f.Runs = append(f.Runs, run)
		}
		if f.FirstSettledAt == nil || at.Before(*f.FirstSettledAt) {
			f.FirstSettledAt = &at
		}
		if f.LastSettledAt == nil || at.After(*f.LastSettledAt) {
			f.LastSettledAt = &at
		}
		if millis.Valid {
			if f.Millis == nil {
				f.Millis = new(int64)
			}
			*f.Millis += millis.Int64
		}
	}
	return rows.Err()
}

func ids(ctx context.Context, db *sql.DB, query string, args ...any) (ids []uint64, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id uint64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
