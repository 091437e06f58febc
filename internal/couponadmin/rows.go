package couponadmin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

// lock takes the coupon's row lock, which settlements take too.
func lock(ctx context.Context, tx *sql.Tx, id coupon.CouponID) (c coupon.Coupon, err error) {
	err = tx.QueryRowContext(ctx, coupon.LockSQL, id).Scan(c.FieldsWithPromise()...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return c, &coupon.Error{Class: coupon.Setup, Err: text.Errorf(text.NoSuchCoupon, id)}
	case err != nil:
		return c, fmt.Errorf("lock coupon %d: %w", id, err)
	}
	return c, nil
}

// facts are what a plan needs besides the coupon's row.
type facts struct {
	notSelected int  // users who wait for free seats
	holders     int  // rows of user_coupon
	swept       bool // the coupon was finalised once, and its Redis keys were deleted
	uncleaned   bool // a settlement is committed, and its results may not be in Redis yet
	marksLost   bool // Redis knows fewer holders and rejected users than MySQL; read only where operation.needsMarks
}

const factsSQL = `
SELECT (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED'),
       (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ?),
       EXISTS (SELECT 1 FROM audit_event WHERE coupon_id = ? AND action = '` + string(audit.CouponUnfinalised) + `'),
       EXISTS (SELECT 1 FROM settlement WHERE coupon_id = ? AND cleaned_at IS NULL)`

func readFacts(ctx context.Context, tx *sql.Tx, id coupon.CouponID) (f facts, err error) {
	if err := tx.QueryRowContext(ctx, factsSQL, id, id, id, id).Scan(&f.notSelected, &f.holders, &f.swept, &f.uncleaned); err != nil {
		return f, fmt.Errorf("read the outcomes of coupon %d: %w", id, err)
	}
	return f, nil
}

const markedSQL = `
SELECT (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL),
       (SELECT COUNT(DISTINCT user_id) FROM application_outcome WHERE coupon_id = ? AND outcome = 'REJECTED' AND user_id > 0)`

// marksLost compares the users that MySQL knows as holders or rejected with those that Redis refuses. Redis may have lost them,
// and its keys are deleted before the finalisation is committed.
func (a *Admin) marksLost(ctx context.Context, tx *sql.Tx, id coupon.CouponID) (bool, error) {
	var issued, rejected int64
	if err := tx.QueryRowContext(ctx, markedSQL, id, id).Scan(&issued, &rejected); err != nil {
		return false, fmt.Errorf("count holders and rejected users of coupon %d: %w", id, err)
	}
	markedIssued, markedRejected, err := a.Windows.CountMarked(ctx, id)
	return markedIssued < issued || markedRejected < rejected, err
}
