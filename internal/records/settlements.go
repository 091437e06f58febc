package records

import (
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Settlement is what a settlement row says about the transaction that issues.
type Settlement struct {
	Issued, UnderReview, Rejected, AlreadyIssued int

	First, Last coupon.Arrival      // first and last issued arrival; 0 if none was issued
	FirstRow    coupon.UserCouponID // no row of the settlement has a lower id; the relay reads from it; 0 if none
	Digest      string              // digest of the issued applications; ignored if none was issued
}

const insertSettlementSQL = `
INSERT INTO settlement (run_id, coupon_id, issued_count, under_review_count, ended_count, already_issued_count,
                        first_arrival, last_arrival, first_user_coupon_id, winners_digest, settled_at)
VALUES (?, ?, ?, ?, ?, ?, IF(? = 0, NULL, ?), IF(? = 0, NULL, ?), NULLIF(?, 0), IF(? = 0, NULL, ?), ?)`

func InsertSettlement(ctx context.Context, tx *sql.Tx, run Run, couponID coupon.CouponID, s Settlement) error {
	err := mysqltx.Exec(ctx, tx, 1, insertSettlementSQL, run.ID, couponID, s.Issued, s.UnderReview, s.Rejected,
		s.AlreadyIssued, s.Issued, s.First, s.Issued, s.Last, s.FirstRow, s.Issued, s.Digest, run.At)
	return mysqltx.Wrap(err, "record settlement of coupon %d", couponID)
}

const addOutcomesSQL = `
INSERT INTO settlement (run_id, coupon_id, under_review_count, already_issued_count, not_selected_count, settled_at)
    VALUES (?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE under_review_count = VALUES(under_review_count),
                        already_issued_count = already_issued_count + VALUES(already_issued_count),
                        not_selected_count = not_selected_count + VALUES(not_selected_count), cleaned_at = NULL`

// AddOutcomes adds the outcomes of a page to the settlement row, in the transaction that records the outcomes.
// underReview is not added: it counts all applications that the settlement has decided to move to the DLQ so far. A
// repetition after a lost reply to COMMIT therefore does not count them twice.
func AddOutcomes(ctx context.Context, tx *sql.Tx, run Run, couponID coupon.CouponID, underReview, alreadyIssued,
	notSelected int) error {
	err := mysqltx.Upsert(ctx, tx, addOutcomesSQL, run.ID, couponID, underReview, alreadyIssued, notSelected, run.At)
	return mysqltx.Wrap(err, "record outcomes of coupon %d", couponID)
}

// Progress is how far a run has settled a coupon.
type Progress struct {
	// The run has a settlement row of the coupon, which has the counts.
	Recorded                                        bool
	Issued, UnderReview, AlreadyIssued, NotSelected int
	SeatsLeft                                       int // seats of the coupon that are free now
}

const selectProgressSQL = `
SELECT c.total_quantity, c.issued_count, s.run_id IS NOT NULL, COALESCE(s.issued_count, 0),
    COALESCE(s.under_review_count, 0),
       COALESCE(s.already_issued_count, 0), COALESCE(s.not_selected_count, 0)
FROM coupon c LEFT JOIN settlement s ON s.run_id = ? AND s.coupon_id = c.id WHERE c.id = ?`

// ReadProgress reads what a run has recorded of a coupon.
func ReadProgress(ctx context.Context, q mysqltx.Querier, run coupon.RunID,
	couponID coupon.CouponID) (p Progress, err error) {
	var c coupon.Coupon
	err = q.QueryRowContext(ctx, selectProgressSQL, run, couponID).Scan(&c.TotalQuantity, &c.IssuedCount,
		&p.Recorded, &p.Issued, &p.UnderReview, &p.AlreadyIssued, &p.NotSelected)
	p.SeatsLeft = c.Free()
	return p, mysqltx.Wrap(err, "read record of coupon %d", couponID)
}

// Pending is a run whose settled applications may still be in Redis.
type Pending struct {
	Run
	Cutoff  time.Time
	Covered bool // the current run reads every application that it left
}

const selectPendingSQL = `
SELECT s.run_id, s.settled_at, r.cutoff, r.cutoff <= ? AND (r.trigger_kind = 'IMMEDIATE' OR ?)
FROM settlement s JOIN settlement_run r ON r.id = s.run_id
WHERE s.coupon_id = ? AND s.cleaned_at IS NULL ORDER BY s.run_id`

// PendingCleanUps reads the runs whose clean-up of the coupon is pending, and whether the present run covers them:
// their cutoff is not later than its own. A run that does not read the DLQ covers immediate runs alone, because other
// runs may have left applications there.
func PendingCleanUps(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, cutoff time.Time,
	readsDLQ bool) ([]Pending, error) {
	pending, err := mysqltx.Collect(ctx, tx, func(p *Pending) []any {
		return []any{&p.ID, &p.At, &p.Cutoff, &p.Covered}
	}, selectPendingSQL, cutoff, readsDLQ, couponID)
	return pending, mysqltx.Wrap(err, "read settlements to clean up of coupon %d", couponID)
}

const markCleanedSQL = "UPDATE settlement SET under_review_count = ?, cleaned_at = COALESCE(cleaned_at, ?) WHERE " +
	"run_id = ? AND coupon_id = ?"

// MarkCleaned ends the clean-up of a settlement. underReview counts the applications that its run has moved to the DLQ.
// It may be repeated.
func MarkCleaned(ctx context.Context, q mysqltx.Querier, run coupon.RunID, couponID coupon.CouponID, underReview int,
	at time.Time) error {
	err := mysqltx.Exec(ctx, q, 1, markCleanedSQL, underReview, at, run, couponID)
	return mysqltx.Wrap(err, "mark coupon %d of run %d clean", couponID, run)
}

const rejectReviewedSQL = `
UPDATE settlement SET under_review_count = under_review_count - 1, ended_count = ended_count + 1 WHERE run_id = ?
    AND coupon_id = ?`

// RejectReviewed counts an application as rejected that the settlement row counts as moved to the DLQ.
func RejectReviewed(ctx context.Context, tx *sql.Tx, run coupon.RunID, couponID coupon.CouponID) error {
	return mysqltx.Wrap(mysqltx.Exec(ctx, tx, 1, rejectReviewedSQL, run, couponID), "count rejection of coupon %d",
		couponID)
}
