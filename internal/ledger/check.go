package ledger

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// Code names what is wrong. Codes are stable; what each means stands with it.
type Code string

// Violations, by the invariant they break.
const (
	Oversold          Code = "OVERSOLD"                 // 1: more coupons than seats
	CountWrong        Code = "COUNT_WRONG"              // 1: issued_count is not the number of coupons
	SeatWrong         Code = "SEAT_WRONG"               // 1: a run gave a coupon without a seat, one seat twice or one that there is not
	HeldTwice         Code = "HELD_TWICE"               // 2: one user holds two
	SettledTwice      Code = "SETTLED_TWICE"            // 2: one application has both a coupon and another outcome
	PassedOver        Code = "PASSED_OVER"              // 3: an eligible earlier arrival got no seat and is not under review
	OrderWrong        Code = "ORDER_WRONG"              // 3: within a run, a later arrival has an earlier seat
	PromiseLost       Code = "PROMISE_LOST"             // 4: accepted applications cannot be found
	NeverSettled      Code = "NEVER_SETTLED"            // 4: people stand in line whom no run looks for
	Expiring          Code = "EXPIRING"                 // 4: Redis will let people go who wait or are under review
	LineRewound       Code = "LINE_REWOUND"             // 5: the next arrival could come before one that stands in line or got a seat
	ArrivalWrong      Code = "ARRIVAL_WRONG"            // 5: a run settled what has no arrival, or none before its cutoff
	NightAhead        Code = "NIGHT_AHEAD"              // 5: a run has ended whose cutoff has not come
	RecordWrong       Code = "RECORD_WRONG"             // 6: a settlement's record does not match the coupons it gave
	RecordMissing     Code = "RECORD_MISSING"           // 6: coupons or outcomes of a run that has no record of them
	RunMissing        Code = "RUN_MISSING"              // 6: a settlement of a run that never was; nobody can clean up behind it
	StillStanding     Code = "STILL_STANDING"           // 6: settled and cleaned up, yet still in the queue or the DLQ
	MarkedWithoutHold Code = "MARKED_WITHOUT_COUPON"    // 6: told ALREADY_ISSUED at the door without holding the coupon
	MarkedForNothing  Code = "MARKED_WITHOUT_REJECTION" // 6: told REJECTED at the door without having been rejected
	ReasonMissing     Code = "REASON_MISSING"           // 6: an entry under review without a reason, or a reason without an entry
	ValidityWrong     Code = "VALIDITY_WRONG"           // 6: a coupon is not issued or does not expire when its run made it
	OutcomeWrong      Code = "OUTCOME_WRONG"            // 6: an outcome that no run can have recorded so
	RunWrong          Code = "RUN_WRONG"                // 6: a run is not what was kept of it when it changed a coupon, or how it ended
	CouponMissing     Code = "COUPON_MISSING"           // 6: rows of coupons that do not exist
	DoorDiffers       Code = "DOOR_DIFFERS"             // 6: the door has been told the coupon's window and goes by another
	AuditChanged      Code = "AUDIT_CHANGED"            // 6: an audit event is not what it was when written
	AuditRemoved      Code = "AUDIT_REMOVED"            // 6: audit events were taken away, in the middle or at the end
	AuditInserted     Code = "AUDIT_INSERTED"           // 6: an audit event that the chain does not know
)

// Warnings: not wrong by themselves, but worth a look.
const (
	Excess      Code = "EXCESS"         // 4: more applications than promises: somebody wrote into Redis by hand
	ClockAhead  Code = "CLOCK_AHEAD"    // 5: the line runs ahead of the Redis clock; beyond 5 s nothing is accepted
	CleanUpToDo Code = "CLEAN_UP_TO_DO" // 6: a settlement has not told Redis everything yet; the next run does
)

// Finding is one thing that is wrong with a coupon.
type Finding struct {
	Invariant int    `json:"invariant"` // of DESIGN.md §2
	Code      Code   `json:"code"`
	Warning   bool   `json:"warning,omitempty"`
	Count     int64  `json:"count"` // how many rows, applications or promises; with its sign where two counts differ
	Detail    string `json:"detail"`
}

// Verdict is what the checker says of one coupon.
type Verdict struct {
	Coupon        uint64    `json:"coupon"`
	Name          string    `json:"name"`
	TotalQuantity int64     `json:"totalQuantity"`
	IssuedCount   int64     `json:"issuedCount"` // what the coupon's row says
	Coupons       int64     `json:"coupons"`     // what is in user_coupon
	Account       Account   `json:"account"`
	Gap           int64     `json:"gap"`
	AuditHead     Head      `json:"auditHead"` // keep it elsewhere: it binds all audit events up to it
	Findings      []Finding `json:"findings"`

	row                   couponRow
	signed                signed
	uncleaned, lastIssued int64
	figures               candidates.Figures
}

