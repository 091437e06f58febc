package couponadmin

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

// Edit has new values of a coupon that has not opened. A nil field leaves the value as it is.
type Edit struct {
	Name                                                  *string
	Seats, ValidityDays                                   *int64
	Opens, Closes                                         *time.Time
	DiscountWon, DiscountPercent, DiscountMaxWon, Minimum *int64
	Campaign                                              *uint64 // 0: none
}

// editable is how long before the opening a coupon no longer changes. It is longer than Redis keeps a window whose
// change was not committed.
const editable = 5 * time.Minute

// Edit changes a coupon that opens in more than five minutes, before and after the change. The window goes to Redis
// before MySQL records it, so that nobody applies by the old one.
func (a *Admin) Edit(ctx context.Context, couponID coupon.CouponID, e Edit) (*Change, error) {
	asked := approval.Plan{Action: approval.Edit, Coupon: couponID, Arguments: e.arguments()}
	return a.change(ctx, couponID, operation{action: audit.CouponEdited, asked: asked, reopens: true,
		plan: func(c coupon.Coupon, now time.Time, f facts) (coupon.Coupon, error) { return planEdit(c, now, f, e) }})
}

func planEdit(c coupon.Coupon, now time.Time, f facts, e Edit) (coupon.Coupon, error) {
	is := e.of(c)
	switch {
	case c.Finalised():
		return c, text.UsageErrorf(text.RefusedFinalised, c.ID, c.FinalisedAt)
	case is == c:
		return c, nil
	case c.OpensAt.Before(now.Add(editable)):
		return c, text.UsageErrorf(text.RefusedEditOpen, c.ID, c.OpensAt)
	case is.OpensAt.Before(now.Add(editable)):
		return c, text.About("opens", text.UsageErrorf(text.RefusedOpensSoon, c.ID, is.OpensAt))
	case is.TotalQuantity < f.holders:
		return c, text.About("seats",
			text.UsageErrorf(text.RefusedFewerThanIssued, c.ID, f.holders, is.TotalQuantity))
	case f.holders > 0 && (is.Discount != c.Discount || is.ValidityDays != c.ValidityDays):
		return c, text.UsageErrorf(text.RefusedEditHeld, c.ID, f.holders)
	}
	n := NewCoupon{Name: is.Name, Seats: int64(is.TotalQuantity), ValidityDays: int64(is.ValidityDays),
		Discount: is.Discount}
	if problems := append(n.Problems(), checkEnd(c.ID, is.OpensAt, is.ClosesAt, now)); errors.Join(problems...) != nil {
		return c, errors.Join(problems...)
	}
	return is, nil
}

// of returns the coupon with the new values. A discount in percent replaces one in won, and the other way round.
func (e Edit) of(c coupon.Coupon) coupon.Coupon {
	if e.DiscountWon != nil && e.DiscountPercent == nil && e.DiscountMaxWon == nil {
		c.DiscountPercent, c.DiscountMaxWon = 0, 0
	}
	if e.DiscountPercent != nil && e.DiscountWon == nil {
		c.DiscountWon = 0
	}
	set(&c.Name, e.Name)
	set(&c.DiscountWon, e.DiscountWon)
	set(&c.DiscountPercent, e.DiscountPercent)
	set(&c.DiscountMaxWon, e.DiscountMaxWon)
	set(&c.MinimumWon, e.Minimum)
	set(&c.CampaignID, e.Campaign)
	if e.Seats != nil {
		c.TotalQuantity = int(*e.Seats)
	}
	if e.ValidityDays != nil {
		c.ValidityDays = int(*e.ValidityDays)
	}
	if e.Opens != nil {
		c.OpensAt = e.Opens.UTC().Truncate(time.Microsecond)
	}
	if e.Closes != nil {
		c.ClosesAt = e.Closes.UTC().Truncate(time.Microsecond)
	}
	return c
}

func set[T any](value, to *T) {
	if to != nil {
		*value = *to
	}
}

// arguments are the values by the names of the flags.
func (e Edit) arguments() map[string]string {
	given := map[string]string{}
	number := func(name string, n *int64) {
		if n != nil {
			given[name] = strconv.FormatInt(*n, 10)
		}
	}
	if e.Name != nil {
		given["name"] = *e.Name
	}
	if e.Opens != nil {
		given["opens"] = stamp(*e.Opens)
	}
	if e.Closes != nil {
		given["closes"] = stamp(*e.Closes)
	}
	if e.Campaign != nil {
		given["campaign"] = strconv.FormatUint(*e.Campaign, 10)
	}
	number("seats", e.Seats)
	number("validity-days", e.ValidityDays)
	number("discount-won", e.DiscountWon)
	number("discount-percent", e.DiscountPercent)
	number("discount-max-won", e.DiscountMaxWon)
	number("minimum-won", e.Minimum)
	return given
}

// reopen publishes a window that has moved before it opened. If the change is not committed, Redis takes the old window
// again within three minutes.
func (a *Admin) reopen(ctx context.Context, tx *sql.Tx, made *Change, origin audit.Origin, op operation) error {
	was, is := made.Before, &made.After
	if is.OpensAt.Equal(was.OpensAt) && is.ClosesAt.Equal(was.ClosesAt) {
		return nil
	}
	is.Version = was.Version + 1
	if err := rehearse(ctx, tx, origin, op.action, *made); err != nil {
		return err
	}
	_, err := a.Redis.Announce(ctx, is.Window(), was.Known)
	return err
}
