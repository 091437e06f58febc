package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

type explainCmd struct {
	Coupon uint64 `required:"" placeholder:"ID"`
	User   uint64 `required:"" placeholder:"USER"`
	Output string `enum:"table,json" default:"table"`
}

func (c *explainCmd) run(ctx context.Context, p *program) error {
	s, err := p.open()
	if err != nil {
		return err
	}
	defer s.Close()
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
		fmt.Fprintln(p.stderr, "settle:", text.In(p.language, unread))
		if advice := advice(unread); advice != (text.Message{}) {
			p.warn(advice)
		}
		classes = append(classes, classOf(unread))
	}
	return errors.Join(err, worst(classes))
}

func (p *program) phrasing() explain.Phrasing { return explain.Phrasing{Locale: p.locale()} }
