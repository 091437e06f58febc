package cli

import (
	"context"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
	"github.com/jajeong/jajeong/internal/view"
)

type couponChangeCmd struct {
	change          `embed:""`
	Name            *string
	Seats           *int64  `placeholder:"N"`
	Opens           *string `placeholder:"TIME" form:"datetime-local"`
	Closes          *string `placeholder:"TIME" form:"datetime-local"`
	DiscountWon     *int64  `placeholder:"N"`
	DiscountPercent *int64  `placeholder:"P"`
	DiscountMaxWon  *int64  `placeholder:"N"`
	MinimumWon      *int64  `placeholder:"N"`
	ValidityDays    *int64  `placeholder:"N"`
	Campaign        *uint64 `placeholder:"ID"`
}

// Declare names no subject: the page of a coupon has a link that fills in the present values.
func (*couponChangeCmd) Declare() verb.Declaration {
	return verb.Declaration{Title: text.ConsoleEdit, Right: signin.Campaign, Actions: []approval.Action{approval.Edit},
		API: "POST /v1/coupons/{coupon}/change"}
}

func (c *couponChangeCmd) edit(zone *time.Location) (couponadmin.Edit, error) {
	opens, wrongOpens := instantIfGiven("--opens", c.Opens, zone)
	closes, wrongCloses := instantIfGiven("--closes", c.Closes, zone)
	return couponadmin.Edit{Name: c.Name, Seats: c.Seats, ValidityDays: c.ValidityDays, Opens: opens, Closes: closes,
		DiscountWon: c.DiscountWon, DiscountPercent: c.DiscountPercent, DiscountMaxWon: c.DiscountMaxWon,
		Minimum: c.MinimumWon, Campaign: c.Campaign}, errors.Join(wrongOpens, wrongCloses)
}

func instantIfGiven(flag string, given *string, zone *time.Location) (*time.Time, error) {
	if given == nil {
		return nil, nil
	}
	at, err := instant(flag, *given, zone)
	return &at, err
}

func (c *couponChangeCmd) Validate() error {
	e, err := c.edit(time.UTC)
	return errors.Join(err, c.change.Validate(), refuse(e == couponadmin.Edit{}, text.FlagsMissing,
		"--name, --seats, --opens, --closes, --discount-won, --discount-percent, --discount-max-won, --minimum-won, "+
			"--validity-days, --campaign"))
}

func (c *couponChangeCmd) run(ctx context.Context, p *program) error {
	return c.do(ctx, p, changing{func(a *couponadmin.Admin, ctx context.Context,
		id coupon.CouponID) (*couponadmin.Change, error) {
		e, err := c.edit(p.Zone)
		if err != nil {
			return nil, err
		}
		return a.Edit(ctx, id, e)
	}, text.CouponIsEdited, text.CouponWasEdited, view.View.Edited})
}
