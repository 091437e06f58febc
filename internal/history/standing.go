package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

const standingSQL = `
SELECT 'ISSUED' AS standing, applied_at FROM user_coupon WHERE coupon_id = ? AND user_id = ?
UNION ALL
SELECT outcome, applied_at FROM application_outcome WHERE coupon_id = ? AND user_id = ? AND outcome <> 'ALREADY_ISSUED'
ORDER BY standing = 'ISSUED' DESC, applied_at DESC LIMIT 1`

// Standing is the outcome of a user's application: ISSUED when the user holds the coupon, else the latest outcome, else None.
func (r Reader) Standing(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (candidates.Status, error) {
	var standing string
	var appliedAt sql.NullTime
	err := r.DB.QueryRowContext(ctx, standingSQL, couponID, user, couponID, user).Scan(&standing, &appliedAt)
	if errors.Is(err, sql.ErrNoRows) {
		return candidates.Status{Standing: candidates.None}, nil
	}
	if err != nil {
		return candidates.Status{}, fmt.Errorf("outcome of user %d with coupon %d: %w", user, couponID, err)
	}
	status := candidates.Status{Standing: candidates.Standing(standing)}
	if appliedAt.Valid {
		status.Arrival = appliedAt.Time.UnixMicro()
	}
	return status, nil
}
