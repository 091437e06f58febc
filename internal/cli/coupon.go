package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/view"
)

type couponCmd struct {
	List     couponListCmd   `cmd:""`
	Show     couponShowCmd   `cmd:""`
	Create   couponCreateCmd `cmd:""`
	Close    change          `cmd:""`
	Extend   couponExtendCmd `cmd:""`
	Pause    change          `cmd:""`
	Resume   change          `cmd:""`
	Recount  change          `cmd:""`
	AddSeats couponSeatsCmd  `cmd:"" name:"add-seats"`

	Freeze   change           `cmd:""`
	Unfreeze change           `cmd:""`
	Cadence  couponCadenceCmd `cmd:""`

	Grant      couponGrantCmd      `cmd:""`
	Revoke     couponRevokeCmd     `cmd:""`
	Reissue    couponReissueCmd    `cmd:""`
	ExtendUser couponExtendUserCmd `cmd:"" name:"extend-user"`
	Winners    couponWinnersCmd    `cmd:""`
}

// printRefusal prints a UsageError, with its times in p.Zone, and returns the exit code. Other errors pass unchanged.
func (p *program) printRefusal(err error) error {
	refused, ok := errors.AsType[*text.UsageError](err)
	if !ok {
		return err
	}
	if text.IsMissing(err) {
		output.SetNotFound(p.Stderr)
	}
	fmt.Fprintln(p.Stderr, "settle:", p.Sprintf(refused.Message, refused.Args...))
	p.warn(text.NothingChanged)
	return exitError(exitUse)
}

