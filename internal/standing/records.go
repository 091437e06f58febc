package standing

import (
	"context"
	"database/sql"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Records reads what MySQL has. The rights of apply-api are enough.
type Records struct{ DB *sql.DB }

const (
	outcomesSQL = "SELECT user_id, outcome, applied_at FROM application_outcome WHERE coupon_id = ? AND user_id IN "
	couponsSQL  = " UNION ALL SELECT user_id, 'ISSUED', applied_at FROM user_coupon WHERE coupon_id = ? AND user_id IN "
)

// Read returns the outcomes of each of the users in one statement.
func (r Records) Read(ctx context.Context, couponID coupon.CouponID, users ...coupon.UserID) (
	map[coupon.UserID][]Outcome, error,
) {
	args := []any{couponID}
	for _, user := range users {
		args = append(args, user)
	}
	outcomes := map[coupon.UserID][]Outcome{}
	err := mysqltx.Each(ctx, r.DB, func(rows *sql.Rows) error {
		var user coupon.UserID
		var one Outcome
		var appliedAt sql.NullTime
		err := rows.Scan(&user, &one.Outcome, &appliedAt)
		if appliedAt.Valid {
			one.Arrival = coupon.ArrivalAt(appliedAt.Time)
		}
		outcomes[user] = append(outcomes[user], one)
		return err
	}, outcomesSQL+mysqltx.In(len(users))+couponsSQL+mysqltx.In(len(users)), append(args, args...)...)
	return outcomes, mysqltx.Wrap(err, "read outcomes of users with coupon %d", couponID)
}
