package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/privacy"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

// maxPerPage bounds the coupons of one listing, because each costs a call to Redis.
const maxPerPage = 1000

type couponListCmd struct {
	Status   string          `enum:",scheduled,open,paused,closed,finalised" default:"" placeholder:"STATUS"`
	Campaign uint64          `placeholder:"ID"`
	Cadence  string          `enum:",nightly,immediate" default:"" placeholder:"CADENCE"`
	After    coupon.CouponID `default:"0" placeholder:"ID"`
	Limit    int             `default:"50" placeholder:"N"`
	Output   string          `enum:"table,json" default:"table" form:"-"`
}

func (*couponListCmd) Declare() verb.Declaration {
	return verb.Declaration{Right: signin.See, API: "GET /v1/coupons"}
}

func (c *couponListCmd) Validate() error {
	return refuse(c.Limit < 1 || c.Limit > maxPerPage, text.WrongLimit, c.Limit, maxPerPage, "--after")
}

type reading struct {
	*servers
	history.Reader
	failed error // the first error of Redis; after it, Redis is not asked again
}

// line returns the figures of a coupon. After the first error of Redis, its counts in Redis are unknown.
func (r *reading) line(ctx context.Context, c history.Coupon) (history.CouponFigures, coupon.Look) {
	l := history.CouponFigures{Coupon: c, Left: c.Free()}
	if r.failed != nil {
		return l, coupon.Look{}
	}
	f, err := r.store.Observe(ctx, c.ID, 0)
	if r.failed = err; err == nil {
		l.Waiting, l.DLQ = &f.Waiting, &f.DLQ
	}
	return l, f
}

// withoutRedis prints the error of Redis, if there is one, and returns the exit code for it.
func (p *program) withoutRedis(failed error) error {
	if failed == nil {
		return nil
	}
	p.warn(text.QueuesUnknown, failed)
	return worst(classOf(failed))
}

func (c *couponListCmd) read(ctx context.Context, p *program, s *servers) error {
	r := &reading{servers: s, Reader: history.Reader{DB: s.MySQL}}
	coupons, err := r.List(ctx, history.CouponFilter{Status: history.CouponStatus(strings.ToUpper(c.Status)),
		Campaign: c.Campaign,
		Cadence:  cadenceOf(c.Cadence), After: c.After, Limit: c.Limit})
	if err != nil {
		return err
	}
	lines := make([]history.CouponFigures, len(coupons))
	for i, c := range coupons {
		lines[i], _ = r.line(ctx, c)
	}
	unknown := p.withoutRedis(r.failed)
	if c.Output == "json" {
		return errors.Join(output.JSON(p.Stdout, lines), unknown)
	}
	p.view().Coupons(lines)
	if len(lines) == c.Limit {
		p.view().Println(text.MoreCoupons, lines[len(lines)-1].ID)
	}
	return unknown
}

type couponShowCmd struct {
	ID     coupon.CouponID `arg:"" name:"coupon"`
	Output string          `enum:"table,json" default:"table" form:"-"`
}

func (*couponShowCmd) Declare() verb.Declaration {
	return verb.Declaration{Right: signin.See, API: "GET /v1/coupons/{coupon}"}
}

const maxActions = 10

func (c *couponShowCmd) read(ctx context.Context, p *program, s *servers) error {
	purged, err := privacy.ReadPurged(ctx, s.MySQL, c.ID)
	if err != nil {
		return err
	}
	if purged != nil {
		return c.showPurged(p, purged)
	}
	r := &reading{servers: s, Reader: history.Reader{DB: s.MySQL}}
	found, err := r.Coupon(ctx, c.ID)
	if err != nil {
		return err
	}
	var shown history.CouponDetails
	var f coupon.Look
	shown.CouponFigures, f = r.line(ctx, found)
	if r.failed == nil {
		shown.SoldOut = &f.Sold
	}
	if shown.Outcomes, err = r.Outcomes(ctx, c.ID); err != nil {
		return err
	}
	switch {
	case r.failed == nil:
		shown.Outcomes.Accepted = new(max(*shown.Outcomes.Accepted, f.Accepted))
	case found.FinalisedAt == nil: // MySQL follows Redis
		shown.Outcomes.Accepted = nil
	}
	if shown.Audit, err = r.AuditEntries(ctx, c.ID, maxActions); err != nil {
		return err
	}
	if found.Frozen {
		if shown.Freeze, err = history.Freeze(ctx, s.MySQL, c.ID); err != nil {
			return err
		}
	}
	groups := history.DLQGroups{}
	if r.failed == nil {
		r.failed = history.EachDLQEntry(ctx, r.store, c.ID, nil, groups.Add)
	}
	if r.failed == nil {
		shown.Review = groups.Sorted()
	}
	unknown := p.withoutRedis(r.failed)
	if c.Output == "json" {
		return errors.Join(output.JSON(p.Stdout, shown), unknown)
	}
	p.view().Coupon(shown, f.Now)
	return unknown
}
