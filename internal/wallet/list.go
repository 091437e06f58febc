package wallet

import (
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Item is a coupon in a user's wallet, at the instant Now of MySQL's clock.
type Item struct {
	ID            coupon.UserCouponID
	Coupon        coupon.CouponID
	Name          string
	Discount      coupon.Discount
	IssuedAt      time.Time
	ExpiresAt     time.Time // exclusive
	State         coupon.UserCouponStatus
	OrderID       string    // only if State is RESERVED or USED
	ReservedUntil time.Time // only if State is RESERVED
	Now           time.Time
}

const listSQL = `
SELECT u.id, u.coupon_id, c.name, c.discount_won, c.discount_percent, c.discount_max_won, c.minimum_won, u.issued_at,
    u.expires_at,
       u.status, COALESCE(u.order_id, ''), o.reserved_until, UTC_TIMESTAMP(6)
FROM user_coupon u FORCE INDEX (user_coupon_user) JOIN coupon c ON c.id = u.coupon_id LEFT JOIN coupon_order o
    ON o.order_id = u.order_id
WHERE u.user_id = ? AND u.id < ? ORDER BY u.id DESC LIMIT ?`

// MaxID asks for the first page.
const MaxID = coupon.UserCouponID(1<<64 - 1)

// List returns a page of a user's coupons, the latest first: at most limit coupons, with ids below before.
func List(ctx context.Context, q mysqltx.Querier, user coupon.UserID, before coupon.UserCouponID,
	limit int) (page []Item, err error) {
	err = mysqltx.Each(ctx, q, func(rows *sql.Rows) error {
		var i Item
		var until sql.NullTime
		err := rows.Scan(&i.ID, &i.Coupon, &i.Name, &i.Discount.DiscountWon, &i.Discount.DiscountPercent,
			&i.Discount.DiscountMaxWon,
			&i.Discount.MinimumWon, &i.IssuedAt, &i.ExpiresAt, &i.State, &i.OrderID, &until, &i.Now)
		i.State = coupon.StateAt(i.State, until.Time, i.ExpiresAt, i.Now)
		if i.State == coupon.CouponReserved {
			i.ReservedUntil = until.Time
		} else if i.State != coupon.CouponUsed {
			i.OrderID = ""
		}
		page = append(page, i)
		return err
	}, listSQL, user, before, limit)
	return page, mysqltx.Wrap(err, "read the wallet of user %d", user)
}
