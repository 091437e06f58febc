package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
	"github.com/jajeong/jajeong/internal/view"
)

type couponCreateCmd struct {
	Name            string `required:""`
	Seats           int64  `required:"" placeholder:"N"`
	Opens           string `required:"" placeholder:"TIME" form:"datetime-local"`
	Closes          string `required:"" placeholder:"TIME" form:"datetime-local"`
	Cadence         string `enum:"nightly,immediate" default:"nightly"`
	DiscountWon     int64  `default:"0" placeholder:"N"`
	DiscountPercent int64  `placeholder:"P"`
	DiscountMaxWon  int64  `placeholder:"N"`
	MinimumWon      int64  `placeholder:"N"`
	ValidityDays    int64  `default:"30" placeholder:"N"`
	Campaign        uint64 `placeholder:"ID"`
	LineLimit       int64  `placeholder:"N"`
	Key             string `placeholder:"KEY" form:"-"`
	DryRun          bool   `xor:"approval" form:"-"`
	operatorFlags   `embed:""`
	approvalFlags   `embed:""`
	Output          string `enum:"table,json" default:"table" form:"-"`
}

func (*couponCreateCmd) Declare() verb.Declaration {
	return verb.Declaration{Title: text.ConsoleCreate, Right: signin.Campaign,
		Actions: []approval.Action{approval.Create}, API: "POST /v1/coupons"}
}

func (c *couponCreateCmd) coupon(zone *time.Location) (n couponadmin.NewCoupon, err error) {
	opens, wrongOpens := instant("--opens", c.Opens, zone)
	closes, wrongCloses := instant("--closes", c.Closes, zone)
	n = couponadmin.NewCoupon{Key: c.Key, Name: c.Name, Seats: c.Seats, Opens: opens, Closes: closes,
		ValidityDays: c.ValidityDays,
		Discount: coupon.Discount{DiscountWon: c.DiscountWon, DiscountPercent: c.DiscountPercent,
			DiscountMaxWon: c.DiscountMaxWon, MinimumWon: c.MinimumWon},
		Campaign: c.Campaign, Cadence: cadenceOf(c.Cadence), LineLimit: c.LineLimit}
	return n, errors.Join(wrongOpens, wrongCloses, errors.Join(n.Problems()...))
}

func (c *couponCreateCmd) Validate() error {
	_, err := c.coupon(time.UTC)
	return errors.Join(err, c.operatorFlags.checkUnless(c.DryRun))
}

func (c *couponCreateCmd) run(ctx context.Context, p *program) error {
	var made *couponadmin.Change
	var n couponadmin.NewCoupon
	by := deciding{c.operatorFlags, c.approvalFlags, c.DryRun, c.Output}
	err := p.administer(ctx, by, func(a *couponadmin.Admin, _ *servers) (_ *couponadmin.Change, err error) {
		if n, err = c.coupon(p.Zone); err == nil {
			made, err = a.Create(ctx, n)
		}
		return made, err
	})
	switch {
	case err != nil || c.Ask:
		return err
	case !c.DryRun:
		return c.printCreated(p, made)
	case made.Changed:
		return p.printPlan(made.Plan, c.Output, func(v view.View) { v.PlannedCreation(n, made.Plan) })
	case c.Output == "json":
		return output.JSON(p.Stdout, made.Summary())
	default:
		p.view().Changed(made, text.CouponWasCreated, text.CouponWasCreated)
		return nil
	}
}

func (c *couponCreateCmd) printCreated(p *program, made *couponadmin.Change) error {
	is := made.After
	if made.Skipped > 0 {
		p.warn(text.IDsSkipped, made.Skipped)
	}
	if is.LineLimit > 0 && is.LineLimit < is.TotalQuantity {
		p.warn(text.LineLimitBelowSeats, is.LineLimit, is.TotalQuantity)
	}
	if c.Output == "json" {
		return json.NewEncoder(p.Stdout).Encode(map[string]coupon.CouponID{"coupon": is.ID})
	}
	fmt.Fprintln(p.Stdout, is.ID)
	if !made.Changed {
		p.warn(text.CouponWasCreated, is.ID, output.Printable(is.Name))
		return nil
	}
	p.warn(text.CouponIsCreated, is.ID, output.Printable(is.Name), is.TotalQuantity, p.WithOffset(is.OpensAt),
		p.WithOffset(is.ClosesAt))
	if shown := is.OpensAt.Add(-catalog.Ahead); shown.After(p.Now()) {
		p.warn(text.ShownLater, p.WithOffset(shown))
	} else {
		p.warn(text.ShownSoon)
	}
	if is.Immediate() {
		p.warn(text.SettledAtOnce)
	}
	return nil
}
