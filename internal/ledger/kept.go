package ledger

import (
	"context"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// checkKept: invariants 4 and 6. Every application stays in Redis until a run settles it, and every DLQ entry has a reason.
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
		c.find(6, ReasonMissing, kept.Unexplained, "no readable reason for %d of %d DLQ {entry|entries}", kept.Unexplained, kept.DLQ)
	case kept.DLQ != kept.Reasons:
		c.find(6, ReasonMissing, kept.DLQ-kept.Reasons, "the DLQ has %d {entry|entries} and %d reason{|s}", kept.DLQ, kept.Reasons)
	}
}

// checkExpiry: the DLQ never expires, and the queue expires MinTTL after the last application at the earliest. The tolerance of
// a minute is for the time between two reads.
func (c *check) checkExpiry(kept candidates.Inspection) {
	if kept.ReviewLife >= 0 {
		c.find(4, Expiring, kept.DLQ, "%d DLQ {entry or its reason expires|entries or their reasons expire} in %s", kept.DLQ, kept.ReviewLife)
	}
	f := c.figures
	earliest := min(f.Highest, coupon.ArrivalAt(f.Now)).Time().Add(candidates.MinTTL - time.Minute)
	if kept.QueueLife >= 0 && kept.Now.Add(kept.QueueLife).Before(earliest) {
		c.findAny(4, Expiring, f.Waiting, "%d waiting application{|s} {expires|expire} in %s, less than %s after the last application", kept.QueueLife, candidates.MinTTL)
	}
}

const notSelectedSQL = "SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED'"

// checkDue: a coupon with undecided applications has opened and is not finalised, and a finalised coupon is closed and has no
// free seats for users who were not selected.
func (c *check) checkDue(ctx context.Context) error {
	a, latest := c.Account, c.figures.Now.Add(maxAhead)
	undecided := a.Waiting + a.UnderReview - a.Twice
	if c.row.opens.After(latest) {
		c.findAny(4, NeverSettled, undecided, "%d application{|s} {is|are} undecided, but no run settles the coupon before it opens at %s", stamp(c.row.opens))
	}
	if !c.row.finalised.Valid {
		return nil
	}
	c.findAny(4, NeverSettled, undecided, "%d application{|s} {is|are} undecided, but the coupon is finalised, and no nightly run settles it")
	if c.row.closes.After(latest) {
		c.find(4, NeverSettled, 1, "the coupon is finalised, but closes at %s: no nightly run settles later applications", stamp(c.row.closes))
	}
	notSelected, err := c.number(ctx, notSelectedSQL, c.Coupon)
	c.findAny(4, NeverSettled, min(c.TotalQuantity-c.Coupons, notSelected),
		"%d free seat{|s} {is|are} for users who were not selected, but the coupon is finalised, and no nightly run issues {it|them}")
	return err
}
