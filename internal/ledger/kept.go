package ledger

import (
	"context"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
)

// checkKept: invariants 4 and 6. Every application in Redis is kept until a run settles it, and every DLQ entry has a reason.
func (c *check) checkKept(ctx context.Context) error {
	kept, err := c.ledger.Store.Inspect(ctx, c.Coupon)
	if err != nil {
		return err
	}
	c.checkReasons(kept)
	c.checkExpiry(kept)
	return c.checkDue(ctx)
}

func (c *check) checkReasons(kept candidates.Inspection) {
	switch {
	case kept.Unexplained > 0:
		c.find(6, ReasonMissing, kept.Unexplained, "%d of %d applications under review have no readable reason", kept.Unexplained, kept.DLQ)
	case kept.DLQ != kept.Reasons:
		c.find(6, ReasonMissing, kept.DLQ-kept.Reasons, "%d applications are under review, and there are reasons for %d", kept.DLQ, kept.Reasons)
	}
}

// checkExpiry: DLQ entries never expire, and the queue lives for MinTTL after its last application, less a minute for the
// time between the two reads.
func (c *check) checkExpiry(kept candidates.Inspection) {
	if kept.ReviewLife >= 0 {
		c.find(4, Expiring, kept.DLQ, "%d applications are under review, and Redis lets them or their reasons go in %s", kept.DLQ, kept.ReviewLife)
	}
	f := c.figures
	promised := min(f.Highest, f.Now.UnixMicro()) + (candidates.MinTTL - time.Minute).Microseconds()
	if f.Waiting > 0 && kept.QueueLife >= 0 && kept.Now.Add(kept.QueueLife).UnixMicro() < promised {
		c.find(4, Expiring, f.Waiting, "%d applications wait, and Redis lets them go in %s: less than %s after the last applied", f.Waiting, kept.QueueLife, candidates.MinTTL)
	}
}

const notSelectedSQL = "SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED'"

// checkDue: a coupon with undecided applications is due, and a finalised one has nothing left to settle.
func (c *check) checkDue(ctx context.Context) error {
	a, latest := c.Account, c.figures.Now.Add(maxAhead)
	undecided := a.Waiting + a.UnderReview - a.Twice
	if undecided > 0 && c.row.opens.After(latest) {
		c.find(4, NeverSettled, undecided, "%d applications stand in line, but the coupon opens only at %s: no run looks for them before", undecided, stamp(c.row.opens))
	}
	if !c.row.finalised.Valid {
		return nil
	}
	if undecided > 0 {
		c.find(4, NeverSettled, undecided, "%d applications stand in line, but the coupon is finalised: no nightly run settles it", undecided)
	}
	if c.row.closes.After(latest) {
		c.find(4, NeverSettled, 1, "the coupon is finalised, but closes only at %s: no nightly run settles whoever applies", stamp(c.row.closes))
	}
	notSelected, err := c.number(ctx, notSelectedSQL, c.Coupon)
	if free := c.TotalQuantity - c.Coupons; err == nil && free > 0 && notSelected > 0 {
		c.find(4, NeverSettled, min(free, notSelected), "%d seats are free and %d applications were not selected, but the coupon is finalised: no nightly run gives them", free, notSelected)
	}
	return err
}
