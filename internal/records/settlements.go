package records

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Settlement is what a settlement row says about the transaction that issues.
type Settlement struct {
	Issued, UnderReview, Rejected, AlreadyIssued int

	First, Last coupon.Arrival      // of the issued applications; 0 if there are none
	FirstRow    coupon.UserCouponID // not above the id of any row that the settlement inserted, for the relay; 0 if there are none
	Digest      string              // of the issued applications; ignored if there are none
}

const insertSettlementSQL = `
INSERT INTO settlement (run_id, coupon_id, issued_count, under_review_count, ended_count, already_issued_count,
                        first_arrival, last_arrival, first_user_coupon_id, winners_digest, settled_at)
VALUES `

const settlementRow = "(?, ?, ?, ?, ?, ?, IF(? = 0, NULL, ?), IF(? = 0, NULL, ?), NULLIF(?, 0), IF(? = 0, NULL, ?), ?)"

func InsertSettlement(ctx context.Context, tx *sql.Tx, run Run, couponID coupon.CouponID, s Settlement) error {
	row := []any{run.ID, couponID, s.Issued, s.UnderReview, s.Rejected, s.AlreadyIssued, s.Issued, s.First, s.Issued, s.Last, s.FirstRow, s.Issued, s.Digest, run.At}
	_, err := mysqltx.Together(ctx, tx, "insert settlement", row, func(ctx context.Context, q mysqltx.Querier, rows [][]any) ([]struct{}, error) {
		err := mysqltx.Exec(ctx, q, len(rows), insertSettlementSQL+mysqltx.List(settlementRow, len(rows)), slices.Concat(rows...)...)
		return make([]struct{}, len(rows)), err
	})
	return mysqltx.Wrap(err, "record settlement of coupon %d", couponID)
}

const addOutcomesSQL = `
INSERT INTO settlement (run_id, coupon_id, under_review_count, already_issued_count, not_selected_count, settled_at) VALUES %s
ON DUPLICATE KEY UPDATE under_review_count = VALUES(under_review_count),
                        already_issued_count = already_issued_count + VALUES(already_issued_count),
                        not_selected_count = not_selected_count + VALUES(not_selected_count), cleaned_at = NULL`

// AddOutcomes adds the outcomes of a page to the settlement row, in the transaction that records the outcomes. underReview is not
// added: it counts all applications that the settlement has decided to move to the DLQ so far, so that a repetition after a lost
// reply to COMMIT does not count them twice.
func AddOutcomes(ctx context.Context, tx *sql.Tx, run Run, couponID coupon.CouponID, underReview, alreadyIssued, notSelected int) error {
	err := mysqltx.UpsertRow(ctx, tx, "add outcomes", addOutcomesSQL, run.ID, couponID, underReview, alreadyIssued, notSelected, run.At)
	return mysqltx.Wrap(err, "record outcomes of coupon %d", couponID)
}

const completeSettlementSQL = `
INSERT INTO settlement (run_id, coupon_id, under_review_count, settled_at, cleaned_at) VALUES %s
ON DUPLICATE KEY UPDATE under_review_count = VALUES(under_review_count), cleaned_at = COALESCE(cleaned_at, VALUES(cleaned_at))`

// CompleteSettlement is MarkCleaned for a settlement of the current run, which has its row. A group does it in one statement.
func CompleteSettlement(ctx context.Context, q mysqltx.Querier, run Run, couponID coupon.CouponID, underReview int, at time.Time) error {
	err := mysqltx.UpsertRow(ctx, q, "complete settlement", completeSettlementSQL, run.ID, couponID, underReview, run.At, at)
	return mysqltx.Wrap(err, "complete record of coupon %d", couponID)
}

const selectSettlementSQL = `
SELECT coupon_id, issued_count, under_review_count, already_issued_count, not_selected_count FROM settlement WHERE run_id = ? AND coupon_id IN `

// Outcomes are numbers of applications by outcome.
type Outcomes struct{ Issued, UnderReview, AlreadyIssued, NotSelected int }

