package verify

import (
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// issuedSQL reads everything in one pass. The last column counts the coupons that runs issued without
// a seat, or with the seat of another coupon. Position 0 means no seat, which is right for a coupon given by hand;
// NULLIF leaves it out.
const issuedSQL = `
SELECT COUNT(*), COUNT(DISTINCT user_id), MAX(IF(run_id IS NULL, NULL, applied_at)), COUNT(run_id),
       COALESCE(SUM(run_id IS NOT NULL AND position = 0), 0) + COUNT(NULLIF(position,
         0)) - COUNT(DISTINCT NULLIF(position, 0)), COALESCE(MAX(position), 0)
FROM user_coupon WHERE coupon_id = ?`

// checkIssued checks invariants 1 and 2: there are no more coupons than seats, and no user has two.
func (c *check) checkIssued(ctx context.Context) error {
	var users, wrong, highest int64
	var last sql.NullTime
	if err := c.tx.QueryRowContext(ctx, issuedSQL, c.Coupon).Scan(&c.Coupons, &users, &last, &c.byRuns, &wrong,
		&highest); err != nil {
		return err
	}
	if seats := max(c.TotalQuantity, c.Coupons); highest > seats { // if coupons are oversold, that is found below
		above, err := c.number(ctx, seatsAboveSQL, c.Coupon, seats)
		if err != nil {
			return err
		}
		wrong += above
	}
	if last.Valid {
		c.lastIssued = coupon.ArrivalAt(last.Time)
	}
	c.findAny(1, Oversold, c.Coupons-c.TotalQuantity, "coupons above the number of seats: %d; coupons %d, seats %d",
		c.Coupons, c.TotalQuantity)
	if c.Coupons != c.IssuedCount {
		c.find(1, CountWrong, c.IssuedCount-c.Coupons,
			"issued_count is %d, but the number of rows in user_coupon is %d", c.IssuedCount, c.Coupons)
	}
	c.findAny(1, SeatWrong, wrong,
		"coupons without a seat, with the seat of another coupon, or with a seat above %[2]d: %[1]d", c.TotalQuantity)
	c.findAny(2, HeldTwice, c.Coupons-users, "coupons beyond one for each user: %d; coupons %d, users %d", c.Coupons,
		users)
	return nil
}

const seatsAboveSQL = "SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND position > ?"

type rule struct {
	invariant int
	code      Code
	detail    string // text of the finding; %d stands for the count
	query     string
	args      []any
}

const (
	// unrecordedSQL and arrivalsWrongSQL add the outcomes to the coupons that checkRecords has counted.
	unrecordedSQL = `
SELECT ? + COUNT(*) FROM application_outcome o WHERE o.coupon_id = ?
AND NOT EXISTS (SELECT 1 FROM settlement s WHERE s.run_id = o.run_id AND s.coupon_id = o.coupon_id)`

	// settledAt is the time that run r writes into all its rows: its start, or a cutoff that comes after its start.
	settledAt = "GREATEST(r.started_at, r.cutoff)"

	// immediateWrongSQL counts immediate runs that did not end when they began, were to settle or settled another
	// coupon, too, or have a cutoff too far ahead of their start: both are of one clock. An arrival at or above the
	// cutoff is found in the rows, as for every run.
	immediateWrongSQL = `
SELECT COUNT(*) FROM settlement s JOIN settlement_run r ON r.id = s.run_id
WHERE s.coupon_id = ? AND r.trigger_kind = 'IMMEDIATE' AND (r.status <> 'SUCCEEDED' OR r.finished_at IS NULL
    OR r.coupons <> 1 OR r.cutoff > r.started_at + INTERVAL ? MICROSECOND
	OR EXISTS (SELECT 1 FROM settlement o WHERE o.run_id = r.id AND o.coupon_id <> s.coupon_id))`

	// outcomesWrongSQL: ALREADY_ISSUED outcomes are as many as recorded. NOT_SELECTED and REJECTED ones are not more.
	// REJECTED ones are fewer where users were forgotten, NOT_SELECTED ones also where other runs decided these
	// applications anew.
	outcomesWrongSQL = `
SELECT COUNT(*) FROM settlement s LEFT JOIN (
	SELECT run_id, SUM(outcome = 'ALREADY_ISSUED') AS already, SUM(outcome = 'NOT_SELECTED') AS not_selected,
		SUM(outcome = 'REJECTED') AS rejected
	FROM application_outcome WHERE coupon_id = ? GROUP BY run_id
) o ON o.run_id = s.run_id CROSS JOIN (
	SELECT COALESCE(MAX(erased), 0) AS erased, COALESCE(MAX(erased_rejected), 0) AS rejected FROM settled
		WHERE coupon_id = ?
) forgotten CROSS JOIN (
	SELECT SUM(read_count) AS anew FROM settlement WHERE coupon_id = ?
) runs
WHERE s.coupon_id = ? AND (s.already_issued_count <> COALESCE(o.already, 0)
	OR s.ended_count < COALESCE(o.rejected, 0) OR s.ended_count > COALESCE(o.rejected, 0) + forgotten.rejected
	OR s.not_selected_count < COALESCE(o.not_selected, 0)
	OR s.not_selected_count + s.read_count > COALESCE(o.not_selected, 0) + runs.anew + forgotten.erased)`

	// outcomesAlteredSQL: an outcome has the time of its run. A REJECTED outcome has a cause or a note, and no other
	// has one. A member that is no user id (user_id 0) is REJECTED, and alone is repeated. A user with ALREADY_ISSUED
	// has the coupon.
	outcomesAlteredSQL = `
SELECT COUNT(*) FROM application_outcome o LEFT JOIN settlement_run r ON r.id = o.run_id
WHERE o.coupon_id = ? AND (o.recorded_at <> ` + settledAt + `
	OR (o.outcome = 'REJECTED') = (o.cause IS NULL AND LENGTH(o.note) = 0)
	OR (o.user_id = 0) = (o.member IS NULL)
	OR o.user_id = 0 AND o.outcome <> 'REJECTED'
	OR o.outcome = 'ALREADY_ISSUED' AND NOT EXISTS (SELECT 1 FROM user_coupon c WHERE c.coupon_id = o.coupon_id
		AND c.user_id = o.user_id))`

	// unexplainedSQL counts coupons that are from no run and were not given by hand.
	unexplainedSQL = `
SELECT COUNT(*) FROM user_coupon u WHERE u.coupon_id = ? AND u.run_id IS NULL
AND NOT EXISTS (SELECT 1 FROM coupon_log l WHERE l.user_coupon_id = u.id AND l.kind = 'GRANTED')`

	settledTwiceSQL = `
SELECT COUNT(*) FROM application_outcome o
JOIN user_coupon c ON c.coupon_id = o.coupon_id AND c.user_id = o.user_id AND c.applied_at = o.applied_at
    AND c.run_id IS NOT NULL
WHERE o.coupon_id = ?`

	passedOverSQL = `
SELECT COUNT(*) FROM application_outcome o JOIN {users} ON {id} = o.user_id AND o.user_id <= {last} AND {active}
WHERE o.coupon_id = ? AND o.outcome = 'NOT_SELECTED' AND o.applied_at < ?`

	arrivalsWrongSQL = `
SELECT ? + COUNT(*) FROM application_outcome o JOIN settlement_run r ON r.id = o.run_id
WHERE o.coupon_id = ? AND o.outcome <> 'REJECTED' AND o.applied_at >= r.cutoff`
)

func (c *check) checkRows(ctx context.Context) error {
	directory, err := c.verifier.Users.Table(ctx, c.tx)
	if err != nil {
		return err
	}
	id := c.Coupon
	for _, r := range []rule{
		{6, RecordMissing, "coupons and outcomes of a run without a record of this coupon: %d", unrecordedSQL,
			[]any{c.seats.unrecorded, id}},
		{6, RunWrong, "immediate runs with another status than SUCCEEDED, without an end, with another coupon, or " +
			"with a cutoff more than 5 s after their start: %d",
			immediateWrongSQL, []any{id, (coupon.MaxAhead + time.Microsecond).Microseconds()}},
		{6, RecordWrong, "records that differ from the outcomes of their run: %d", outcomesWrongSQL,
			[]any{id, id, id, id}},
		{6, OutcomeWrong, "outcomes with a run, time, user or reason that no run records: %d", outcomesAlteredSQL,
			[]any{id}},
		{6, CouponUnexplained, "coupons that are from no run, and were not given by hand: %d", unexplainedSQL,
			[]any{id}},
		{2, SettledTwice, "applications with both a coupon and another outcome: %d", settledTwiceSQL, []any{id}},
		{3, PassedOver, "active users who are NOT_SELECTED, but arrived before the last user with a seat: %d",
			directory.SQL(passedOverSQL), []any{id, c.lastIssued.Time()}},
		{5, ArrivalWrong, "settled applications without an arrival before the cutoff of their run: %d",
			arrivalsWrongSQL, []any{c.seats.late, id}},
	} {
		n, err := c.number(ctx, r.query, r.args...)
		if err != nil {
			return err
		}
		count := n
		if r.code == RecordWrong {
			count = 0 // RECORD_WRONG counts missing coupons, and here none is missing
		}
		if n > 0 {
			c.find(r.invariant, r.code, count, r.detail, n)
		}
	}
	return nil
}
