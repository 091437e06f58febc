package history

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Winner is a user who has a coupon, or had it until it was revoked. Times are UTC.
type Winner struct {
	Coupon    coupon.CouponID         `json:"-"`
	Position  uint64                  `json:"position"` // 0: given by hand
	User      coupon.UserID           `json:"user"`
	AppliedAt *time.Time              `json:"appliedAt"` // null: given by hand
	IssuedAt  time.Time               `json:"issuedAt"`
	ExpiresAt time.Time               `json:"expiresAt"` // exclusive
	State     coupon.UserCouponStatus `json:"state"`
	ByHand    bool                    `json:"givenByHand"`
}

// winnersSQL is one statement: all rows have one state and one clock. MySQL sorts the rows, and the client keeps only
// one.
const winnersSQL = `
SELECT u.coupon_id, u.position, u.user_id, u.applied_at, u.issued_at, u.expires_at, u.status, u.run_id IS NULL,
    o.reserved_until, UTC_TIMESTAMP(6)
FROM user_coupon u LEFT JOIN coupon_order o ON o.order_id = u.order_id
WHERE u.coupon_id = ?`
const (
	ofUserSQL     = " AND u.user_id = ?"
	byPositionSQL = " ORDER BY u.run_id IS NULL, u.position, u.id"
)

// EachWinner visits the winners of a coupon by position; those who were given it by hand come last. asOf is the instant
// of the states, by MySQL's clock.
func (r Reader) EachWinner(ctx context.Context, id coupon.CouponID, visit func(w Winner, asOf time.Time) error) error {
	return r.winners(ctx, visit, winnersSQL+byPositionSQL, id)
}

// Winner returns the winner with this user id; nil if the user has no coupon.
func (r Reader) Winner(ctx context.Context, id coupon.CouponID, user coupon.UserID) (winner *Winner, err error) {
	err = r.winners(ctx, func(w Winner, _ time.Time) error {
		winner = &w
		return nil
	}, winnersSQL+ofUserSQL, id, user)
	return winner, err
}

func (r Reader) winners(ctx context.Context, visit func(w Winner, asOf time.Time) error, query string,
	args ...any) error {
	err := mysqltx.Each(ctx, r.DB, func(rows *sql.Rows) error {
		var w Winner
		var until sql.NullTime
		var asOf time.Time
		if err := rows.Scan(&w.Coupon, &w.Position, &w.User, &w.AppliedAt, &w.IssuedAt, &w.ExpiresAt, &w.State,
			&w.ByHand, &until, &asOf); err != nil {
			return err
		}
		w.State = coupon.StateAt(w.State, until.Time, w.ExpiresAt, asOf)
		return visit(w, asOf)
	}, query, args...)
	return mysqltx.Wrap(err, "read the winners of coupon %d", args[0])
}

const orderSQL = "SELECT u.coupon_id, o.user_id FROM coupon_order o JOIN user_coupon u ON u.id = o.user_coupon_id " +
	"WHERE o.order_id = ?"

// Order returns which coupon an order has or had, and whose it is; zeros if there is no such order.
func (r Reader) Order(ctx context.Context, orderID string) (couponID coupon.CouponID, user coupon.UserID, err error) {
	err = r.DB.QueryRowContext(ctx, orderSQL, orderID).Scan(&couponID, &user)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, nil
	}
	return couponID, user, mysqltx.Wrap(err, "read order")
}