// change holds the common flags of the verbs that change an existing coupon.
type change struct {
	ID            coupon.CouponID `arg:"" name:"id"`
	DryRun        bool            `xor:"approval"`
	operatorFlags `embed:""`
	approvalFlags `embed:""`
	Output        string `enum:"table,json" default:"table"`
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

// planned prints what a change would do.
func (p *program) planned(made *couponadmin.Change, user coupon.UserID, summary any, format string) error {
	if format == "json" {
		return output.JSON(p.Stdout, summary)
	}
	p.view().Planned(made, user)
	return nil
}

// changes has an entry for each verb that takes no flags other than those of change.
var changes = map[string]changing{
	"close":   {(*couponadmin.Admin).Close, text.CouponIsClosed, text.CouponWasClosed, view.View.Closed},
	"pause":   {(*couponadmin.Admin).Pause, text.CouponIsPaused, text.CouponWasPaused, nil},
	"resume":  {(*couponadmin.Admin).Resume, text.CouponIsResumed, text.CouponWasNotPaused, view.View.Resumed},
	"recount": {(*couponadmin.Admin).Recount, text.CouponIsRecounted, text.CouponWasRight, view.View.Recounted},
	"freeze":  {(*couponadmin.Admin).Freeze, text.CouponIsFrozen, text.CouponWasFrozen, nil},
}

func (c *change) run(ctx context.Context, p *program) error {
	if p.verb == "unfreeze" { // its details name the next nightly run
		return c.do(ctx, p, changing{(*couponadmin.Admin).Unfreeze, text.CouponIsUnfrozen, text.CouponWasUnfrozen,
			p.settledFromNow})
	}
	return c.do(ctx, p, changes[p.verb])
}

func (p *program) settledFromNow(v view.View, made *couponadmin.Change) {
	v.SettledFromNow(made, p.nextNight(p.Now()))
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
	if c.DryRun {
		return p.planned(made, 0, made.Summary(), c.Output)
	}
	if c.Output == "json" {
		err = output.JSON(p.Stdout, made.Summary())
	} else {
		p.view().Changed(made, how.done, how.already)
	}
	if made.PublishErr != nil {
		p.warn(text.ChangeNotPublished, made.PublishErr)
	}
	if c.Output != "json" && made.Changed && how.details != nil {
		how.details(p.view(), made)
	}
	return err
}

type couponExtendCmd struct {
	change `embed:""`
	Closes string `required:"" placeholder:"TIME"`
}

func (c *couponExtendCmd) Validate() error {
	_, err := instant("--closes", c.Closes, time.UTC)
	return errors.Join(err, c.change.Validate())
}

func (c *couponExtendCmd) run(ctx context.Context, p *program) error {
	return c.do(ctx, p, changing{func(a *couponadmin.Admin, ctx context.Context,
		id coupon.CouponID) (*couponadmin.Change, error) {
		closes, err := instant("--closes", c.Closes, p.Zone)
		if err != nil {
			return nil, err
		}
		return a.Extend(ctx, id, closes)
	}, text.CouponIsExtended, text.CouponWasExtended, view.View.Extended})
}

type couponSeatsCmd struct {
	change `embed:""`
	Seats  int64 `xor:"seats" placeholder:"N"`
	Total  int64 `xor:"seats" placeholder:"N"`
}

func (c *couponSeatsCmd) Validate() error {
	return errors.Join(
		refuse(c.Seats < 0 || c.Seats > couponadmin.MaxSeats || c.Total < 0 || c.Seats+c.Total == 0,
			text.SeatsOrTotalMissing, int64(couponadmin.MaxSeats)),
		c.change.Validate())
}

func (c *couponSeatsCmd) run(ctx context.Context, p *program) error {
	return c.do(ctx, p, changing{func(a *couponadmin.Admin, ctx context.Context,
		id coupon.CouponID) (*couponadmin.Change, error) {
		if c.Total > 0 {
			return a.SetSeats(ctx, id, int(c.Total))
		}
		return a.AddSeats(ctx, id, int(c.Seats))
	}, text.CouponHasNewSeats, text.CouponHadTheseSeats, func(v view.View, made *couponadmin.Change) {
		v.SeatsChanged(made, p.nextNight(made.At))
	}})
}

type couponCadenceCmd struct {
	change  `embed:""`
	Cadence string `arg:"" enum:"nightly,immediate"`
}

func (c *couponCadenceCmd) run(ctx context.Context, p *program) error {
	return c.do(ctx, p, changing{func(a *couponadmin.Admin, ctx context.Context,
		id coupon.CouponID) (*couponadmin.Change, error) {
		return a.SetCadence(ctx, id, cadenceOf(c.Cadence))
	}, text.CouponHasCadence, text.CouponHadThisCadence, func(v view.View, made *couponadmin.Change) {
		v.CadenceChanged(made)
		p.settledFromNow(v, made)
	}})
}

func cadenceOf(flag string) coupon.Cadence { return coupon.Cadence(strings.ToUpper(flag)) }

type couponCreateCmd struct {
	Name            string `required:""`
	Seats           int64  `required:"" placeholder:"N"`
	Opens           string `required:"" placeholder:"TIME"`
	Closes          string `required:"" placeholder:"TIME"`
	ValidityDays    int64  `default:"30" placeholder:"N"`
	DiscountWon     int64  `default:"0" placeholder:"N"`
	DiscountPercent int64  `placeholder:"P"`
	DiscountMaxWon  int64  `placeholder:"N"`
	MinimumWon      int64  `placeholder:"N"`
	Campaign        uint64 `placeholder:"ID"`
	Cadence         string `enum:"nightly,immediate" default:"nightly"`
	LineLimit       int64  `placeholder:"N"`
	Key             string `placeholder:"KEY"`
	DryRun          bool   `xor:"approval"`
	operatorFlags   `embed:""`
	approvalFlags   `embed:""`
	Output          string `enum:"table,json" default:"table"`
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
	case !made.Changed:
		return p.planned(made, 0, made.Summary(), c.Output)
	default:
		return p.printPlan(made.Plan, c.Output, func(v view.View) { v.PlannedCreation(n, made.Plan) })
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

// localForms are the accepted forms of an instant without a zone.
var localForms = []string{"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05"}

// instant parses a time in RFC 3339, or in one of localForms, which means local time in the given zone. Of a local time
// that comes twice, it is the first.
func instant(flag, given string, zone *time.Location) (time.Time, error) {
	t, exists, err := parseTime(given, zone)
	switch {
	case err != nil || t.Year() < 1970 || t.Year() > 9998:
		return time.Time{}, text.UsageErrorf(text.WrongTime, flag, given)
	case !exists:
		return time.Time{}, text.UsageErrorf(text.TimeSkipped, flag, given, zone.String())
	}
	return t.UTC().Truncate(time.Microsecond), nil
}

func parseTime(given string, zone *time.Location) (t time.Time, exists bool, err error) {
	if t, err = time.Parse(time.RFC3339Nano, given); err == nil {
		return t, true, nil
	}
	for _, form := range localForms {
		wall, err := time.Parse(form, given)
		if err == nil {
			t, exists = calendar.At(wall, zone)
			return t, exists, nil
		}
	}
	return t, false, err
}