// couponRow is what the coupon's row says beside its figures.
type couponRow struct {
	opens, closes time.Time
	finalised     sql.NullTime
	validityDays  int64
}

// Violated is whether an invariant is broken; warnings do not count.
func (v *Verdict) Violated() bool {
	for _, f := range v.Findings {
		if !f.Warning {
			return true
		}
	}
	return false
}

func (v *Verdict) find(invariant int, code Code, count int64, format string, args ...any) {
	warning := code == Excess || code == ClockAhead || code == CleanUpToDo
	v.Findings = append(v.Findings, Finding{invariant, code, warning, count, fmt.Sprintf(format, args...)})
}

// ErrNoCoupon: there is no such coupon.
var ErrNoCoupon = errors.New("coupon does not exist")

const couponIDsSQL = "SELECT id FROM coupon WHERE id > ? ORDER BY id LIMIT ?"

// Coupons returns up to limit coupon ids behind after, in order.
func (l *Ledger) Coupons(ctx context.Context, db *sql.DB, after uint64, limit int) ([]uint64, error) {
	rows, err := db.QueryContext(ctx, couponIDsSQL, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read coupons: %w", err)
	}
	defer rows.Close()
	var ids []uint64
	for rows.Next() {
		var id uint64
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("read coupons: %w", err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read coupons: %w", err)
	}
	return ids, nil
}

const (
	lookSQL     = "SELECT name, total_quantity, issued_count, apply_opens_at, apply_closes_at, finalised_at, validity_days FROM coupon WHERE id = ?"
	lookLockSQL = lookSQL + underLock
)

// underLock keeps every settlement and change away from a coupon that is looked at. It is a shared lock: a server that is
// read-only takes FOR UPDATE for a write, and refuses it.
const underLock = " LOCK IN SHARE MODE"

// Check looks at one coupon, and looks again under its lock before it calls anything wrong.
func (l *Ledger) Check(ctx context.Context, db *sql.DB, coupon uint64) (*Verdict, error) {
	v, err := l.look(ctx, db, coupon, lookSQL)
	if err != nil || len(v.Findings) == 0 {
		return v, err
	}
	if err := l.waitForPods(ctx, v); err != nil {
		return nil, fmt.Errorf("check coupon %d: %w", coupon, err)
	}
	return l.look(ctx, db, coupon, lookLockSQL)
}

// waitForPods waits, where promises are missing, until pods have had the time to put back whom a failover took with it, as a
// settlement does: until then nothing is lost. By the clocks of Redis, a ledger waits no longer than once, since that time is
// the same for all coupons.
func (l *Ledger) waitForPods(ctx context.Context, v *Verdict) error {
	if v.Gap <= 0 || v.figures.ForPods == 0 {
		return nil
	}
	until := v.figures.Now.Add(candidates.PutBackTime)
	if !l.until.CompareAndSwap(nil, &until) {
		until = *l.until.Load()
	}
	timer := time.NewTimer(min(v.figures.ForPods, until.Sub(v.figures.Now)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Ledger) look(ctx context.Context, db *sql.DB, coupon uint64, query string) (*Verdict, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("check coupon %d: %w", coupon, err)
	}
	defer func() { _ = tx.Rollback() }() // only reads: there is nothing to keep

	v := &Verdict{Coupon: coupon, Findings: []Finding{}}
	err = tx.QueryRowContext(ctx, query, coupon).Scan(&v.Name, &v.TotalQuantity, &v.IssuedCount,
		&v.row.opens, &v.row.closes, &v.row.finalised, &v.row.validityDays)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("coupon %d: %w", coupon, ErrNoCoupon)
	}
	if err != nil {
		return nil, fmt.Errorf("check coupon %d: %w", coupon, err)
	}
	var figures candidates.Figures
	if v.Account, figures, err = l.count(ctx, tx, coupon); err != nil {
		return nil, err
	}
	v.figures = figures
	for _, check := range []func(context.Context, *sql.Tx, candidates.Figures, *Verdict) error{
		l.checkRecords, l.checkHolders, l.checkSeats, l.checkRows, l.checkOrder, l.checkLine, l.checkKept, l.checkMarks,
	} {
		if err := check(ctx, tx, figures, v); err != nil {
			return nil, fmt.Errorf("check coupon %d: %w", coupon, err)
		}
	}
	l.checkPromises(figures, v)
	for _, check := range []func(context.Context, *sql.Tx, *Verdict) error{checkAudit, checkSigned, checkRejected} {
		if err := check(ctx, tx, v); err != nil {
			return nil, fmt.Errorf("check coupon %d: %w", coupon, err)
		}
	}
	return v, nil
}

const uncleanedSQL = "SELECT COUNT(*) FROM settlement WHERE coupon_id = ? AND cleaned_at IS NULL"

const recordsSQL = `
SELECT run_id, issued_count, COALESCE(first_arrival, 0), COALESCE(last_arrival, 0), COALESCE(winners_digest, '')
FROM settlement WHERE coupon_id = ? ORDER BY run_id`

const unrecordedSQL = `
SELECT (SELECT COUNT(*) FROM user_coupon c WHERE c.coupon_id = ? AND c.run_id IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM settlement s WHERE s.run_id = c.run_id AND s.coupon_id = c.coupon_id))
     + (SELECT COUNT(*) FROM application_outcome o WHERE o.coupon_id = ? AND o.run_id IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM settlement s WHERE s.run_id = o.run_id AND s.coupon_id = o.coupon_id))`

const runMissingSQL = `
SELECT COUNT(*) FROM settlement s LEFT JOIN settlement_run r ON r.id = s.run_id WHERE s.coupon_id = ? AND r.id IS NULL`

// outcomesWrongSQL: a run that gave nobody ALREADY_ISSUED but recorded it, or the other way round; NOT_SELECTED and
// REJECTED may become fewer rows than were recorded, and entries put under review are counted as rejected, never more.
const outcomesWrongSQL = `
SELECT COUNT(*) FROM settlement s LEFT JOIN (
	SELECT run_id, SUM(outcome = 'ALREADY_ISSUED') AS already, SUM(outcome = 'NOT_SELECTED') AS not_selected, SUM(outcome = 'REJECTED') AS rejected
	FROM application_outcome WHERE coupon_id = ? AND run_id IS NOT NULL GROUP BY run_id
) o ON o.run_id = s.run_id
WHERE s.coupon_id = ? AND (s.already_issued_count <> COALESCE(o.already, 0) OR s.not_selected_count < COALESCE(o.not_selected, 0)
	OR s.rejected_count < COALESCE(o.rejected, 0) OR s.read_count < s.issued_count)`

type record struct {
	run, issued uint64
	first, last int64
	digest      string
}

// checkRecords: invariant 6. What each run says it gave must be what is there.
func (l *Ledger) checkRecords(ctx context.Context, tx *sql.Tx, _ candidates.Figures, v *Verdict) error {
	if err := tx.QueryRowContext(ctx, uncleanedSQL, v.Coupon).Scan(&v.uncleaned); err != nil {
		return err
	}
	if v.uncleaned > 0 {
		v.find(6, CleanUpToDo, v.uncleaned, "Redis has not been told of %d settlements; the next `settle run` does it", v.uncleaned)
	}
	var unrecorded int64
	if err := tx.QueryRowContext(ctx, unrecordedSQL, v.Coupon, v.Coupon).Scan(&unrecorded); err != nil {
		return err
	}
	if unrecorded > 0 {
		v.find(6, RecordMissing, unrecorded, "%d coupons or outcomes name a run that has no record of settling this coupon", unrecorded)
	}
	var runless, miscounted int64
	if err := tx.QueryRowContext(ctx, runMissingSQL, v.Coupon).Scan(&runless); err != nil {
		return err
	}
	if runless > 0 {
		v.find(6, RunMissing, runless, "%d settlements name a run that never was", runless)
	}
	if err := tx.QueryRowContext(ctx, outcomesWrongSQL, v.Coupon, v.Coupon).Scan(&miscounted); err != nil {
		return err
	}
	if miscounted > 0 {
		v.find(6, RecordWrong, 0, "%d runs recorded other counts of outcomes than are there", miscounted)
	}
	records, err := readRecords(ctx, tx, v.Coupon)
	if err != nil {
		return err
	}
	for _, said := range records {
		found, gap, err := recompute(ctx, tx, v.Coupon, said.run)
		if err != nil {
			return err
		}
		if gap && found.issued == said.issued {
			v.find(1, SeatWrong, 1, "run %d left out seats between those that it gave", said.run)
		}
		if found != said {
			v.find(6, RecordWrong, int64(said.issued)-int64(found.issued), "run %d recorded %d coupons from arrival %d to %d, %s; found are %d from %d to %d, %s",
				said.run, said.issued, said.first, said.last, said.digest, found.issued, found.first, found.last, found.digest)
		}
	}
	return nil
}

func readRecords(ctx context.Context, tx *sql.Tx, coupon uint64) (records []record, err error) {
	rows, err := tx.QueryContext(ctx, recordsSQL, coupon)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r record
		if err := rows.Scan(&r.run, &r.issued, &r.first, &r.last, &r.digest); err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, rows.Err()
}

const winnersSQL = "SELECT user_id, applied_at, position FROM user_coupon WHERE coupon_id = ? AND run_id = ? ORDER BY position, user_id"

// recompute is the record as the coupons of the run would have it. gap: its seats, each given once, are not one behind the other.
func recompute(ctx context.Context, tx *sql.Tx, coupon, run uint64) (r record, gap bool, err error) {
	rows, err := tx.QueryContext(ctx, winnersSQL, coupon, run)
	if err != nil {
		return record{}, false, err
	}
	defer rows.Close()
	r.run = run
	hash := sha256.New()
	var before int64
	once := true
	for rows.Next() {
		var user uint64
		var appliedAt sql.NullTime
		var seat int64
		if err := rows.Scan(&user, &appliedAt, &seat); err != nil {
			return record{}, false, err
		}
		once = once && seat > before // and no seat is 0
		gap = gap || r.issued > 0 && seat > before+1
		before = seat
		fmt.Fprintf(hash, "%d\n", user)
		r.last = appliedAt.Time.UnixMicro()
		if r.issued == 0 {
			r.first = r.last
		}
		r.issued++
	}
	if r.issued > 0 {
		r.digest = "sha256:" + hex.EncodeToString(hash.Sum(nil))
	}
	return r, gap && once, rows.Err()
}

const holdersSQL = "SELECT COUNT(*), COUNT(DISTINCT user_id) FROM user_coupon WHERE coupon_id = ?"

const settledTwiceSQL = `
SELECT COUNT(*) FROM application_outcome o
JOIN user_coupon c ON c.coupon_id = o.coupon_id AND c.user_id = o.user_id AND c.applied_at = o.applied_at AND c.run_id IS NOT NULL
WHERE o.coupon_id = ?`

// checkHolders: invariants 1 and 2.
func (l *Ledger) checkHolders(ctx context.Context, tx *sql.Tx, _ candidates.Figures, v *Verdict) error {
	var users, twice int64
	if err := tx.QueryRowContext(ctx, holdersSQL, v.Coupon).Scan(&v.Coupons, &users); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, settledTwiceSQL, v.Coupon).Scan(&twice); err != nil {
		return err
	}
	if v.Coupons > v.TotalQuantity {
		v.find(1, Oversold, v.Coupons-v.TotalQuantity, "%d coupons for %d seats", v.Coupons, v.TotalQuantity)
	}
	if v.Coupons != v.IssuedCount {
		v.find(1, CountWrong, v.IssuedCount-v.Coupons, "issued_count says %d, there are %d coupons", v.IssuedCount, v.Coupons)
	}
	if users != v.Coupons {
		v.find(2, HeldTwice, v.Coupons-users, "%d coupons for %d users", v.Coupons, users)
	}
	if twice > 0 {
		v.find(2, SettledTwice, twice, "%d applications have both a coupon and another outcome", twice)
	}
	return nil
}

