package ledger

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const pendingCleanupSQL = "SELECT COUNT(*) FROM settlement WHERE coupon_id = ? AND cleaned_at IS NULL"

// checkCleanup: invariant 6.
func (c *check) checkCleanup(ctx context.Context) (err error) {
	c.pendingCleanup, err = c.number(ctx, pendingCleanupSQL, c.Coupon)
	c.findAny(6, CleanUpToDo, c.pendingCleanup, "%d settlement{|s} {is|are} not cleaned up in Redis; the next `settle run` does it")
	return err
}

const unrecordedSQL = `
SELECT (SELECT COUNT(*) FROM user_coupon c WHERE c.coupon_id = ? AND c.run_id IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM settlement s WHERE s.run_id = c.run_id AND s.coupon_id = c.coupon_id))
     + (SELECT COUNT(*) FROM application_outcome o WHERE o.coupon_id = ? AND o.run_id IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM settlement s WHERE s.run_id = o.run_id AND s.coupon_id = o.coupon_id))`

const runMissingSQL = `
SELECT COUNT(*) FROM settlement s LEFT JOIN settlement_run r ON r.id = s.run_id WHERE s.coupon_id = ? AND r.id IS NULL`

// outcomesWrongSQL: the rows of ALREADY_ISSUED are as many as recorded. Those of NOT_SELECTED and REJECTED can be fewer, because
// later runs replace them and DLQ entries count as rejected, but never more.
const outcomesWrongSQL = `
SELECT COUNT(*) FROM settlement s LEFT JOIN (
	SELECT run_id, SUM(outcome = 'ALREADY_ISSUED') AS already, SUM(outcome = 'NOT_SELECTED') AS not_selected, SUM(outcome = 'REJECTED') AS rejected
	FROM application_outcome WHERE coupon_id = ? AND run_id IS NOT NULL GROUP BY run_id
) o ON o.run_id = s.run_id
WHERE s.coupon_id = ? AND (s.already_issued_count <> COALESCE(o.already, 0) OR s.not_selected_count < COALESCE(o.not_selected, 0)
	OR s.rejected_count < COALESCE(o.rejected, 0) OR s.read_count < s.issued_count)`

// checkRows: invariant 6. Coupons and outcomes have a record of their run, and records have a run.
func (c *check) checkRows(ctx context.Context) error {
	id := c.Coupon
	return c.apply(ctx,
		rule{6, RecordMissing, "%d coupon{|s} or outcome{|s} {is|are} of a run without a record of this coupon", unrecordedSQL, []any{id, id}},
		rule{6, RunMissing, "%d record{|s} {is|are} of a run that does not exist", runMissingSQL, []any{id}},
		rule{6, RecordWrong, "%d record{|s} {differs|differ} from the outcomes of {its|their} run", outcomesWrongSQL, []any{id, id}})
}

// record sums up the coupons of a run.
type record struct {
	run         coupon.RunID
	issued      uint64
	first, last coupon.Arrival
	digest      string
}

const recordsSQL = `
SELECT run_id, issued_count, COALESCE(first_arrival, 0), COALESCE(last_arrival, 0), COALESCE(winners_digest, '')
FROM settlement WHERE coupon_id = ? ORDER BY run_id`

// checkRecords: invariant 6. Each record matches the coupons of its run.
func (c *check) checkRecords(ctx context.Context) error {
	records, err := mysqltx.Collect(ctx, c.tx, func(r *record) []any {
		return []any{&r.run, &r.issued, &r.first, &r.last, &r.digest}
	}, recordsSQL, c.Coupon)
	if err != nil {
		return err
	}
	for _, r := range records {
		found, gap, err := c.recompute(ctx, r.run)
		if err != nil {
			return err
		}
		if gap && found.issued == r.issued {
			c.find(1, SeatWrong, 1, "run %d left a seat free between two seats that it issued", r.run)
		}
		if found != r {
			c.find(6, RecordWrong, int64(r.issued)-int64(found.issued), "run %d recorded %d coupon{|s}, arrivals %d to %d, %s; user_coupon has %d, arrivals %d to %d, %s",
				r.run, r.issued, r.first, r.last, r.digest, found.issued, found.first, found.last, found.digest)
		}
	}
	return nil
}

const winnersSQL = "SELECT user_id, applied_at, position FROM user_coupon WHERE coupon_id = ? AND run_id = ? ORDER BY position, user_id"

// recompute sums up the coupons of a run. gap reports that their seats are distinct but not consecutive.
func (c *check) recompute(ctx context.Context, run coupon.RunID) (r record, gap bool, err error) {
	r.run = run
	hash := sha256.New()
	var previous int64 // seat
	distinct := true
	err = mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
		var user coupon.UserID
		var appliedAt sql.NullTime
		var seat int64
		if err := rows.Scan(&user, &appliedAt, &seat); err != nil {
			return err
		}
		distinct = distinct && seat > previous // and no seat is 0
		gap = gap || r.issued > 0 && seat > previous+1
		previous = seat
		fmt.Fprintf(hash, "%d\n", user)
		r.last = coupon.ArrivalAt(appliedAt.Time)
		if r.issued == 0 {
			r.first = r.last
		}
		r.issued++
		return nil
	}, winnersSQL, c.Coupon, run)
	if r.issued > 0 {
		r.digest = "sha256:" + hex.EncodeToString(hash.Sum(nil))
	}
	return r, gap && distinct, err
}

