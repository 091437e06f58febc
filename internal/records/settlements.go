package records

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Settlement is what a settlement row says about the transaction that issues.
type Settlement struct {
	Read, Issued, AlreadyIssued int
	Rejected                    int                 // rejected, or moved to the DLQ
	First, Last                 coupon.Arrival      // of the issued applications; 0 if there are none
	FirstRow                    coupon.UserCouponID // not above the id of any row that the settlement inserted; 0 if there are none
	Digest                      string              // of the issued applications; ignored if there are none
}

const insertSettlementSQL = `
INSERT INTO settlement (run_id, coupon_id, read_count, issued_count, rejected_count, already_issued_count,
                        first_arrival, last_arrival, first_user_coupon_id, winners_digest, settled_at)
VALUES (?, ?, ?, ?, ?, ?, NULLIF(?, 0), NULLIF(?, 0), NULLIF(?, 0), IF(? = 0, NULL, ?), ?)`

func InsertSettlement(ctx context.Context, tx *sql.Tx, run Run, couponID coupon.CouponID, s Settlement) error {
	err := mysqltx.Exec(ctx, tx, 1, insertSettlementSQL, run.ID, couponID, s.Read, s.Issued, s.Rejected, s.AlreadyIssued,
		s.First, s.Last, s.FirstRow, s.Issued, s.Digest, run.At)
	return mysqltx.Wrap(err, "record settlement of coupon %d", couponID)
}

const addOutcomesSQL = `
INSERT INTO settlement (run_id, coupon_id, already_issued_count, not_selected_count, settled_at) VALUES (?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE already_issued_count = already_issued_count + ?, not_selected_count = not_selected_count + ?,
                        cleaned_at = NULL`

// AddOutcomes adds the outcomes of a page to the settlement row, in the transaction that records the outcomes.
func AddOutcomes(ctx context.Context, tx *sql.Tx, run Run, couponID coupon.CouponID, alreadyIssued, notSelected int) error {
	err := mysqltx.Upsert(ctx, tx, addOutcomesSQL, run.ID, couponID, alreadyIssued, notSelected, run.At, alreadyIssued, notSelected)
	return mysqltx.Wrap(err, "record outcomes of coupon %d", couponID)
}

const completeSettlementSQL = `
INSERT INTO settlement (run_id, coupon_id, read_count, rejected_count, settled_at, cleaned_at) VALUES (?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE read_count = ?, rejected_count = ?, cleaned_at = COALESCE(cleaned_at, ?)`

// CompleteSettlement writes the numbers that are known at the end, and marks the settlement as cleaned up. rejected
// includes the applications moved to the DLQ.
func CompleteSettlement(ctx context.Context, q mysqltx.Querier, run Run, couponID coupon.CouponID, read, rejected int, at time.Time) error {
	err := mysqltx.Upsert(ctx, q, completeSettlementSQL, run.ID, couponID, read, rejected, run.At, at, read, rejected, at)
	return mysqltx.Wrap(err, "complete record of coupon %d", couponID)
}

const selectSettlementSQL = "SELECT issued_count, already_issued_count, not_selected_count FROM settlement WHERE run_id = ? AND coupon_id = ?"

// Outcomes are numbers of applications by outcome.
type Outcomes struct{ Issued, AlreadyIssued, NotSelected int }

// FindSettlement reads the outcomes that a settlement row counts.
func FindSettlement(ctx context.Context, q mysqltx.Querier, run coupon.RunID, couponID coupon.CouponID) (o Outcomes, found bool, err error) {
	err = q.QueryRowContext(ctx, selectSettlementSQL, run, couponID).Scan(&o.Issued, &o.AlreadyIssued, &o.NotSelected)
	if errors.Is(err, sql.ErrNoRows) {
		return Outcomes{}, false, nil
	}
	return o, err == nil, mysqltx.Wrap(err, "read record of coupon %d", couponID)
}

// Pending is a run whose settled applications may still be in Redis.
type Pending struct {
	Run     coupon.RunID
	Covered bool // the current run reads every application that it left
}

const selectPendingSQL = `
SELECT s.run_id, r.cutoff <= ? AND (r.trigger_kind = 'IMMEDIATE' OR NOT ?) FROM settlement s JOIN settlement_run r ON r.id = s.run_id
WHERE s.coupon_id = ? AND s.cleaned_at IS NULL ORDER BY s.run_id`

// PendingCleanUps reads the runs whose clean-up of the coupon is pending. A run covers those whose cutoff is not later than
// its own. An immediate run does not read the DLQ, where other runs may have left applications: it covers immediate runs.
func PendingCleanUps(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, cutoff time.Time, immediate bool) ([]Pending, error) {
	pending, err := mysqltx.Collect(ctx, tx, func(p *Pending) []any { return []any{&p.Run, &p.Covered} }, selectPendingSQL, cutoff, immediate, couponID)
	return pending, mysqltx.Wrap(err, "read settlements to clean up of coupon %d", couponID)
}

const markCleanedSQL = "UPDATE settlement SET cleaned_at = COALESCE(cleaned_at, ?) WHERE run_id = ? AND coupon_id = ?"

// MarkCleaned ends the clean-up of a settlement. It may be repeated.
func MarkCleaned(ctx context.Context, q mysqltx.Querier, run coupon.RunID, couponID coupon.CouponID, at time.Time) error {
	return mysqltx.Wrap(mysqltx.Exec(ctx, q, 1, markCleanedSQL, at, run, couponID), "mark coupon %d of run %d clean", couponID, run)
}
