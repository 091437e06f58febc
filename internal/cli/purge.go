package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/privacy"
	"github.com/jajeong/jajeong/internal/text"
)

type purgeCmd struct {
	Before        string `required:"" placeholder:"DATE"`
	DryRun        bool
	operatorFlags `embed:""`
	pinFlags      `embed:""`
	Yes           bool
	Output        string `enum:"table,json" default:"table"`
}

// before returns the midnight that begins the date.
func (c *purgeCmd) before(zone *time.Location) (time.Time, error) {
	from, _, err := calendar.Day(c.Before, zone)
	if err != nil {
		return from, text.UsageErrorf(text.WrongDate, "--before", c.Before)
	}
	return from, after1970("--before", c.Before, from)
}

func (c *purgeCmd) Validate() error {
	_, err := c.before(time.UTC)
	return errors.Join(about("--before", err), c.operatorFlags.checkUnless(c.DryRun))
}

// purged is the JSON of settle purge.
type purged struct {
	Before    time.Time                `json:"before"`
	DryRun    bool                     `json:"dryRun"`
	Digest    string                   `json:"digest"` // digest of the plan, as --expect-digest takes it
	Continued []coupon.CouponID        `json:"continued"`
	Taken     []privacy.PurgeCandidate `json:"taken"`
	Purged    []coupon.CouponID        `json:"purged"`
	Left      []privacy.PurgeCandidate `json:"left"`
}

func (c *purgeCmd) run(ctx context.Context, p *program) error {
	s, err := p.openPurging(ctx, c.DryRun)
	if err != nil {
		return err
	}
	defer s.Close()
	before, _ := c.before(p.Zone) // no error: Validate has read --before
	now := p.Now().UTC().Truncate(time.Microsecond)
	db := mysqltx.New(s.MySQL)
	plan, err := privacy.PlanPurge(ctx, db, s.store, before, now)
	if err == nil {
		err = c.expected(plan.Digest())
	}
	if err != nil {
		return p.printRefusal(err)
	}
	result := purged{Before: plan.Before, DryRun: c.DryRun, Digest: plan.Digest(),
		Continued: plan.Continued, Taken: plan.Taken, Purged: []coupon.CouponID{}, Left: plan.Left}
	if c.Output != "json" {
		p.view().PurgePlan(plan)
	}
	coupons := len(plan.Continued) + len(plan.Taken)
	if c.DryRun && c.Output != "json" && coupons > 0 {
		output.Digest(p.Stdout, plan.Digest())
	}
	if !c.DryRun && coupons > 0 {
		needsYes, question := text.UsageErrorf(text.PurgeNeedsYes, coupons), p.Sprintf(text.AskPurge, coupons)
		if may, err := p.confirm(ctx, c.Yes, needsYes, question); err != nil || !may {
			return err
		}
		purger := &privacy.Purger{DB: db, Queue: s.store, Origin: p.origin(c.operatorFlags)}
		var done *privacy.PurgeResult
		done, err = purger.Purge(ctx, plan)
		result.Purged, result.Left = done.Purged, done.Left
		if err != nil && ctx.Err() != nil {
			err = text.RetryableErrorf(text.PurgeStopped, len(done.Purged), context.Cause(ctx))
		}
		if c.Output != "json" {
			p.view().Purged(plan, done)
		}
	}
	if c.Output == "json" {
		err = errors.Join(err, output.JSON(p.Stdout, result))
	}
	return err
}

// openPurging opens the servers. A preview writes nothing, so any setup of MySQL will do for it.
func (p *program) openPurging(ctx context.Context, dryRun bool) (*servers, error) {
	if dryRun {
		return p.open(ctx)
	}
	return p.openWriting(ctx)
}

// notPurged returns an error with the summary of a coupon that was purged, or is being purged.
func (p *program) notPurged(ctx context.Context, s *servers, id coupon.CouponID) error {
	purged, err := privacy.ReadPurged(ctx, s.MySQL, id)
	if err == nil && purged != nil {
		err = purged.Err(p.Instant(purged.PurgedAt))
	}
	return err
}

func (c *couponShowCmd) showPurged(p *program, purged *privacy.PurgedCoupon) error {
	if c.Output == "json" {
		return output.JSON(p.Stdout, struct {
			Purged *privacy.PurgedCoupon `json:"purged"`
		}{purged})
	}
	_, err := fmt.Fprintln(p.Stdout, text.In(p.Language, purged.Err(p.Instant(purged.PurgedAt))))
	return err
}
