package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/schedule"
	"github.com/jajeong/jajeong/internal/text"
)

type couponCmd struct {
	List     couponListCmd    `cmd:""`
	Show     couponShowCmd    `cmd:""`
	Create   couponCreateCmd  `cmd:""`
	Close    couponCloseCmd   `cmd:""`
	Extend   couponExtendCmd  `cmd:""`
	Pause    couponPauseCmd   `cmd:""`
	Resume   couponResumeCmd  `cmd:""`
	Recount  couponRecountCmd `cmd:""`
	AddSeats couponSeatsCmd   `cmd:"" name:"add-seats"`
}

// explainRefusal prints why a change was refused, its times in the zone of the settlements. It returns other errors
// unchanged.
func (p *program) explainRefusal(err error) error {
	var refused *text.UsageError
	if !errors.As(err, &refused) {
		return err
	}
	args := slices.Clone(refused.Args)
	for i, arg := range args {
		if at, ok := arg.(time.Time); ok {
			args[i] = output.InZone(at, p.zone)
		}
	}
	fmt.Fprintln(p.stderr, "settle:", p.sprintf(refused.Message, args...))
	fmt.Fprintln(p.stderr, p.sprintf(text.NothingChanged))
	return exitError(exitUse)
}

// change holds the flags of every verb that changes a coupon.
type change struct {
	ID            uint64 `arg:"" name:"id"`
	operatorFlags `embed:""`
	Output        string `enum:"table,json" default:"table"`
}

// Validate reports what is impossible about the flags.
func (c *change) Validate() error {
	return c.operatorFlags.check(text.ChangeIsRecorded)
}

