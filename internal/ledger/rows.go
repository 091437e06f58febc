package ledger

import (
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
)

// seatsWrongSQL: coupons of runs without a seat; seats that somebody else has, too, by whichever run or hand; seats above all
// that there are. Whoever is given a coupon by hand need have no seat. NULLIF takes those without one out.
const seatsWrongSQL = `
SELECT COALESCE(SUM(run_id IS NOT NULL AND position = 0), 0)
     + COUNT(NULLIF(position, 0)) - COUNT(DISTINCT NULLIF(position, 0))
     + COALESCE(SUM(position > ?), 0)
FROM user_coupon WHERE coupon_id = ?`

// checkSeats: invariant 1. Runs give seats behind all that are issued, so that no two runs can give one.
func (l *Ledger) checkSeats(ctx context.Context, tx *sql.Tx, _ candidates.Figures, v *Verdict) error {
	var wrong int64
	// Where more coupons are issued than there are seats, that is what is wrong.
	if err := tx.QueryRowContext(ctx, seatsWrongSQL, max(v.TotalQuantity, v.Coupons), v.Coupon).Scan(&wrong); err != nil {
		return err
	}
	if wrong > 0 {
		v.find(1, SeatWrong, wrong, "%d coupons have no seat, the seat of another, or one above the %d seats", wrong, v.TotalQuantity)
	}
	return nil
}

// validityWrongSQL: a run issues all its coupons at its start, for the coupon's days of validity.
const validityWrongSQL = `
SELECT COUNT(*) FROM user_coupon c LEFT JOIN settlement_run r ON r.id = c.run_id
WHERE c.coupon_id = ? AND c.run_id IS NOT NULL
  AND (c.issued_at <> r.started_at OR c.expires_at IS NULL OR c.expires_at <> c.issued_at + INTERVAL ? DAY)`

// outcomesAlteredSQL: what every run records is of the run, at its start; a reason tells why somebody was rejected, and nothing
// else; what is no user is only ever rejected; and whoever was told ALREADY_ISSUED holds the coupon.
const outcomesAlteredSQL = `
SELECT COUNT(*) FROM application_outcome o LEFT JOIN settlement_run r ON r.id = o.run_id
WHERE o.coupon_id = ? AND (o.run_id IS NULL OR o.recorded_at <> r.started_at
	OR (o.outcome = 'REJECTED') = (LENGTH(o.reason) = 0)
	OR o.user_id = 0 AND o.outcome <> 'REJECTED'
	OR o.outcome = 'ALREADY_ISSUED' AND NOT EXISTS (SELECT 1 FROM user_coupon c WHERE c.coupon_id = o.coupon_id AND c.user_id = o.user_id))`

const recordTimesSQL = `
SELECT COUNT(*) FROM settlement s JOIN settlement_run r ON r.id = s.run_id WHERE s.coupon_id = ? AND s.settled_at <> r.started_at`

// checkRows: invariant 6. What a run writes down of each row follows from the run and the coupon.
func (l *Ledger) checkRows(ctx context.Context, tx *sql.Tx, _ candidates.Figures, v *Verdict) error {
	var validity, outcomes, records int64
	if err := tx.QueryRowContext(ctx, validityWrongSQL, v.Coupon, v.row.validityDays).Scan(&validity); err != nil {
		return err
	}
	if validity > 0 {
		v.find(6, ValidityWrong, validity, "%d coupons were not issued when their run began, or do not expire %d days later", validity, v.row.validityDays)
	}
	if err := tx.QueryRowContext(ctx, outcomesAlteredSQL, v.Coupon).Scan(&outcomes); err != nil {
		return err
	}
	if outcomes > 0 {
		v.find(6, OutcomeWrong, outcomes, "%d outcomes are not as any run records them: their run, time, user or reason does not fit", outcomes)
	}
	if err := tx.QueryRowContext(ctx, recordTimesSQL, v.Coupon).Scan(&records); err != nil {
		return err
	}
	if records > 0 {
		v.find(6, RecordWrong, 0, "%d records of settlements bear another time than their run", records)
	}
	return nil
}

const notSelectedSQL = "SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED'"

// checkKept: invariants 4 and 6. Whoever stands in line is looked for by a run, and whoever is under review is kept, with a reason.
func (l *Ledger) checkKept(ctx context.Context, tx *sql.Tx, f candidates.Figures, v *Verdict) error {
	kept, err := l.Store.Inspect(ctx, v.Coupon)
	if err != nil {
		return err
	}
	switch {
	case kept.Unexplained > 0:
		v.find(6, ReasonMissing, kept.Unexplained, "%d of %d applications under review have no readable reason", kept.Unexplained, kept.DLQ)
	case kept.DLQ != kept.Reasons:
		v.find(6, ReasonMissing, kept.DLQ-kept.Reasons, "%d applications are under review, and there are reasons for %d", kept.DLQ, kept.Reasons)
	}
	if kept.ReviewLife >= 0 {
		v.find(4, Expiring, kept.DLQ, "%d applications are under review, and Redis lets them or their reasons go in %s", kept.DLQ, kept.ReviewLife)
	}
	if promised := min(f.Highest, f.Now.UnixMicro()) + (candidates.MinTTL - time.Minute).Microseconds(); f.Waiting > 0 && kept.QueueLife >= 0 &&
		kept.Now.Add(kept.QueueLife).UnixMicro() < promised {
		v.find(4, Expiring, f.Waiting, "%d applications wait, and Redis lets them go in %s: less than %s after the last applied", f.Waiting, kept.QueueLife, candidates.MinTTL)
	}
	a := v.Account
	standing := a.Waiting + a.UnderReview - a.Twice
	if standing > 0 && v.row.opens.After(f.Now.Add(maxAhead)) {
		v.find(4, NeverSettled, standing, "%d applications stand in line, but the coupon opens only at %s: no run looks for them before", standing, stamp(v.row.opens))
	}
	if !v.row.finalised.Valid {
		return nil
	}
	if standing > 0 {
		v.find(4, NeverSettled, standing, "%d applications stand in line, but the coupon is finalised: no nightly run settles it", standing)
	}
	if v.row.closes.After(f.Now.Add(maxAhead)) {
		v.find(4, NeverSettled, 1, "the coupon is finalised, but closes only at %s: no nightly run settles whoever applies", stamp(v.row.closes))
	}
	var notSelected int64
	if err := tx.QueryRowContext(ctx, notSelectedSQL, v.Coupon).Scan(&notSelected); err != nil {
		return err
	}
	if free := v.TotalQuantity - v.Coupons; free > 0 && notSelected > 0 {
		v.find(4, NeverSettled, min(free, notSelected), "%d seats are free and %d applications were not selected, but the coupon is finalised: no nightly run gives them", free, notSelected)
	}
	return nil
}
