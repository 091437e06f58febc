package couponadmin

import (
	"context"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

// Freeze stops every run from issuing the coupon. Applying goes on. Redis is not needed: runs read the row under its
// lock. A settlement that is under way ends first.
func (a *Admin) Freeze(ctx context.Context, couponID coupon.CouponID) (*Change, error) {
	return a.setFrozen(ctx, asking(approval.Freeze, couponID), audit.CouponFrozen, true)
}

// Unfreeze lets runs issue the coupon again.
func (a *Admin) Unfreeze(ctx context.Context, couponID coupon.CouponID) (*Change, error) {
	return a.setFrozen(ctx, asking(approval.Unfreeze, couponID), audit.CouponUnfrozen, false)
}

func (a *Admin) setFrozen(ctx context.Context, asked approval.Plan, action audit.Action,
	frozen bool) (*Change, error) {
	return a.change(ctx, asked.Coupon, operation{action: action, asked: asked, rowOnly: true,
		plan: func(c coupon.Coupon, _ time.Time, _ facts) (coupon.Coupon, error) {
			c.Frozen = frozen
			return c, nil
		}})
}

// cadenceStands is how long before the opening the cadence no longer changes: pods read coupons every 5 s, and tell
// applicants the cadence that they have read.
const cadenceStands = 10 * time.Second

// SetCadence decides when a coupon is issued. No applicant may be told another time: the window is neither open nor
// about to open, or the coupon is paused, and Redis has no application.
func (a *Admin) SetCadence(ctx context.Context, couponID coupon.CouponID, cadence coupon.Cadence) (*Change, error) {
	asked := approval.Plan{Action: approval.Cadence, Coupon: couponID,
		Arguments: map[string]string{"cadence": strings.ToLower(string(cadence))}}
	return a.change(ctx, couponID, operation{action: audit.CouponCadence, asked: asked, needsQueue: true,
		plan: func(c coupon.Coupon, now time.Time, f facts) (coupon.Coupon, error) {
			return planCadence(c, now, f, cadence)
		}})
}

func planCadence(c coupon.Coupon, now time.Time, f facts, cadence coupon.Cadence) (coupon.Coupon, error) {
	takesSome := c.ClosesAt.After(now) && !c.Paused()
	switch {
	case c.Finalised():
		return c, text.UsageErrorf(text.RefusedFinalised, c.ID, c.FinalisedAt)
	case c.Cadence == cadence:
	case takesSome && !c.OpensAt.After(now):
		return c, text.UsageErrorf(text.RefusedCadenceOpen, c.ID, c.ClosesAt)
	case takesSome && c.OpensAt.Before(now.Add(cadenceStands)):
		return c, text.UsageErrorf(text.RefusedCadenceSoon, c.ID, c.OpensAt)
	case f.waiting+f.dlq > 0:
		return c, text.UsageErrorf(text.RefusedCadenceWaiting, c.ID, f.waiting, f.dlq)
	}
	c.Cadence = cadence
	return c, nil
}
