package cli

import (
	"context"
	"errors"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
	"github.com/jajeong/jajeong/internal/view"
)

type couponSeatsCmd struct {
	change `embed:""`
	Seats  int64 `xor:"seats" placeholder:"N" form:"required"`
	Total  int64 `xor:"seats" placeholder:"N" form:"-"`
}

func (*couponSeatsCmd) Declare() verb.Declaration {
	return onCoupon(text.ConsoleAddSeats, signin.Campaign, approval.AddSeats)
}

func (c *couponSeatsCmd) Validate() error {
	return errors.Join(
		about("--seats", refuse(c.Seats < 0 || c.Seats > couponadmin.MaxSeats || c.Total < 0 || c.Seats+c.Total == 0,
			text.SeatsOrTotalMissing, int64(couponadmin.MaxSeats))),
		c.change.Validate())
}

func (c *couponSeatsCmd) run(ctx context.Context, p *program) error {
	return c.do(ctx, p, changing{func(a *couponadmin.Admin, ctx context.Context,
		id coupon.CouponID) (*couponadmin.Change, error) {
		if c.Total > 0 {
			return a.SetSeats(ctx, id, int(c.Total))
		}
		return a.AddSeats(ctx, id, int(c.Seats))
	}, text.CouponHasNewSeats, text.CouponHadTheseSeats, func(v view.View, made *couponadmin.Change) {
		v.SeatsChanged(made, p.nextNight(made.At))
	}})
}

type couponRecountCmd struct {
	change `embed:""`
}

func (*couponRecountCmd) Declare() verb.Declaration {
	return onCoupon(text.ConsoleRecount, signin.ChangeCoupon, approval.Recount)
}

func (c *couponRecountCmd) run(ctx context.Context, p *program) error {
	return c.do(ctx, p, changing{(*couponadmin.Admin).Recount, text.CouponIsRecounted, text.CouponWasRight,
		view.View.Recounted})
}
