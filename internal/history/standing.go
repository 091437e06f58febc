package history

import (
	"context"
	"database/sql"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Standing is what MySQL knows of a user's application.
type Standing struct {
	Standing coupon.Standing
	Arrival  coupon.Arrival // 0: unknown
}

const (
	standingsSQL = `
SELECT user_id, outcome, applied_at FROM application_outcome WHERE coupon_id = ? AND outcome <> 'ALREADY_ISSUED' AND user_id IN `
	// Coupons come last, and replace other outcomes.
	holdersSQL = `
UNION ALL SELECT user_id, 'ISSUED', applied_at FROM user_coupon WHERE coupon_id = ? AND user_id IN `
	standingsOrder = " ORDER BY outcome = 'ISSUED', applied_at"
)

// Standings returns ISSUED or the latest outcome other than ALREADY_ISSUED of each user that MySQL knows.
func (r Reader) Standings(ctx context.Context, couponID coupon.CouponID, users ...coupon.UserID) (map[coupon.UserID]Standing, error) {
	args := make([]any, 0, 2+2*len(users))
	for range 2 {
		args = append(args, couponID)
		for _, user := range users {
			args = append(args, user)
		}
	}
	found := make(map[coupon.UserID]Standing, len(users))
	err := mysqltx.Each(ctx, r.DB, func(rows *sql.Rows) error {
		var user coupon.UserID
		var one Standing
		var appliedAt sql.NullTime
		err := rows.Scan(&user, &one.Standing, &appliedAt)
		if appliedAt.Valid {
			one.Arrival = coupon.ArrivalAt(appliedAt.Time)
		}
		found[user] = one
		return err
	}, standingsSQL+mysqltx.In(len(users))+holdersSQL+mysqltx.In(len(users))+standingsOrder, args...)
	return found, mysqltx.Wrap(err, "outcomes of users with coupon %d", couponID)
}

// Standing returns the same for one user; StandingNone if MySQL does not know the user.
func (r Reader) Standing(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (coupon.Standing, coupon.Arrival, error) {
	found, err := r.Standings(ctx, couponID, user)
	if one, ok := found[user]; ok {
		return one.Standing, one.Arrival, err
	}
	return coupon.StandingNone, 0, err
}