// changeCoupon makes a change.
func (p *program) changeCoupon(ctx context.Context, person operatorFlags, make func(*couponadmin.Admin) (*couponadmin.Change, error)) (*couponadmin.Change, error) {
	s, err := p.openWriting(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	admin, err := couponadmin.New(couponadmin.Config{DB: mysqltx.New(s.MySQL), Clock: s.store, Windows: s.store, Now: p.now,
		Operator: person.Operator, Reason: person.Reason})
	if err != nil {
		return nil, err
	}
	made, err := make(admin)
	return made, p.explainRefusal(err)
}

// changed is a change as programs read it.
type changed struct {
	Coupon      uint64    `json:"coupon"`
	Changed     bool      `json:"changed"`
	Seats       int       `json:"seats"`
	Issued      int       `json:"issued"`
	OpensAt     time.Time `json:"opensAt"`
	ClosesAt    time.Time `json:"closesAt"`
	Paused      bool      `json:"paused"`
	Finalised   bool      `json:"finalised"`
	NotSelected int       `json:"notSelected"` // candidates for free seats
	DoorTold    bool      `json:"doorTold"`    // false: the catalog publishes the change within 5 s
	SoldOut     *bool     `json:"soldOut"`     // whether new applications are answered SOLD_OUT; null: unknown
}

// do makes a change and prints the result: done for a change, already for none.
func (c *change) do(ctx context.Context, p *program, done, already text.Message, make func(*couponadmin.Admin) (*couponadmin.Change, error)) (*couponadmin.Change, error) {
	made, err := p.changeCoupon(ctx, c.operatorFlags, make)
	if err != nil {
		return nil, err
	}
	if c.Output == "json" {
		err = output.JSON(p.stdout, changed{
			Coupon: made.After.ID, Changed: made.Changed, Seats: made.After.TotalQuantity, Issued: made.After.IssuedCount, OpensAt: made.After.OpensAt,
			ClosesAt: made.After.ClosesAt, Paused: made.After.Paused(), Finalised: !made.After.FinalisedAt.IsZero(), NotSelected: made.NotSelected,
			DoorTold: made.PublishErr == nil, SoldOut: soldOut(made),
		})
	} else {
		switch {
		case !made.Changed:
			done = already
		case made.PublishErr != nil:
			done = text.ChangeRecorded
		}
		fmt.Fprintln(p.stdout, p.sprintf(done, made.After.ID, output.Printable(made.After.Name)))
	}
	if made.PublishErr != nil {
		fmt.Fprintln(p.stderr, p.sprintf(text.ChangeNotPublished, made.PublishErr))
	}
	return made, err
}

func soldOut(made *couponadmin.Change) *bool {
	if made.PublishErr != nil || !made.After.FinalisedAt.IsZero() { // the door was not asked
		return nil
	}
	return &made.SoldOut
}

// newcomers describes the answer to new applications; it is empty where they are accepted.
func (p *program) newcomers(made *couponadmin.Change) string {
	is := made.After
	switch {
	case is.Paused():
		return p.sprintf(text.NewcomersPaused)
	case !is.ClosesAt.After(made.At):
		return p.sprintf(text.NewcomersClosed, output.InZone(is.ClosesAt, p.zone))
	case is.OpensAt.After(made.At):
		return p.sprintf(text.OpensAt, output.InZone(is.OpensAt, p.zone))
	case made.SoldOut && is.TotalQuantity == is.IssuedCount:
		return p.sprintf(text.NewcomersSoldOut)
	case made.SoldOut:
		return p.sprintf(text.NewcomersSoldOutUntilRun, is.ID)
	default:
		return ""
	}
}

func (c *change) said(p *program, m text.Message, args ...any) {
	if c.Output != "json" {
		fmt.Fprintln(p.stdout, p.sprintf(m, args...))
	}
}

type couponCloseCmd struct {
	change `embed:""`
}

func (c *couponCloseCmd) run(ctx context.Context, p *program) error {
	made, err := c.do(ctx, p, text.CouponIsClosed,
		text.CouponWasClosed,
		func(a *couponadmin.Admin) (*couponadmin.Change, error) { return a.Close(ctx, c.ID) })
	if err == nil && made.Changed {
		c.said(p, text.ClosedNow,
			output.InZone(made.After.ClosesAt, p.zone), output.InZone(made.Before.ClosesAt, p.zone))
	}
	return err
}

type couponExtendCmd struct {
	change `embed:""`
	Closes string `required:"" placeholder:"TIME"`
}

// Validate reports what is impossible about the flags.
func (c *couponExtendCmd) Validate() error {
	var problems []error
	if _, err := instant("--closes", c.Closes, time.UTC); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(append(problems, c.change.Validate())...)
}

func (c *couponExtendCmd) run(ctx context.Context, p *program) error {
	closes, _ := instant("--closes", c.Closes, p.zone) // Validate has read it
	made, err := c.do(ctx, p, text.CouponIsExtended,
		text.CouponWasExtended,
		func(a *couponadmin.Admin) (*couponadmin.Change, error) { return a.Extend(ctx, c.ID, closes) })
	if err != nil || !made.Changed {
		return err
	}
	c.said(p, text.ClosesAt, output.InZone(made.After.ClosesAt, p.zone), output.InZone(made.Before.ClosesAt, p.zone))
	if told := p.newcomers(made); made.PublishErr != nil {
		return nil
	} else if told != "" {
		fmt.Fprintln(p.stdout, told)
	} else if !made.Before.ClosesAt.After(made.At) {
		c.said(p, text.OpenAgain)
	}
	return nil
}

type couponPauseCmd struct {
	change `embed:""`
}

func (c *couponPauseCmd) run(ctx context.Context, p *program) error {
	_, err := c.do(ctx, p, text.CouponIsPaused,
		text.CouponWasPaused,
		func(a *couponadmin.Admin) (*couponadmin.Change, error) { return a.Pause(ctx, c.ID) })
	return err
}

type couponResumeCmd struct {
	change `embed:""`
}

func (c *couponResumeCmd) run(ctx context.Context, p *program) error {
	made, err := c.do(ctx, p, text.CouponIsResumed,
		text.CouponWasNotPaused,
		func(a *couponadmin.Admin) (*couponadmin.Change, error) { return a.Resume(ctx, c.ID) })
	if err != nil || !made.Changed || made.PublishErr != nil {
		return err
	}
	if told := p.newcomers(made); told != "" {
		fmt.Fprintln(p.stdout, told)
	} else {
		c.said(p, text.TakesApplications)
	}
	return nil
}

type couponRecountCmd struct {
	change `embed:""`
}

func (c *couponRecountCmd) run(ctx context.Context, p *program) error {
	made, err := c.do(ctx, p, text.CouponIsRecounted,
		text.CouponWasRight,
		func(a *couponadmin.Admin) (*couponadmin.Change, error) { return a.Recount(ctx, c.ID) })
	if err == nil && made.Changed {
		c.said(p, text.Recounted,
			made.After.IssuedCount, made.Before.IssuedCount, made.After.TotalQuantity, made.After.TotalQuantity-made.After.IssuedCount)
	}
	return err
}

type couponSeatsCmd struct {
	change `embed:""`
	Seats  int64 `xor:"seats" placeholder:"N"`
	Total  int64 `xor:"seats" placeholder:"N"`
}

// Validate reports what is impossible about the flags.
func (c *couponSeatsCmd) Validate() error {
	var problems []error
	if c.Seats < 0 || c.Seats > couponadmin.MaxSeats || c.Total < 0 || c.Seats+c.Total == 0 {
		problems = append(problems, text.UsageErrorf(text.SeatsOrTotalMissing, int64(couponadmin.MaxSeats)))
	}
	return errors.Join(append(problems, c.change.Validate())...)
}

func (c *couponSeatsCmd) run(ctx context.Context, p *program) error {
	made, err := c.do(ctx, p, text.CouponHasNewSeats,
		text.CouponHadTheseSeats,
		func(a *couponadmin.Admin) (*couponadmin.Change, error) {
			if c.Total > 0 {
				return a.SetSeats(ctx, c.ID, int(c.Total))
			}
			return a.AddSeats(ctx, c.ID, int(c.Seats))
		})
	if err != nil || !made.Changed {
		return err
	}
	left := made.After.TotalQuantity - made.After.IssuedCount
	c.said(p, text.SeatsNow, made.After.TotalQuantity, made.Before.TotalQuantity, made.After.IssuedCount, left)
	timetable, err := schedule.Parse(p.SettleSchedule, p.zone)
	if err != nil {
		return err
	}
	night := output.InZone(timetable.Next(made.At), p.zone)
	switch {
	case left == 0:
	case made.NotSelected > 0:
		c.said(p, text.SeatsForNotSelected, made.NotSelected, night, c.ID)
	case !made.After.FinalisedAt.IsZero():
		c.said(p, text.SeatsForNobody)
	case !made.After.ClosesAt.After(made.At):
		c.said(p, text.SeatsAfterClosing, night)
	case made.PublishErr != nil: // the answer to new applications is unknown
	case made.SoldOut:
		c.said(p, text.SeatsAfterSoldOut, night, c.ID)
	default:
		c.said(p, text.SeatsForQueue, night)
	}
	return nil
}

type couponCreateCmd struct {
	Name          string `required:""`
	Seats         int64  `required:"" placeholder:"N"`
	Opens         string `required:"" placeholder:"TIME"`
	Closes        string `required:"" placeholder:"TIME"`
	ValidityDays  int64  `default:"30" placeholder:"N"`
	DiscountWon   int64  `default:"0" placeholder:"N"`
	Campaign      uint64 `placeholder:"ID"`
	operatorFlags `embed:""`
	Output        string `enum:"table,json" default:"table"`
}

func (c *couponCreateCmd) coupon(zone *time.Location) (n couponadmin.NewCoupon, problems []error) {
	opens, err := instant("--opens", c.Opens, zone)
	if err != nil {
		problems = append(problems, err)
	}
	closes, err := instant("--closes", c.Closes, zone)
	if err != nil {
		problems = append(problems, err)
	}
	n = couponadmin.NewCoupon{Name: c.Name, Seats: c.Seats, Opens: opens, Closes: closes, ValidityDays: c.ValidityDays, DiscountWon: c.DiscountWon, Campaign: c.Campaign}
	return n, append(problems, n.Problems()...)
}

// Validate reports what is impossible about the flags.
func (c *couponCreateCmd) Validate() error {
	_, problems := c.coupon(time.UTC)
	return errors.Join(append(problems, c.operatorFlags.check(text.CreationIsRecorded))...)
}

func (c *couponCreateCmd) run(ctx context.Context, p *program) error {
	n, _ := c.coupon(p.zone) // Validate has read it
	made, err := p.changeCoupon(ctx, c.operatorFlags, func(a *couponadmin.Admin) (*couponadmin.Change, error) { return a.Create(ctx, n) })
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return json.NewEncoder(p.stdout).Encode(map[string]uint64{"coupon": made.After.ID})
	}
	fmt.Fprintln(p.stdout, made.After.ID)
	fmt.Fprintln(p.stderr, p.sprintf(text.CouponIsCreated,
		made.After.ID, output.Printable(made.After.Name), made.After.TotalQuantity, output.InZone(made.After.OpensAt, p.zone), output.InZone(made.After.ClosesAt, p.zone)))
	return nil
}

// localForms are instants as people write them, without a zone.
var localForms = []string{"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05"}

// instant parses a time: RFC 3339, or local time in the zone of the settlements.
func instant(flag, given string, zone *time.Location) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, given)
	for _, form := range localForms {
		if err != nil {
			t, err = time.ParseInLocation(form, given, zone)
		}
	}
	if err != nil || t.Year() < 1970 || t.Year() > 9998 {
		return time.Time{}, text.UsageErrorf(text.WrongTime,
			flag, given)
	}
	return t.UTC().Truncate(time.Microsecond), nil
}
