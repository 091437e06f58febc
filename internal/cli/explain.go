package cli

import (
	"context"
	"errors"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/privacy"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/verb"
)

type explainCmd struct {
	Coupon coupon.CouponID `required:"" placeholder:"ID"`
	User   coupon.UserID   `required:"" placeholder:"USER"`
	Output string          `enum:"table,json" default:"table" form:"-"`

	connect.IssueSettings `embed:""`
}

func (*explainCmd) Declare() verb.Declaration {
	return verb.Declaration{Right: signin.SeePerson, API: "GET /v1/coupons/{coupon}/users/{user}"}
}

func (c *explainCmd) read(ctx context.Context, p *program, s *servers) error {
	// An error is left to Explain: without MySQL it still reads Redis.
	if purged, err := privacy.ReadPurged(ctx, s.MySQL, c.Coupon); err == nil && purged != nil {
		return purged.Err(p.Instant(purged.PurgedAt))
	}
	explainer := &explain.Explainer{DB: s.MySQL, Redis: s.store, Users: s.users, Now: p.Now,
		IssueInterval: c.IssueInterval, Zone: s.zone.Get}
	x, err := explainer.Explain(ctx, c.Coupon, c.User)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		err = output.JSON(p.Stdout, x)
	} else {
		explain.Phrasing{Locale: p.Locale}.Print(p.Stdout, x)
	}
	return errors.Join(err, worst(p.printErrors(x.Unread...)...))
}
