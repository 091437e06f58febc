package serve

import (
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/users"
)

// Coupon is what the task issue knows of an immediate coupon. Times are UTC.
type Coupon struct {
	ID     coupon.CouponID
	Opens  time.Time
	Closes time.Time
	Total  int // number of seats
	// Due reports whether the coupon has work although nobody may wait in its queue: free seats for NOT_SELECTED
	// applications, or an immediate run whose clean-up is pending.
	Due bool
	// Seats is Total if some, but not all, are taken, else 0. After seats were added, Redis may still answer
	// SOLD_OUT: a run makes it accept applications.
	Seats int
}

func (c *Coupon) fields() []any { return []any{&c.ID, &c.Opens, &c.Closes, &c.Total, &c.Due, &c.Seats} }

// opened reports whether the coupon may have applications. The margin is for shards whose clocks differ.
func (c *Coupon) opened(now time.Time) bool { return !now.Before(c.Opens.Add(-clockMargin)) }

// open reports whether the coupon takes applications.
func (c *Coupon) open(now time.Time) bool {
	return c.opened(now) && now.Before(c.Closes.Add(clockMargin))
}

// MySQL reads the immediate coupons. Both fields are required.
type MySQL struct {
	DB    *sql.DB
	Users *users.Directory
}

// MaxCoupons bounds the immediate coupons that one process looks at. Coupons that are open come first.
const MaxCoupons = 10_000

const couponsSQL = `
SELECT c.id, c.apply_opens_at, c.apply_closes_at, c.total_quantity,
       c.issued_count < c.total_quantity
           AND EXISTS (SELECT 1 FROM application_outcome o WHERE o.coupon_id = c.id AND o.outcome = 'NOT_SELECTED')
       OR EXISTS (SELECT 1 FROM settlement s JOIN settlement_run r ON r.id = s.run_id
                  WHERE s.coupon_id = c.id AND s.cleaned_at IS NULL AND r.trigger_kind = 'IMMEDIATE'),
       IF(c.issued_count BETWEEN 1 AND c.total_quantity - 1, c.total_quantity, 0)
  FROM coupon c
 WHERE c.finalised_at IS NULL AND c.apply_opens_at < ? AND c.cadence = 'IMMEDIATE' AND NOT c.frozen
 ORDER BY c.apply_closes_at <= ?, c.apply_closes_at, c.id
 LIMIT ?`

// Coupons returns at most limit immediate coupons that are neither finalised nor frozen and open within ahead of now.
// It inspects the table of users, too: runs go by what it finds.
func (m MySQL) Coupons(ctx context.Context, now time.Time, ahead time.Duration, limit int) (all []Coupon, err error) {
	return all, mysqltx.New(m.DB).Once(ctx, func(ctx context.Context, q mysqltx.Querier) (err error) {
		if _, err := m.Users.Look(ctx, q); err != nil {
			return err
		}
		all, err = mysqltx.Collect(ctx, q, (*Coupon).fields, couponsSQL, now.Add(ahead).UTC(), now.UTC(), limit)
		return mysqltx.Wrap(err, "read the immediate coupons")
	})
}
