package standing

import (
	"context"
	"database/sql"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
)

// Records reads what MySQL has. The rights of apply-api are enough.
type Records struct{ DB *sql.DB }

// The first line of the reply has the books, even if no user has an outcome.
const (
	booksSQL = "SELECT " + promise.Columns + `, COALESCE(f.user_id, 0), COALESCE(f.outcome, ''), f.applied_at
FROM (SELECT ? AS id) o LEFT JOIN journal j ON j.coupon_id = o.id LEFT JOIN settled s ON s.coupon_id = o.id
LEFT JOIN (`
	outcomesSQL = "SELECT user_id, outcome, applied_at FROM application_outcome WHERE coupon_id = ? AND user_id IN "
	couponsSQL  = " UNION ALL SELECT user_id, 'ISSUED', applied_at FROM user_coupon WHERE coupon_id = ? AND user_id IN "
	foundSQL    = ") f ON TRUE"
)

// Read returns the outcomes of each of the users, and the books of the coupon, in one statement.
func (r Records) Read(ctx context.Context, couponID coupon.CouponID, users ...coupon.UserID) (
	outcomes map[coupon.UserID][]Outcome, books promise.Books, err error,
) {
	args := []any{couponID}
	for _, user := range users {
		args = append(args, user)
	}
	in := mysqltx.In(len(users))
	outcomes = map[coupon.UserID][]Outcome{}
	err = mysqltx.Each(ctx, r.DB, func(rows *sql.Rows) error {
		var user coupon.UserID
		var outcome string
		var appliedAt sql.NullTime
		err := rows.Scan(append(books.Fields(), &user, &outcome, &appliedAt)...)
		if outcome == "" {
			return err
		}
		one := Outcome{Outcome: coupon.Outcome(outcome)}
		if appliedAt.Valid {
			one.Arrival = coupon.ArrivalAt(appliedAt.Time)
		}
		outcomes[user] = append(outcomes[user], one)
		return err
	}, booksSQL+outcomesSQL+in+couponsSQL+in+foundSQL, append(append([]any{couponID}, args...), args...)...)
	return outcomes, books, mysqltx.Wrap(err, "read outcomes of users with coupon %d", couponID)
}
