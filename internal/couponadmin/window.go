package couponadmin

import (
	"context"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

// maxCloses: arrivals are whole microseconds in a double until the year 2255, and applications may wait after the window.
var maxCloses = time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC)

// Close ends a coupon's window now. Applications that were accepted before keep their place.
func (a *Admin) Close(ctx context.Context, couponID coupon.CouponID) (*Change, error) {
	return a.change(ctx, couponID, operation{action: audit.CouponClosed, plan: planClose})
}

func planClose(c coupon.Coupon, now time.Time, _ facts) (coupon.Coupon, error) {
	switch {
	case c.Finalised():
		return c, text.UsageErrorf(text.RefusedFinalised, c.ID, c.FinalisedAt)
	case !c.OpensAt.Before(now):
		return c, text.UsageErrorf(text.RefusedNotOpen, c.ID, c.OpensAt)
	case c.ClosesAt.After(now):
		c.ClosesAt = now
	}
	return c, nil
}

// Extend makes a coupon's window end later. A closed window opens again: no application can arrive before a settled cutoff,
// because the fence stays and the promise row remembers it. Redis must still know the users it has to refuse.
func (a *Admin) Extend(ctx context.Context, couponID coupon.CouponID, closes time.Time) (*Change, error) {
	return a.change(ctx, couponID, operation{
		action:     audit.CouponExtended,
		needsMarks: func(c coupon.Coupon, now time.Time) bool { return !c.ClosesAt.After(now) },
		plan: func(c coupon.Coupon, now time.Time, f facts) (coupon.Coupon, error) {
			return planExtend(c, now, f, closes)
		},
	})
}

func planExtend(c coupon.Coupon, now time.Time, f facts, closes time.Time) (coupon.Coupon, error) {
	switch {
	case c.Finalised():
		return c, text.UsageErrorf(text.RefusedFinalised, c.ID, c.FinalisedAt)
	case f.swept:
		return c, text.UsageErrorf(text.RefusedSwept, c.ID)
	case !closes.After(c.OpensAt):
		return c, text.UsageErrorf(text.RefusedEndsBeforeItOpens, c.ID, closes, c.OpensAt)
	case !closes.After(now):
		return c, text.UsageErrorf(text.RefusedPast, c.ID, closes, now)
	case closes.After(maxCloses):
		return c, text.UsageErrorf(text.RefusedFar, closes, maxCloses)
	case closes.Before(c.ClosesAt):
		return c, text.UsageErrorf(text.RefusedShorter, c.ID, closes, c.ClosesAt)
	case f.marksLost && f.uncleaned:
		return c, text.UsageErrorf(text.RefusedUnfinished, c.ID)
	case f.marksLost:
		return c, text.UsageErrorf(text.RefusedForgotten, c.ID)
	}
	c.ClosesAt = closes.UTC().Truncate(time.Microsecond)
	return c, nil
}

// Pause makes Redis refuse new applications until Resume. While Redis is unreachable, the row is changed all the same.
func (a *Admin) Pause(ctx context.Context, couponID coupon.CouponID) (*Change, error) {
	return a.setStatus(ctx, couponID, audit.CouponPaused, coupon.Paused)
}

// Resume undoes Pause.
func (a *Admin) Resume(ctx context.Context, couponID coupon.CouponID) (*Change, error) {
	return a.setStatus(ctx, couponID, audit.CouponResumed, coupon.Open)
}

func (a *Admin) setStatus(ctx context.Context, couponID coupon.CouponID, action audit.Action, status coupon.Status) (*Change, error) {
	return a.change(ctx, couponID, operation{action: action, withoutRedis: true,
		plan: func(c coupon.Coupon, _ time.Time, _ facts) (coupon.Coupon, error) {
			if c.Finalised() {
				return c, text.UsageErrorf(text.RefusedFinalised, c.ID, c.FinalisedAt)
			}
			c.Status = status
			return c, nil
		}})
}
