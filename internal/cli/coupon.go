package cli

import (
	"cmp"
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
	Output        string `enum:"table,json" default:"table"`
}

func (c *change) Validate() error {
	return c.operatorFlags.checkUnless(c.DryRun)
}

func (p *program) changeCoupon(ctx context.Context, person operatorFlags, approved approvalFlags, dryRun bool,
	format string, make func(*couponadmin.Admin) (*couponadmin.Change, error)) (made *couponadmin.Change, err error) {
	err = p.administer(ctx, person, approved, dryRun, func(a *couponadmin.Admin, s *servers) error {
		made, err = make(a)
		if err == nil && approved.Ask {
			return cmp.Or(p.requestApproval(ctx, s, made.Plan, approved.pinFlags, person, format), error(errAsked))
		}
		return err
	})
	return made, err
}

func (p *program) administer(ctx context.Context, person operatorFlags, approved approvalFlags, dryRun bool,
	work func(*couponadmin.Admin, *servers) error) error {
	if dryRun { // nobody is recorded
		person = operatorFlags{"-", "-"}
	}
	s, err := p.openWriting(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	admin, err := couponadmin.New(couponadmin.Config{DB: mysqltx.New(s.MySQL), Redis: s.store, Now: p.Now,
		Operator: person.Operator, Reason: person.Reason, DryRun: approved.Ask || dryRun,
		Ticket: approved.ticket(p, person)})
	if err != nil {
		return err
	}
	return p.printRefusal(work(admin, s))
}

// changing says how a verb makes its change, and how it describes the result.
type changing struct {
	make          func(a *couponadmin.Admin, ctx context.Context, couponID coupon.CouponID) (*couponadmin.Change, error)
	done, already text.Message                         // already is printed if there was nothing to change
	details       func(view.View, *couponadmin.Change) // prints more about a change that was made; may be nil
	approved      approvalFlags
}

// planned prints what a change would do.
func (p *program) planned(made *couponadmin.Change, user coupon.UserID, summary any, format string) error {
	if format == "json" {
		return output.JSON(p.Stdout, summary)
	}
	p.view().Planned(made, user)
	return nil
}

// errAsked ends a verb that has asked for an approval instead of making its change.
var errAsked = exitError(exitDone)

// unlessAsked returns nil if the approval was asked for.
func unlessAsked(err error) error {
	if asked, ok := errors.AsType[exitError](err); ok && asked == errAsked {
		return nil
	}
	return err
}

// changes has an entry for each verb that takes no flags other than those of change.
var changes = map[string]changing{
	"close": {(*couponadmin.Admin).Close, text.CouponIsClosed, text.CouponWasClosed, view.View.Closed,
		approvalFlags{}},
	"pause": {(*couponadmin.Admin).Pause, text.CouponIsPaused, text.CouponWasPaused, nil, approvalFlags{}},
	"resume": {(*couponadmin.Admin).Resume, text.CouponIsResumed, text.CouponWasNotPaused, view.View.Resumed,
		approvalFlags{}},
	"recount": {(*couponadmin.Admin).Recount, text.CouponIsRecounted, text.CouponWasRight, view.View.Recounted,
		approvalFlags{}},
	"freeze": {(*couponadmin.Admin).Freeze, text.CouponIsFrozen, text.CouponWasFrozen, nil, approvalFlags{}},
}

func (c *change) run(ctx context.Context, p *program) error {
	if p.verb == "unfreeze" { // its details name the next nightly run
		return c.do(ctx, p, changing{(*couponadmin.Admin).Unfreeze, text.CouponIsUnfrozen, text.CouponWasUnfrozen,
			p.settledFromNow, approvalFlags{}})
	}
	return c.do(ctx, p, changes[p.verb])
}

func (p *program) settledFromNow(v view.View, made *couponadmin.Change) {
	v.SettledFromNow(made, p.nextNight(p.Now()))
}

func (c *change) do(ctx context.Context, p *program, how changing) error {
	made, err := p.changeCoupon(ctx, c.operatorFlags, how.approved, c.DryRun, c.Output,
		func(a *couponadmin.Admin) (*couponadmin.Change, error) { return how.make(a, ctx, c.ID) })
	if err != nil {
		return unlessAsked(err)
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
	}, text.CouponIsExtended, text.CouponWasExtended, view.View.Extended, approvalFlags{}})
}

type couponSeatsCmd struct {
	change        `embed:""`
	Seats         int64 `xor:"seats" placeholder:"N"`
	Total         int64 `xor:"seats" placeholder:"N"`
	approvalFlags `embed:""`
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
	}, c.approvalFlags})
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
	}, approvalFlags{}})
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
	operatorFlags   `embed:""`
	Output          string `enum:"table,json" default:"table"`
}

func (c *couponCreateCmd) coupon(zone *time.Location) (n couponadmin.NewCoupon, err error) {
	opens, wrongOpens := instant("--opens", c.Opens, zone)
	closes, wrongCloses := instant("--closes", c.Closes, zone)
	n = couponadmin.NewCoupon{Name: c.Name, Seats: c.Seats, Opens: opens, Closes: closes, ValidityDays: c.ValidityDays,
		Discount: coupon.Discount{DiscountWon: c.DiscountWon, DiscountPercent: c.DiscountPercent,
			DiscountMaxWon: c.DiscountMaxWon, MinimumWon: c.MinimumWon},
		Campaign: c.Campaign, Cadence: cadenceOf(c.Cadence), LineLimit: c.LineLimit}
	return n, errors.Join(wrongOpens, wrongCloses, errors.Join(n.Problems()...))
}

func (c *couponCreateCmd) Validate() error {
	_, err := c.coupon(time.UTC)
	return errors.Join(err, c.operatorFlags.check(text.OperatorIsRecorded))
}

func (c *couponCreateCmd) run(ctx context.Context, p *program) error {
	made, err := p.changeCoupon(ctx, c.operatorFlags, approvalFlags{}, false, c.Output,
		func(a *couponadmin.Admin) (*couponadmin.Change, error) {
			n, err := c.coupon(p.Zone)
			if err != nil {
				return nil, err
			}
			return a.Create(ctx, n)
		})
	if err != nil {
		return err
	}
	is := made.After
	if is.LineLimit > 0 && is.LineLimit < is.TotalQuantity {
		p.warn(text.LineLimitBelowSeats, is.LineLimit, is.TotalQuantity)
	}
	if c.Output == "json" {
		return json.NewEncoder(p.Stdout).Encode(map[string]coupon.CouponID{"coupon": is.ID})
	}
	fmt.Fprintln(p.Stdout, is.ID)
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