const lastIssuedSQL = "SELECT MAX(applied_at) FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL"

const passedOverSQL = `
SELECT COUNT(*) FROM application_outcome o JOIN {users} ON {id} = o.user_id AND o.user_id <= {last} AND {active}
WHERE o.coupon_id = ? AND o.outcome = 'NOT_SELECTED' AND o.applied_at < ?`

const orderSQL = `
SELECT COUNT(*) FROM (
	SELECT applied_at, LAG(applied_at) OVER (PARTITION BY run_id ORDER BY position, user_id) AS before_it
	FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL
) seats WHERE applied_at < before_it`

const arrivalsWrongSQL = `
SELECT (SELECT COUNT(*) FROM user_coupon c LEFT JOIN settlement_run r ON r.id = c.run_id
        WHERE c.coupon_id = ? AND c.run_id IS NOT NULL AND (c.applied_at IS NULL OR c.applied_at >= r.cutoff))
     + (SELECT COUNT(*) FROM application_outcome o JOIN settlement_run r ON r.id = o.run_id
        WHERE o.coupon_id = ? AND o.outcome <> 'REJECTED' AND o.applied_at >= r.cutoff)`

// checkOrder: invariants 3 and 5, as far as MySQL knows.
func (l *Ledger) checkOrder(ctx context.Context, tx *sql.Tx, _ candidates.Figures, v *Verdict) error {
	var disordered, passed int64
	if err := tx.QueryRowContext(ctx, orderSQL, v.Coupon).Scan(&disordered); err != nil {
		return err
	}
	if disordered > 0 {
		v.find(3, OrderWrong, disordered, "%d seats were given to a later arrival than the seat behind", disordered)
	}
	var arrivals int64
	if err := tx.QueryRowContext(ctx, arrivalsWrongSQL, v.Coupon, v.Coupon).Scan(&arrivals); err != nil {
		return err
	}
	if arrivals > 0 {
		v.find(5, ArrivalWrong, arrivals, "%d applications were settled without an arrival before the cutoff of their run", arrivals)
	}
	last, err := lastIssued(ctx, tx, v.Coupon)
	if err != nil {
		return err
	}
	v.lastIssued = last.UnixMicro()
	directory, err := l.Users.Table(ctx, tx)
	if err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, directory.SQL(passedOverSQL), v.Coupon, last).Scan(&passed); err != nil {
		return err
	}
	if passed > 0 {
		v.find(3, PassedOver, passed, "%d active users recorded NOT_SELECTED came before the last who got a seat", passed)
	}
	return nil
}

