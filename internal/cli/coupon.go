package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
	"github.com/jajeong/jajeong/internal/view"
)

type couponCmd struct {
	List     couponListCmd    `cmd:""`
	Show     couponShowCmd    `cmd:""`
	Create   couponCreateCmd  `cmd:""`
	Change   couponChangeCmd  `cmd:""`
	Close    couponCloseCmd   `cmd:""`
	Extend   couponExtendCmd  `cmd:""`
	Pause    couponPauseCmd   `cmd:""`
	Resume   couponResumeCmd  `cmd:""`
	Recount  couponRecountCmd `cmd:""`
	AddSeats couponSeatsCmd   `cmd:"" name:"add-seats"`

	Freeze   couponFreezeCmd   `cmd:""`
	Unfreeze couponUnfreezeCmd `cmd:""`
	Cadence  couponCadenceCmd  `cmd:""`

	Grant      couponGrantCmd      `cmd:""`
	Revoke     couponRevokeCmd     `cmd:""`
	Reissue    couponReissueCmd    `cmd:""`
	Unuse      couponUnuseCmd      `cmd:""`
	ExtendUser couponExtendUserCmd `cmd:"" name:"extend-user"`
	Winners    couponWinnersCmd    `cmd:""`
}

// printRefusal prints a UsageError, with its times in p.Zone, and returns the exit code. Other errors pass unchanged. A
// page shows an error about one value beside it.
func (p *program) printRefusal(err error) error {
	if !errors.As(err, new(*text.UsageError)) {
		return err
	}
	p.note(err)
	if text.IsMissing(err) {
		output.SetNotFound(p.Stderr)
	}
	for _, one := range text.Split(err) {
		refused, _ := errors.AsType[*text.UsageError](one)
		if about, ok := errors.AsType[*text.FieldError](one); ok && p.wrong != nil {
			p.wrong[about.Field] = p.Sprintf(refused.Message, refused.Args...)
		} else {
			fmt.Fprintln(p.Stderr, "settle:", p.Sprintf(refused.Message, refused.Args...))
		}
	}
	p.warn(text.NothingChanged)
	return exitError(exitUse)
}

// change holds the common flags of the verbs that change an existing coupon.
type change struct {
	ID            coupon.CouponID `arg:"" name:"coupon"`
	DryRun        bool            `xor:"approval" form:"-"`
	operatorFlags `embed:""`
	approvalFlags `embed:""`
	Output        string `enum:"table,json" default:"table" form:"-"`
}

func (c *change) Validate() error {
	return c.operatorFlags.checkUnless(c.DryRun)
}

// deciding says who makes a change, with which approval, or that it is only planned.
type deciding struct {
	operatorFlags
	approvalFlags
	dryRun bool
	format string
}

func (c *change) deciding() deciding {
	return deciding{c.operatorFlags, c.approvalFlags, c.DryRun, c.Output}
}

// administer makes or plans a change, and asks for the approval of its plan with --ask.
func (p *program) administer(ctx context.Context, by deciding,
	work func(*couponadmin.Admin, *servers) (*couponadmin.Change, error)) error {
	if by.dryRun { // nobody is recorded
		by.operatorFlags = operatorFlags{"-", "-"}
	}
	s, err := p.openWriting(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	admin, err := couponadmin.New(couponadmin.Config{DB: mysqltx.New(s.MySQL), Redis: s.store, Now: p.Now,
		Operator: by.Operator, Reason: by.Reason, DryRun: by.Ask || by.dryRun, Ticket: by.ticket(p, by.operatorFlags)})
	if err != nil {
		return err
	}
	made, err := work(admin, s)
	if err == nil && by.Ask {
		return p.requestApproval(ctx, s, made.Plan, by.pinFlags, by.operatorFlags, by.format)
	}
	return p.printRefusal(err)
}

// changing says how a verb makes its change, and how it describes the result.
type changing struct {
	make          func(a *couponadmin.Admin, ctx context.Context, couponID coupon.CouponID) (*couponadmin.Change, error)
	done, already text.Message                         // already is printed if there was nothing to change
	details       func(view.View, *couponadmin.Change) // prints more about a change that was made; may be nil
}

// onCoupon declares a verb that changes one coupon.
func onCoupon(title text.Message, right signin.Right, action approval.Action) verb.Declaration {
	return verb.Declaration{Title: title, On: verb.Coupon, Right: right, Actions: []approval.Action{action},
		API: "POST /v1/coupons/{coupon}/" + string(action)}
}

func (c *change) do(ctx context.Context, p *program, how changing) error {
	var made *couponadmin.Change
	err := p.administer(ctx, c.deciding(), func(a *couponadmin.Admin, _ *servers) (_ *couponadmin.Change, err error) {
		made, err = how.make(a, ctx, c.ID)
		return made, err
	})
	if err != nil || c.Ask {
		return err
	}
	switch {
	case c.Output == "json":
		err = output.JSON(p.Stdout, made.Summary())
	case c.DryRun && made.Changed:
		p.view().Planned(made, 0)
	default:
		p.view().Changed(made, how.done, how.already)
	}
	if c.DryRun {
		return err
	}
	if made.PublishErr != nil {
		p.warn(text.ChangeNotPublished, made.PublishErr)
	}
	if c.Output != "json" && made.Changed && how.details != nil {
		how.details(p.view(), made)
	}
	return err
}
