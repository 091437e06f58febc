package cli

import (
	"context"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

type restoreCmd struct {
	Coupon        coupon.CouponID `required:"" placeholder:"ID"`
	DryRun        bool            `xor:"approval" form:"-"`
	operatorFlags `embed:""`
	approvalFlags `embed:""`
	Output        string `enum:"table,json" default:"table" form:"-"`
}

func (*restoreCmd) Declare() verb.Declaration {
	return onCoupon(text.ConsoleRestore, signin.ChangeCoupon, approval.Restore)
}

func (c *restoreCmd) Validate() error {
	return c.operatorFlags.checkUnless(c.DryRun)
}

// restored is the JSON of settle restore.
type restored struct {
	Coupon coupon.CouponID `json:"coupon"`
	DryRun bool            `json:"dryRun"`
	Digest string          `json:"digest,omitempty"` // digest of a dry run, as --expect-digest takes it
	journal.Restored
}

func (c *restoreCmd) run(ctx context.Context, p *program) error {
	s, err := p.openPurging(ctx, c.DryRun)
	if err != nil {
		return err
	}
	defer s.Close()
	restorer := s.restorer(p.Now)
	bar := output.NewProgress(p.Stderr, p.Sprintf(text.Restoring))
	last := int64(0)
	restorer.Progress = func(compared, _ int64) { bar.Add("", int(compared-last)); last = compared }
	done, err := restorer.Restore(ctx, journal.Order{Coupon: c.Coupon, Operator: c.Operator, Reason: c.Reason,
		DryRun: c.DryRun || c.Ask, Ticket: c.ticket(p, c.operatorFlags)})
	bar.End()
	if err != nil {
		return p.printRefusal(err)
	}
	if done.Finalised {
		return text.UsageErrorf(text.RestoreFinalised, c.Coupon)
	}
	if c.Ask {
		return p.requestApproval(ctx, s, done.Plan, c.pinFlags, c.operatorFlags, c.Output)
	}
	if c.Output == "json" {
		digest := ""
		if c.DryRun {
			digest = done.Plan.Digest()
		}
		return output.JSON(p.Stdout, restored{c.Coupon, c.DryRun, digest, done})
	}
	p.view().Restored(c.Coupon, done, c.DryRun)
	return nil
}
