package cli

import (
	"context"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
	"github.com/jajeong/jajeong/internal/view"
)

type couponCloseCmd struct {
	change `embed:""`
}

func (*couponCloseCmd) Declare() verb.Declaration {
	return onCoupon(text.ConsoleClose, signin.Campaign, approval.Close)
}

func (c *couponCloseCmd) run(ctx context.Context, p *program) error {
	return c.do(ctx, p, changing{(*couponadmin.Admin).Close, text.CouponIsClosed, text.CouponWasClosed,
		view.View.Closed})
}

type couponExtendCmd struct {
	change `embed:""`
	Closes string `required:"" placeholder:"TIME" form:"datetime-local"`
}

func (*couponExtendCmd) Declare() verb.Declaration {
	return onCoupon(text.ConsoleExtend, signin.Campaign, approval.Extend)
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

type couponPauseCmd struct {
	change `embed:""`
}

func (*couponPauseCmd) Declare() verb.Declaration {
	return onCoupon(text.ConsolePause, signin.Campaign, approval.Pause)
}

func (c *couponPauseCmd) run(ctx context.Context, p *program) error {
	return c.do(ctx, p, changing{(*couponadmin.Admin).Pause, text.CouponIsPaused, text.CouponWasPaused, nil})
}

type couponResumeCmd struct {
	change `embed:""`
}

func (*couponResumeCmd) Declare() verb.Declaration {
	return onCoupon(text.ConsoleResume, signin.Campaign, approval.Resume)
}

func (c *couponResumeCmd) run(ctx context.Context, p *program) error {
	return c.do(ctx, p, changing{(*couponadmin.Admin).Resume, text.CouponIsResumed, text.CouponWasNotPaused,
		view.View.Resumed})
}

// localForms are the accepted forms of an instant without a zone.
var localForms = []string{"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05"}

// instant parses a time in RFC 3339, or in one of localForms, which means local time in the given zone. Of a local time
// that comes twice, it is the first.
func instant(flag, given string, zone *time.Location) (time.Time, error) {
	t, exists, err := parseTime(given, zone)
	switch {
	case err != nil || t.Year() < 1970 || t.Year() > 9998:
		return time.Time{}, about(flag, text.UsageErrorf(text.WrongTime, flag, given))
	case !exists:
		return time.Time{}, about(flag, text.UsageErrorf(text.TimeSkipped, flag, given, zone.String()))
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
