package cli

import (
	"context"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
	"github.com/jajeong/jajeong/internal/view"
)

// holder holds the common flags of the verbs that change the coupon of one user.
type holder struct {
	change `embed:""`
	User   coupon.UserID `required:"" placeholder:"ID"`
}

// onHolder declares a verb that changes the coupon of one user.
func onHolder(title text.Message, action approval.Action) verb.Declaration {
	return verb.Declaration{Title: title, On: verb.Holder, Right: signin.ChangePerson,
		Actions: []approval.Action{action}, API: "POST /v1/coupons/{coupon}/users/{user}/" + string(action)}
}

// holderVerb says how a verb makes its change, and how it describes the result.
type holderVerb struct {
	make          func(a *couponadmin.Admin, s *servers) (*couponadmin.HolderChange, error)
	done, already text.Message
	notPublished  text.Message
	details       func(view.View, *couponadmin.HolderChange) // prints more about a change that was made; may be nil
}

func (c *holder) do(ctx context.Context, p *program, how holderVerb) error {
	var made *couponadmin.HolderChange
	err := p.administer(ctx, c.deciding(), func(a *couponadmin.Admin, s *servers) (_ *couponadmin.Change, err error) {
		if made, err = how.make(a, s); err != nil {
			return nil, err
		}
		return &made.Change, nil
	})
	if err != nil || c.Ask {
		return err
	}
	switch {
	case c.Output == "json":
		err = output.JSON(p.Stdout, made.Summary())
	case c.DryRun && made.Changed:
		p.view().Planned(&made.Change, c.User)
	default:
		p.view().HolderChanged(made, how.done, how.already)
	}
	if c.DryRun {
		return err
	}
	if made.PublishErr != nil {
		p.warn(how.notPublished, made.PublishErr)
	}
	if c.Output != "json" && made.Changed && how.details != nil {
		how.details(p.view(), made)
	}
	return err
}

// seats prints what becomes of a seat that a change has added or taken away.
func (p *program) seats(v view.View, made *couponadmin.HolderChange) {
	if made.After.TotalQuantity != made.Before.TotalQuantity {
		v.SeatsChanged(&made.Change, p.nextNight(p.Now()))
	}
}

type couponGrantCmd struct {
	change `embed:""`
	User   coupon.UserID `placeholder:"ID" form:"either"`
	File   string        `placeholder:"FILE" form:"file,either"`
}

func (*couponGrantCmd) Declare() verb.Declaration {
	d := onHolder(text.ConsoleGrant, approval.Grant)
	d.Upload = "POST /v1/coupons/{coupon}/grants"
	d.RightOf = func(given verb.Values) signin.Right {
		if coupon.ParseUserID(given["user"]) > 0 && given["file"] == "" {
			return signin.ChangePerson
		}
		return signin.GrantList
	}
	return d
}

func (c *couponGrantCmd) Validate() error {
	return errors.Join(about("--user", refuse((c.User > 0) == (c.File != ""), text.UserOrFile)), c.change.Validate())
}

func (c *couponGrantCmd) run(ctx context.Context, p *program) error {
	if c.File != "" {
		return c.grantList(ctx, p)
	}
	one := holder{c.change, c.User}
	return one.do(ctx, p, holderVerb{func(a *couponadmin.Admin, s *servers) (*couponadmin.HolderChange, error) {
		return a.Grant(ctx, c.ID, couponadmin.Grantee{User: c.User, Users: s.users, Zone: p.Zone})
	}, text.CouponIsGranted, text.CouponWasGranted, text.GrantNotMarked,
		func(v view.View, made *couponadmin.HolderChange) {
			if !made.After.Finalised() {
				v.Println(text.GrantedApplication)
			}
		}})
}

// progressEvery is the interval between lines about the progress of a list.
const progressEvery = 5 * time.Second

