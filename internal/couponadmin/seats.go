package couponadmin

import (
	"context"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

// MaxSeats is the maximum of the column.
const MaxSeats = 1<<32 - 1

// AddSeats adds seats to a coupon.
func (a *Admin) AddSeats(ctx context.Context, couponID coupon.CouponID, more int) (*Change, error) {
	return a.seats(ctx, couponID, func(c coupon.Coupon) int { return c.TotalQuantity + more })
}

// SetSeats sets the number of seats of a coupon. It may be lower than before, but not lower than the issued coupons.
func (a *Admin) SetSeats(ctx context.Context, couponID coupon.CouponID, total int) (*Change, error) {
	return a.seats(ctx, couponID, func(coupon.Coupon) int { return total })
}

// seats: the next run issues new seats to NOT_SELECTED users, by arrival.
func (a *Admin) seats(ctx context.Context, couponID coupon.CouponID, total func(coupon.Coupon) int) (*Change, error) {
	return a.change(ctx, couponID, operation{action: audit.CouponSeats,
		plan: func(c coupon.Coupon, _ time.Time, f facts) (coupon.Coupon, error) {
			return planSeats(c, f, total(c))
		}})
}

func planSeats(c coupon.Coupon, f facts, total int) (coupon.Coupon, error) {
	if total < c.IssuedCount {
		return c, text.UsageErrorf(text.RefusedFewerThanIssued, c.ID, c.IssuedCount, total)
	}
	if total < 1 || total > MaxSeats {
		return c, text.UsageErrorf(text.RefusedSeats, total, int64(MaxSeats))
	}
	c.TotalQuantity = total
	return dueAgain(c, f), nil
}

// Recount sets issued_count to the number of issued coupons. After rows were written by hand, runs hold the coupon until the
// two agree.
func (a *Admin) Recount(ctx context.Context, couponID coupon.CouponID) (*Change, error) {
	return a.change(ctx, couponID, operation{action: audit.CouponRecounted, plan: planRecount})
}

func planRecount(c coupon.Coupon, _ time.Time, f facts) (coupon.Coupon, error) {
	if f.holders > c.TotalQuantity {
		return c, text.UsageErrorf(text.RefusedMoreThanSeats, c.ID, f.holders, c.TotalQuantity)
	}
	c.IssuedCount = f.holders
	return dueAgain(c, f), nil
}

// dueAgain makes a finalised coupon due when it has free seats and NOT_SELECTED users. Its account is complete without Redis,
// and a run finalises it again.
func dueAgain(c coupon.Coupon, f facts) coupon.Coupon {
	if c.Free() > 0 && f.notSelected > 0 {
		c.FinalisedAt = time.Time{}
	}
	return c
}