const holdersSQL = "SELECT COUNT(*), COUNT(DISTINCT user_id) FROM user_coupon WHERE coupon_id = ?"

const settledTwiceSQL = `
SELECT COUNT(*) FROM application_outcome o
JOIN user_coupon c ON c.coupon_id = o.coupon_id AND c.user_id = o.user_id AND c.applied_at = o.applied_at AND c.run_id IS NOT NULL
WHERE o.coupon_id = ?`

// seatsWrongSQL counts coupons of runs without a seat, seats of more than one coupon, and seats above a number. A coupon by
// hand needs no seat; NULLIF leaves position 0 out.
const seatsWrongSQL = `
SELECT COALESCE(SUM(run_id IS NOT NULL AND position = 0), 0)
     + COUNT(NULLIF(position, 0)) - COUNT(DISTINCT NULLIF(position, 0))
     + COALESCE(SUM(position > ?), 0)
FROM user_coupon WHERE coupon_id = ?`

// checkIssued: invariants 1 and 2. There are no more coupons than seats, one for each user, one for each seat.
func (c *check) checkIssued(ctx context.Context) error {
	var users int64
	if err := c.tx.QueryRowContext(ctx, holdersSQL, c.Coupon).Scan(&c.Coupons, &users); err != nil {
		return err
	}
	c.findAny(1, Oversold, c.Coupons-c.TotalQuantity, "%d coupon{|s} too many: %d for %d seat{|s}", c.Coupons, c.TotalQuantity)
	if c.Coupons != c.IssuedCount {
		c.find(1, CountWrong, c.IssuedCount-c.Coupons, "issued_count is %d, but user_coupon has %d row{|s}", c.IssuedCount, c.Coupons)
	}
	c.findAny(2, HeldTwice, c.Coupons-users, "%d coupon{|s} too many: %d for %d user{|s}", c.Coupons, users)
	seats := max(c.TotalQuantity, c.Coupons) // OVERSOLD is a finding of its own
	return c.apply(ctx,
		rule{2, SettledTwice, "%d application{|s} {has|have} both a coupon and another outcome", settledTwiceSQL, []any{c.Coupon}},
		rule{1, SeatWrong, fmt.Sprintf("%%d coupon{|s} {has|have} no seat, the seat of another coupon, or a seat above %d", c.TotalQuantity), seatsWrongSQL, []any{seats, c.Coupon}})
}

// validityWrongSQL: a coupon is issued at the start of its run and expires after the coupon's days of validity.
const validityWrongSQL = `
SELECT COUNT(*) FROM user_coupon c LEFT JOIN settlement_run r ON r.id = c.run_id
WHERE c.coupon_id = ? AND c.run_id IS NOT NULL
  AND (c.issued_at <> r.started_at OR c.expires_at IS NULL OR c.expires_at <> c.issued_at + INTERVAL ? DAY)`

// outcomesAlteredSQL: an outcome has a run, and the start of the run as its time. REJECTED alone has a reason. A member that is
// no user id is always REJECTED. A user with ALREADY_ISSUED holds the coupon.
const outcomesAlteredSQL = `
SELECT COUNT(*) FROM application_outcome o LEFT JOIN settlement_run r ON r.id = o.run_id
WHERE o.coupon_id = ? AND (o.run_id IS NULL OR o.recorded_at <> r.started_at
	OR (o.outcome = 'REJECTED') = (LENGTH(o.reason) = 0)
	OR o.user_id = 0 AND o.outcome <> 'REJECTED'
	OR o.outcome = 'ALREADY_ISSUED' AND NOT EXISTS (SELECT 1 FROM user_coupon c WHERE c.coupon_id = o.coupon_id AND c.user_id = o.user_id))`

const recordTimesSQL = `
SELECT COUNT(*) FROM settlement s JOIN settlement_run r ON r.id = s.run_id WHERE s.coupon_id = ? AND s.settled_at <> r.started_at`

// checkRunRows: invariant 6. The columns of the rows that a run writes follow from the run and the coupon.
func (c *check) checkRunRows(ctx context.Context) error {
	days := c.row.validityDays
	return c.apply(ctx,
		rule{6, ValidityWrong, fmt.Sprintf("%%d coupon{|s} {was|were} not issued at the start of {its|their} run, or {does|do} not expire %d days later", days), validityWrongSQL, []any{c.Coupon, days}},
		rule{6, OutcomeWrong, "%d outcome{|s} {has|have} a run, time, user or reason that no run records", outcomesAlteredSQL, []any{c.Coupon}},
		rule{6, RecordWrong, "%d record{|s} {has|have} another time than {its|their} run", recordTimesSQL, []any{c.Coupon}})
}
