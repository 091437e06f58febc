package couponadmin

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

var maxCloses = time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC) // well before coupon.MaxArrival, in 2255

// asking is a plan of a change that has no arguments.
func asking(action approval.Action, couponID coupon.CouponID) approval.Plan {
	return approval.Plan{Action: action, Coupon: couponID}
}

// Close ends the window now. While Redis is unreachable, it ends ten seconds after the time of MySQL and after every
// arrival that MySQL knows: pods that reach Redis may accept applications until they have published the end.
func (a *Admin) Close(ctx context.Context, couponID coupon.CouponID) (*Change, error) {
	return a.change(ctx, couponID, operation{action: audit.CouponClosed, asked: asking(approval.Close, couponID),
		withoutRedis: true, needsTime: true, endsNow: true, plan: planClose})
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

// Extend moves the end of a window to a later instant. A closed window may open again: the fence keeps new arrivals
// after every settled cutoff, and Redis must still know who has the coupon and who was rejected.
func (a *Admin) Extend(ctx context.Context, couponID coupon.CouponID, closes time.Time) (*Change, error) {
	return a.change(ctx, couponID, operation{
		action: audit.CouponExtended,
		asked: approval.Plan{Action: approval.Extend, Coupon: couponID,
			Arguments: map[string]string{"closes": stamp(closes)}},
		needsMarks: func(c coupon.Coupon, now time.Time) bool { return !c.Finalised() && !c.ClosesAt.After(now) },
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
	}
	if err := checkEnd(c.ID, c.OpensAt, closes, now); err != nil {
		return c, err
	}
	switch {
	case closes.Before(c.ClosesAt):
		return c, text.About("closes", text.UsageErrorf(text.RefusedShorter, c.ID, closes, c.ClosesAt))
	case f.marksLost && f.pendingCleanup:
		return c, text.UsageErrorf(text.RefusedUnfinished, c.ID)
	case f.marksLost:
		return c, text.UsageErrorf(text.RefusedForgotten, c.ID)
	}
	c.ClosesAt = closes.UTC().Truncate(time.Microsecond)
	return c, nil
}

// checkEnd returns an error about closes if a window cannot end then. couponID may be text.NewCoupon, for a coupon
// without id.
func checkEnd(couponID any, opens, closes, now time.Time) error {
	refuse := func(m text.Message, args ...any) error { return text.About("closes", text.UsageErrorf(m, args...)) }
	switch {
	case !closes.After(opens):
		return refuse(text.RefusedEndsBeforeItOpens, couponID, closes, opens)
	case !closes.After(now):
		return refuse(text.RefusedPast, couponID, closes, now)
	case closes.After(maxCloses):
		return refuse(text.RefusedFar, closes, maxCloses)
	}
	return nil
}

// Pause makes Redis refuse new applications, immediately or as soon as it is reachable again.
func (a *Admin) Pause(ctx context.Context, couponID coupon.CouponID) (*Change, error) {
	return a.setStatus(ctx, asking(approval.Pause, couponID), audit.CouponPaused, coupon.Paused)
}

func (a *Admin) Resume(ctx context.Context, couponID coupon.CouponID) (*Change, error) {
	return a.setStatus(ctx, asking(approval.Resume, couponID), audit.CouponResumed, coupon.Open)
}

func (a *Admin) setStatus(ctx context.Context, asked approval.Plan, action audit.Action,
	status coupon.Status) (*Change, error) {
	return a.change(ctx, asked.Coupon, operation{action: action, asked: asked, withoutRedis: true,
		plan: func(c coupon.Coupon, _ time.Time, _ facts) (coupon.Coupon, error) {
			if c.Finalised() {
				return c, text.UsageErrorf(text.RefusedFinalised, c.ID, c.FinalisedAt)
			}
			c.Status = status
			return c, nil
		}})
}

const MaxSeats = 1<<32 - 1 // the highest value of the column total_quantity

// AddSeats adds seats; the next run issues them to NOT_SELECTED users, by arrival.
func (a *Admin) AddSeats(ctx context.Context, couponID coupon.CouponID, more int) (*Change, error) {
	return a.seats(ctx, couponID, "seats", more, func(c coupon.Coupon) int { return c.TotalQuantity + more })
}

// SetSeats sets the number of seats. A number below that of the issued coupons is refused.
func (a *Admin) SetSeats(ctx context.Context, couponID coupon.CouponID, total int) (*Change, error) {
	return a.seats(ctx, couponID, "total", total, func(coupon.Coupon) int { return total })
}

func (a *Admin) seats(ctx context.Context, couponID coupon.CouponID, argument string, value int,
	total func(coupon.Coupon) int) (*Change, error) {
	asked := approval.Plan{Action: approval.AddSeats, Coupon: couponID,
		Arguments: map[string]string{argument: fmt.Sprint(value)}}
	plan := func(c coupon.Coupon, _ time.Time, f facts) (coupon.Coupon, error) { return planSeats(c, f, total(c)) }
	return a.change(ctx, couponID, operation{action: audit.CouponSeats, asked: asked, plan: plan})
}

const restoredSQL = `
SELECT EXISTS (SELECT 1 FROM audit_event WHERE coupon_id = ? AND action = '` + string(audit.ApplicationsRestored) + `'
    AND at > COALESCE((SELECT MAX(settled_at) FROM settlement WHERE coupon_id = ?), '1970-01-01'))`

// nobodyIsOwedASeat refuses fewer seats while winners whom MySQL has lost may be among those who wait: until a restore
// has ended, and then until the coupon was settled again.
func (a *Admin) nobodyIsOwedASeat(ctx context.Context, tx *sql.Tx, id coupon.CouponID) error {
	if err := a.nobodyIsMissing(ctx, tx, id, text.SeatsWait); err != nil {
		return err
	}
	var restored bool
	if err := tx.QueryRowContext(ctx, restoredSQL, id, id).Scan(&restored); err != nil {
		return fmt.Errorf("read the restores of coupon %d: %w", id, err)
	}
	if restored {
		return text.UsageErrorf(text.RefusedFewerSeats, id)
	}
	return nil
}

func planSeats(c coupon.Coupon, f facts, total int) (coupon.Coupon, error) {
	if total < c.IssuedCount {
		return c, text.UsageErrorf(text.RefusedFewerThanIssued, c.ID, c.IssuedCount, total)
	}
	if total < 1 || total > MaxSeats {
		return c, text.UsageErrorf(text.WrongSeats, total, int64(MaxSeats))
	}
	c.TotalQuantity = total
	return dueAgain(c, f), nil
}

// Recount sets issued_count to the number of issued coupons. While the two differ, runs do not settle the coupon.
func (a *Admin) Recount(ctx context.Context, couponID coupon.CouponID) (*Change, error) {
	return a.change(ctx, couponID, operation{action: audit.CouponRecounted,
		asked: asking(approval.Recount, couponID), plan: planRecount})
}

func planRecount(c coupon.Coupon, _ time.Time, f facts) (coupon.Coupon, error) {
	if f.holders > c.TotalQuantity {
		return c, text.UsageErrorf(text.RefusedMoreThanSeats, c.ID, f.holders, c.TotalQuantity)
	}
	c.IssuedCount = f.holders
	return dueAgain(c, f), nil
}

// dueAgain makes a finalised coupon due again if it has free seats and NOT_SELECTED users.
func dueAgain(c coupon.Coupon, f facts) coupon.Coupon {
	if c.Free() > 0 && f.notSelected > 0 {
		c.FinalisedAt = time.Time{}
	}
	return c
}
