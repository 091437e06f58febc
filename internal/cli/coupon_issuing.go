package cli

import (
	"context"
	"strings"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
	"github.com/jajeong/jajeong/internal/view"
)

type couponFreezeCmd struct {
	change `embed:""`
}

func (*couponFreezeCmd) Declare() verb.Declaration {
	return onCoupon(text.ConsoleFreeze, signin.ChangeCoupon, approval.Freeze)
}

func (c *couponFreezeCmd) run(ctx context.Context, p *program) error {
	return c.do(ctx, p, changing{(*couponadmin.Admin).Freeze, text.CouponIsFrozen, text.CouponWasFrozen, nil})
}

type couponUnfreezeCmd struct {
	change `embed:""`
}

func (*couponUnfreezeCmd) Declare() verb.Declaration {
	return onCoupon(text.ConsoleUnfreeze, signin.ChangeCoupon, approval.Unfreeze)
}

func (c *couponUnfreezeCmd) run(ctx context.Context, p *program) error {
	return c.do(ctx, p, changing{(*couponadmin.Admin).Unfreeze, text.CouponIsUnfrozen, text.CouponWasUnfrozen,
		p.settledFromNow})
}

func (p *program) settledFromNow(v view.View, made *couponadmin.Change) {
	v.SettledFromNow(made, p.nextNight(p.Now()))
}

type couponCadenceCmd struct {
	change  `embed:""`
	Cadence string `arg:"" enum:"nightly,immediate"`
}

func (*couponCadenceCmd) Declare() verb.Declaration {
	return onCoupon(text.ConsoleCadence, signin.Campaign, approval.Cadence)
}

func (c *couponCadenceCmd) run(ctx context.Context, p *program) error {
	return c.do(ctx, p, changing{func(a *couponadmin.Admin, ctx context.Context,
		id coupon.CouponID) (*couponadmin.Change, error) {
		return a.SetCadence(ctx, id, cadenceOf(c.Cadence))
	}, text.CouponHasCadence, text.CouponHadThisCadence, func(v view.View, made *couponadmin.Change) {
		v.CadenceChanged(made)
		p.settledFromNow(v, made)
	}})
}

func cadenceOf(flag string) coupon.Cadence { return coupon.Cadence(strings.ToUpper(flag)) }
