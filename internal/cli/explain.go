package cli

import (
	"context"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/output"
)

type explainCmd struct {
	Coupon coupon.CouponID `required:"" placeholder:"ID"`
	User   coupon.UserID   `required:"" placeholder:"USER"`
	Output string          `enum:"table,json" default:"table"`
}

func (c *explainCmd) read(ctx context.Context, p *program, s *servers) error {
	explainer := &explain.Explainer{DB: s.MySQL, Redis: s.store, Users: s.users, Now: p.now,
		SettlesAt: func(arrival time.Time) time.Time { return calendar.NextCutoff(arrival, p.zone) }}
	x, err := explainer.Explain(ctx, c.Coupon, c.User)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		err = output.JSON(p.stdout, x)
	} else {
		p.phrasing().Print(p.stdout, x)
	}
	var classes []coupon.Class
	for _, unread := range x.Unread {
		p.printError(unread)
		classes = append(classes, classOf(unread))
	}
	return errors.Join(err, worst(classes))
}

func (p *program) phrasing() explain.Phrasing { return explain.Phrasing{Locale: p.locale()} }