func (c *couponGrantCmd) grantList(ctx context.Context, p *program) error {
	list, err := p.readList(c.File)
	if err != nil {
		return p.printRefusal(err)
	}
	var made *couponadmin.ListGrant
	err = p.administer(ctx, c.deciding(), func(a *couponadmin.Admin, s *servers) (*couponadmin.Change, error) {
		told := p.Now()
		progress := func(done int) {
			if p.progress != nil {
				p.progress(done, len(list.Users))
			} else if now := p.Now(); now.Sub(told) >= progressEvery {
				p.warn(text.ListProgress, done, len(list.Users))
				told = now
			}
		}
		made, err = a.GrantList(ctx, c.ID, couponadmin.Grantees{List: list, Users: s.users, Zone: p.Zone,
			Progress: progress})
		if err != nil && made.Granted > 0 && !a.DryRun { // what is done stays
			if c.Output == "json" {
				_ = output.JSON(p.Stdout, made.Summary()) // the error of the list is the one to tell
			} else {
				p.view().ListGranted(made)
			}
			p.printErrors(err)
			p.warn(text.ListStopped, made.Done(), made.Users)
			return nil, exitError(exitInfrastructure) // safe to run again, which goes on
		}
		return &couponadmin.Change{Plan: made.Plan}, err
	})
	switch {
	case err != nil || c.Ask:
		return err
	case c.Output == "json":
		err = output.JSON(p.Stdout, made.Summary())
	case c.DryRun:
		p.view().ListPlanned(made)
	default:
		p.view().ListGranted(made)
	}
	if made.PublishErr != nil {
		p.warn(text.ListNotMarked, made.PublishErr)
	}
	return err
}

type couponRevokeCmd struct {
	holder   `embed:""`
	FreeSeat bool
}

func (*couponRevokeCmd) Declare() verb.Declaration {
	return onHolder(text.ConsoleRevoke, approval.Revoke)
}

func (c *couponRevokeCmd) run(ctx context.Context, p *program) error {
	return c.do(ctx, p, holderVerb{func(a *couponadmin.Admin, _ *servers) (*couponadmin.HolderChange, error) {
		return a.Revoke(ctx, c.ID, c.User, c.FreeSeat)
	}, text.CouponIsRevoked, text.CouponWasRevoked, text.ChangeNotPublished, p.seats})
}

type couponReissueCmd struct {
	holder `embed:""`
}

func (*couponReissueCmd) Declare() verb.Declaration {
	return onHolder(text.ConsoleReissue, approval.Reissue)
}

func (c *couponReissueCmd) run(ctx context.Context, p *program) error {
	return c.do(ctx, p, holderVerb{func(a *couponadmin.Admin, _ *servers) (*couponadmin.HolderChange, error) {
		return a.Reissue(ctx, c.ID, c.User)
	}, text.CouponIsReissued, text.CouponWasReissued, text.ChangeNotPublished, p.seats})
}

type couponUnuseCmd struct {
	holder `embed:""`
}

func (*couponUnuseCmd) Declare() verb.Declaration {
	return onHolder(text.ConsoleUnuse, approval.Unuse)
}

func (c *couponUnuseCmd) run(ctx context.Context, p *program) error {
	return c.do(ctx, p, holderVerb{func(a *couponadmin.Admin, _ *servers) (*couponadmin.HolderChange, error) {
		return a.Unuse(ctx, c.ID, c.User)
	}, text.CouponIsUnused, text.CouponWasUnused, text.ChangeNotPublished,
		func(v view.View, made *couponadmin.HolderChange) {
			v.Println(text.UnusedOrder, output.Printable(made.Undone.ID), made.Undone.DiscountWon)
		}})
}

type couponExtendUserCmd struct {
	holder `embed:""`
	Until  string `required:"" placeholder:"DATE" form:"date"`
}

func (*couponExtendUserCmd) Declare() verb.Declaration {
	return onHolder(text.ConsoleExtendUser, approval.ExtendUser)
}

// end returns the end of validity, exclusive: the midnight that ends the date.
func (c *couponExtendUserCmd) end(zone *time.Location) (time.Time, error) {
	end, err := calendar.DateCutoff(c.Until, zone)
	if err != nil {
		return end, about("--until", text.UsageErrorf(text.WrongDate, "--until", c.Until))
	}
	return end, after1970("--until", c.Until, end)
}

func (c *couponExtendUserCmd) Validate() error {
	_, err := c.end(time.UTC)
	return errors.Join(err, c.change.Validate())
}

func (c *couponExtendUserCmd) run(ctx context.Context, p *program) error {
	return c.do(ctx, p, holderVerb{func(a *couponadmin.Admin, _ *servers) (*couponadmin.HolderChange, error) {
		end, _ := c.end(p.Zone) // no error: Validate has read --until
		return a.ExtendUser(ctx, c.ID, c.User, end)
	}, text.CouponOfUserIsExtended, text.CouponOfUserWasExtended, text.ChangeNotPublished, nil})
}
