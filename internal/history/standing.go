package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jajeong/jajeong/internal/coupon"
)

const standingSQL = `
SELECT 'ISSUED' AS standing, applied_at FROM user_coupon WHERE coupon_id = ? AND user_id = ?
UNION ALL
SELECT outcome, applied_at FROM application_outcome WHERE coupon_id = ? AND user_id = ? AND outcome <> 'ALREADY_ISSUED'
ORDER BY standing = 'ISSUED' DESC, applied_at DESC LIMIT 1`

// Standing is the result of a user's application: ISSUED if the user has the coupon, else the latest outcome. The arrival is 0
// where MySQL does not know it.
func (r Reader) Standing(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (coupon.Standing, coupon.Arrival, error) {
	var standing coupon.Standing
	var appliedAt sql.NullTime
	err := r.DB.QueryRowContext(ctx, standingSQL, couponID, user, couponID, user).Scan(&standing, &appliedAt)
	if errors.Is(err, sql.ErrNoRows) {
		return coupon.StandingNone, 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("outcome of user %d with coupon %d: %w", user, couponID, err)
	}
	if !appliedAt.Valid {
		return standing, 0, nil
	}
	return standing, coupon.ArrivalAt(appliedAt.Time), nil
}