// FindSettlement reads the outcomes that a settlement row counts.
func FindSettlement(ctx context.Context, q mysqltx.Querier, run coupon.RunID, couponID coupon.CouponID) (o Outcomes, found bool, err error) {
	type row struct {
		Outcomes
		coupon coupon.CouponID
	}
	rows, err := mysqltx.Together(ctx, q, "find settlement", couponID, func(ctx context.Context, q mysqltx.Querier, ids []coupon.CouponID) ([][]row, error) {
		found, err := mysqltx.Collect(ctx, q, func(r *row) []any {
			return []any{&r.coupon, &r.Issued, &r.UnderReview, &r.AlreadyIssued, &r.NotSelected}
		},
			selectSettlementSQL+mysqltx.In(len(ids)), mysqltx.Args(ids, run)...)
		return mysqltx.GroupBy(ids, found, func(r row) coupon.CouponID { return r.coupon }), err
	})
	if err != nil || len(rows) == 0 {
		return Outcomes{}, false, mysqltx.Wrap(err, "read record of coupon %d", couponID)
	}
	return rows[0].Outcomes, true, nil
}

// Pending is a run whose settled applications may still be in Redis.
type Pending struct {
	Run     coupon.RunID
	Covered bool // the current run reads every application that it left

	coupon coupon.CouponID
}

const selectPendingSQL = `
SELECT s.coupon_id, s.run_id, r.cutoff <= ? AND (r.trigger_kind = 'IMMEDIATE' OR NOT ?) FROM settlement s JOIN settlement_run r ON r.id = s.run_id
WHERE s.coupon_id IN %s AND s.cleaned_at IS NULL ORDER BY s.run_id`

// PendingCleanUps reads the runs whose clean-up of the coupon is pending. A run covers those whose cutoff is not later than
// its own. An immediate run does not read the DLQ, where other runs may have left applications: it covers immediate runs.
func PendingCleanUps(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, cutoff time.Time, immediate bool) ([]Pending, error) {
	pending, err := mysqltx.Together(ctx, tx, "pending clean-ups", couponID, func(ctx context.Context, q mysqltx.Querier, ids []coupon.CouponID) ([][]Pending, error) {
		found, err := mysqltx.Collect(ctx, q, func(p *Pending) []any { return []any{&p.coupon, &p.Run, &p.Covered} },
			fmt.Sprintf(selectPendingSQL, mysqltx.In(len(ids))), mysqltx.Args(ids, cutoff, immediate)...)
		return mysqltx.GroupBy(ids, found, func(p Pending) coupon.CouponID { return p.coupon }), err
	})
	return pending, mysqltx.Wrap(err, "read settlements to clean up of coupon %d", couponID)
}

const markCleanedSQL = "UPDATE settlement SET under_review_count = ?, cleaned_at = COALESCE(cleaned_at, ?) WHERE run_id = ? AND coupon_id = ?"

// MarkCleaned ends the clean-up of a settlement. underReview counts the applications that its run has moved to the DLQ. It may be
// repeated.
func MarkCleaned(ctx context.Context, q mysqltx.Querier, run coupon.RunID, couponID coupon.CouponID, underReview int, at time.Time) error {
	err := mysqltx.ExecSingly(ctx, q, 1, markCleanedSQL, underReview, at, run, couponID)
	return mysqltx.Wrap(err, "mark coupon %d of run %d clean", couponID, run)
}

const rejectReviewedSQL = `
UPDATE settlement SET under_review_count = under_review_count - 1, ended_count = ended_count + 1 WHERE run_id = ? AND coupon_id = ?`

// RejectReviewed counts an application as rejected that the settlement row counts as moved to the DLQ.
func RejectReviewed(ctx context.Context, tx *sql.Tx, run coupon.RunID, couponID coupon.CouponID) error {
	return mysqltx.Wrap(mysqltx.ExecSingly(ctx, tx, 1, rejectReviewedSQL, run, couponID), "count rejection of coupon %d", couponID)
}