func lastIssued(ctx context.Context, tx *sql.Tx, coupon uint64) (time.Time, error) {
	var last sql.NullTime
	if err := tx.QueryRowContext(ctx, lastIssuedSQL, coupon).Scan(&last); err != nil {
		return time.Time{}, err
	}
	if !last.Valid {
		return time.UnixMicro(0).UTC(), nil
	}
	return last.Time, nil
}

// checkLine walks everything that stands in Redis: invariants 3 and 6.
func (l *Ledger) checkLine(ctx context.Context, tx *sql.Tx, f candidates.Figures, v *Verdict) error {
	last, err := lastIssued(ctx, tx, v.Coupon)
	if err != nil {
		return err
	}
	var passed, standingStill, takenBack int64
	err = l.walk(ctx, tx, v.Coupon, max(v.Account.LastArrival, f.Highest), func(s standing) {
		switch {
		case s.takenBack():
			takenBack++
		case s.settled():
			standingStill++
		case s.Source == coupon.SourceQueue && s.active && !s.holds && s.Arrival < last.UnixMicro():
			passed++
		}
	})
	if err != nil {
		return err
	}
	if v.uncleaned > 0 {
		return nil // the clean-up to come takes away what is settled and puts who was refused a seat under review
	}
	if passed > 0 {
		v.find(3, PassedOver, passed, "%d active users still waiting came before the last who got a seat", passed)
	}
	if takenBack > 0 {
		v.find(6, CleanUpToDo, takenBack, "%d applications stand under review although their NOT_SELECTED was not taken back; the next `settle run` clears the DLQ", takenBack)
	}
	if standingStill > 0 {
		v.find(6, StillStanding, standingStill, "%d applications still stand in Redis although they are settled and cleaned up", standingStill)
	}
	return nil
}

// maxAhead is how far the line may run ahead of the Redis clock before nothing is accepted any more.
const maxAhead = 5 * time.Second

// checkPromises: invariants 4 and 5.
func (l *Ledger) checkPromises(f candidates.Figures, v *Verdict) {
	v.Gap = v.Account.Gap()
	switch {
	case v.Gap > 0:
		v.find(4, PromiseLost, v.Gap, "%d promises lost: %s", v.Gap, v.Account)
	case v.Gap < 0:
		v.find(4, Excess, -v.Gap, "%d applications that nobody promised: %s", -v.Gap, v.Account)
	}
	highest := max(f.Highest, v.lastIssued)
	if next := max(v.Account.LastArrival+1, f.Now.UnixMicro()); highest >= next {
		v.find(5, LineRewound, 1, "arrival %d stands in line or got a seat, but the next could be %d", highest, next)
	}
	if ahead := time.UnixMicro(v.Account.LastArrival).Sub(f.Now); ahead > maxAhead {
		v.find(5, ClockAhead, 1, "the line runs %s ahead of the Redis clock: nothing is accepted until it has caught up", ahead.Round(time.Millisecond))
	}
}
