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
	if c.pendingCleanup, err = c.number(ctx, pendingCleanupSQL, c.Coupon); err != nil {
		return err
	}
	if n := c.pendingCleanup; n > 0 {
		c.find(6, CleanUpToDo, n, "Redis has not been told of %d settlements; the next `settle run` does it", n)
	}
	return nil
}

const unrecordedSQL = `
SELECT (SELECT COUNT(*) FROM user_coupon c WHERE c.coupon_id = ? AND c.run_id IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM settlement s WHERE s.run_id = c.run_id AND s.coupon_id = c.coupon_id))
     + (SELECT COUNT(*) FROM application_outcome o WHERE o.coupon_id = ? AND o.run_id IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM settlement s WHERE s.run_id = o.run_id AND s.coupon_id = o.coupon_id))`

const runMissingSQL = `
SELECT COUNT(*) FROM settlement s LEFT JOIN settlement_run r ON r.id = s.run_id WHERE s.coupon_id = ? AND r.id IS NULL`

// outcomesWrongSQL: ALREADY_ISSUED stays as recorded. NOT_SELECTED and REJECTED may become fewer rows, because later runs
// replace them and DLQ entries are counted as rejected; they never become more.
const outcomesWrongSQL = `
SELECT COUNT(*) FROM settlement s LEFT JOIN (
	SELECT run_id, SUM(outcome = 'ALREADY_ISSUED') AS already, SUM(outcome = 'NOT_SELECTED') AS not_selected, SUM(outcome = 'REJECTED') AS rejected
	FROM application_outcome WHERE coupon_id = ? AND run_id IS NOT NULL GROUP BY run_id
) o ON o.run_id = s.run_id
WHERE s.coupon_id = ? AND (s.already_issued_count <> COALESCE(o.already, 0) OR s.not_selected_count < COALESCE(o.not_selected, 0)
	OR s.rejected_count < COALESCE(o.rejected, 0) OR s.read_count < s.issued_count)`

// checkRows: invariant 6. Coupons and outcomes of runs have records, and records have runs.
func (c *check) checkRows(ctx context.Context) error {
	id := c.Coupon
	return c.apply(ctx,
		rule{6, RecordMissing, "%d coupons or outcomes name a run that has no record of settling this coupon", unrecordedSQL, []any{id, id}},
		rule{6, RunMissing, "%d settlements name a run that never was", runMissingSQL, []any{id}},
		rule{6, RecordWrong, "%d runs recorded other counts of outcomes than are there", outcomesWrongSQL, []any{id, id}})
}

// record is what a run recorded of its coupons.
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
	for _, said := range records {
		found, gap, err := c.recompute(ctx, said.run)
		if err != nil {
			return err
		}
		if gap && found.issued == said.issued {
			c.find(1, SeatWrong, 1, "run %d left out seats between those that it gave", said.run)
		}
		if found != said {
			c.find(6, RecordWrong, int64(said.issued)-int64(found.issued), "run %d recorded %d coupons from arrival %d to %d, %s; found are %d from %d to %d, %s",
				said.run, said.issued, said.first, said.last, said.digest, found.issued, found.first, found.last, found.digest)
		}
	}
	return nil
}

const winnersSQL = "SELECT user_id, applied_at, position FROM user_coupon WHERE coupon_id = ? AND run_id = ? ORDER BY position, user_id"

// recompute is the record that the coupons of a run add up to. gap reports that its seats are distinct but not consecutive.
func (c *check) recompute(ctx context.Context, run coupon.RunID) (r record, gap bool, err error) {
	r.run = run
	hash := sha256.New()
	var before int64 // the seat before
	distinct := true
	err = mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
		var user coupon.UserID
		var appliedAt sql.NullTime
		var seat int64
		if err := rows.Scan(&user, &appliedAt, &seat); err != nil {
			return err
		}
		distinct = distinct && seat > before // and no seat is 0
		gap = gap || r.issued > 0 && seat > before+1
		before = seat
		fmt.Fprintf(hash, "%d\n", user)
		r.last = appliedAt.Time.UnixMicro()
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

// seatsWrongSQL counts coupons of runs without a seat, seats of more than one coupon, and seats above a number. A coupon
// that was given by hand needs no seat; NULLIF leaves position 0 out.
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
	if c.Coupons > c.TotalQuantity {
		c.find(1, Oversold, c.Coupons-c.TotalQuantity, "%d coupons for %d seats", c.Coupons, c.TotalQuantity)
	}
	if c.Coupons != c.IssuedCount {
		c.find(1, CountWrong, c.IssuedCount-c.Coupons, "issued_count says %d, there are %d coupons", c.IssuedCount, c.Coupons)
	}
	if users != c.Coupons {
		c.find(2, HeldTwice, c.Coupons-users, "%d coupons for %d users", c.Coupons, users)
	}
	seats := max(c.TotalQuantity, c.Coupons) // an oversold coupon is reported as such
	return c.apply(ctx,
		rule{2, SettledTwice, "%d applications have both a coupon and another outcome", settledTwiceSQL, []any{c.Coupon}},
		rule{1, SeatWrong, fmt.Sprintf("%%d coupons have no seat, the seat of another, or one above the %d seats", c.TotalQuantity), seatsWrongSQL, []any{seats, c.Coupon}})
}

// validityWrongSQL: a run issues all its coupons at its start, for the coupon's days of validity.
const validityWrongSQL = `
SELECT COUNT(*) FROM user_coupon c LEFT JOIN settlement_run r ON r.id = c.run_id
WHERE c.coupon_id = ? AND c.run_id IS NOT NULL
  AND (c.issued_at <> r.started_at OR c.expires_at IS NULL OR c.expires_at <> c.issued_at + INTERVAL ? DAY)`

// outcomesAlteredSQL: an outcome has a run and its start as time. REJECTED alone has a reason. A member that is no user is
// only ever REJECTED. A user with ALREADY_ISSUED holds the coupon.
const outcomesAlteredSQL = `
SELECT COUNT(*) FROM application_outcome o LEFT JOIN settlement_run r ON r.id = o.run_id
WHERE o.coupon_id = ? AND (o.run_id IS NULL OR o.recorded_at <> r.started_at
	OR (o.outcome = 'REJECTED') = (LENGTH(o.reason) = 0)
	OR o.user_id = 0 AND o.outcome <> 'REJECTED'
	OR o.outcome = 'ALREADY_ISSUED' AND NOT EXISTS (SELECT 1 FROM user_coupon c WHERE c.coupon_id = o.coupon_id AND c.user_id = o.user_id))`

const recordTimesSQL = `
SELECT COUNT(*) FROM settlement s JOIN settlement_run r ON r.id = s.run_id WHERE s.coupon_id = ? AND s.settled_at <> r.started_at`

// checkRunRows: invariant 6. The fields of a run's rows follow from the run and the coupon.
func (c *check) checkRunRows(ctx context.Context) error {
	days := c.row.validityDays
	return c.apply(ctx,
		rule{6, ValidityWrong, fmt.Sprintf("%%d coupons were not issued when their run began, or do not expire %d days later", days), validityWrongSQL, []any{c.Coupon, days}},
		rule{6, OutcomeWrong, "%d outcomes are not as any run records them: their run, time, user or reason does not fit", outcomesAlteredSQL, []any{c.Coupon}},
		rule{6, RecordWrong, "%d records of settlements bear another time than their run", recordTimesSQL, []any{c.Coupon}})
}
