package verify

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const pendingSQL = "SELECT COUNT(*) FROM settlement WHERE coupon_id = ? AND cleaned_at IS NULL"

// checkRedis compares the applications in Redis with MySQL. It adds those to the account that may be settled, and
// checks invariants 3 and 6 for all. While a clean-up is pending, it only counts: the clean-up will remove settled
// applications and move failed ones to the DLQ.
func (c *check) checkRedis(ctx context.Context) error {
	pending, err := c.number(ctx, pendingSQL, c.Coupon)
	c.pending = pending
	c.findAny(6, CleanUpToDo, pending,
		"settlements whose clean-up in Redis is pending: %d; the next `settle run` does it")
	if err != nil || c.look.Waiting+c.look.DLQ == 0 {
		return err
	}
	upTo, settledUpTo := max(c.Account.LastArrival, c.look.Highest), c.settledUpTo()
	if pending > 0 {
		upTo = settledUpTo
	}
	var passed, settled, halfMoved int64
	err = c.walk(ctx, upTo, func(e entry) {
		if e.Arrival <= settledUpTo {
			c.Account.count(e)
		}
		switch {
		case e.halfMoved():
			halfMoved++
		case e.settled():
			settled++
		case e.Source == coupon.SourceQueue && e.active && !e.hasCoupon && e.Arrival < c.lastIssued:
			passed++
		}
	})
	if err != nil || pending > 0 {
		return err
	}
	c.findAny(3, PassedOver, passed, "active users who are waiting, but arrived before the last user with a seat: %d")
	c.findAny(6, CleanUpToDo, halfMoved,
		"DLQ entries that still have a NOT_SELECTED outcome: %d; the next `settle run` removes the entries")
	c.findAny(6, StillStanding, settled, "applications that are settled and cleaned up, but still in Redis: %d")
	return nil
}

// checkKept checks invariants 4 and 6: applications stay in Redis until they are settled, and DLQ entries have reasons.
func (c *check) checkKept(ctx context.Context) error {
	kept, err := c.verifier.Store.Inspect(ctx, c.Coupon)
	if err != nil {
		return err
	}
	switch {
	case kept.Unexplained > 0:
		c.find(6, ReasonMissing, kept.Unexplained, "DLQ entries without a readable reason: %d of %d", kept.Unexplained,
			kept.DLQ)
	case kept.DLQ != kept.Reasons:
		c.find(6, ReasonMissing, kept.DLQ-kept.Reasons, "DLQ entries: %d, reasons: %d", kept.DLQ, kept.Reasons)
	}
	c.otherWindow = differ(c.row, kept)
	c.checkExpiry(kept)
	return c.checkDue(ctx)
}

// checkExpiry checks that the DLQ never expires, and that the queue lives for at least MinTTL after the last
// application. A tolerance of one minute covers the time between the two reads of Redis.
func (c *check) checkExpiry(kept candidates.Inspection) {
	if kept.ReviewLife >= 0 {
		c.find(4, Expiring, kept.DLQ, "DLQ entries that expire in %s, or whose reasons do: %d", kept.ReviewLife,
			kept.DLQ)
	}
	earliest := min(c.look.Highest, coupon.ArrivalAt(c.look.Now)).Time().Add(candidates.MinTTL - time.Minute)
	if kept.QueueLife >= 0 && kept.Now.Add(kept.QueueLife).Before(earliest) {
		c.findAny(4, Expiring, c.look.Waiting,
			"waiting applications: %d; they expire in %s, less than %s after the last application", kept.QueueLife,
			candidates.MinTTL)
	}
}

// attempt is the attempt of a run to settle an application.
type attempt struct {
	run coupon.RunID
	at  int64 // µs since 1970
}

const reviewsSQL = `
SELECT run_id, settled_at, under_review_count FROM settlement
WHERE coupon_id = ? AND cleaned_at IS NOT NULL
  AND run_id IN (SELECT j.id FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) AS j) ORDER BY run_id`

// checkReviews checks invariant 6: a run has moved no more applications to the DLQ than its record says. An entry that
// was tried once was moved by the run that it names. A record can say more, because entries leave the DLQ. A run
// without a record of the coupon has changed no row: it can have moved applications because MySQL was away. Before the
// clean-up has ended, the record is not exact. The time tells a run from one whose number MySQL gave twice, because it
// had lost the first.
func (c *check) checkReviews(ctx context.Context) error {
	if c.look.DLQ == 0 {
		return nil
	}
	moved, runs := map[attempt]int64{}, map[coupon.RunID]bool{}
	for cursor := (coupon.Cursor{}); ; {
		page, next, err := c.verifier.Store.UnderReview(ctx, c.Coupon, cursor)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		cursor = next
		members := make([]string, len(page))
		for i, e := range page {
			members[i] = e.Member
		}
		reasons, err := c.verifier.Store.Reasons(ctx, c.Coupon, members)
		if err != nil {
			return err
		}
		for _, reason := range reasons {
			if reason.Attempts == 1 {
				moved[attempt{reason.Run, reason.At.UnixMicro()}]++
				runs[reason.Run] = true
			}
		}
	}
	if len(moved) == 0 {
		return nil
	}
	var uncounted, first int64
	err := mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
		var run coupon.RunID
		var at time.Time
		var recorded int64
		if err := rows.Scan(&run, &at, &recorded); err != nil {
			return err
		}
		if more := moved[attempt{run, at.UnixMicro()}] - recorded; more > 0 {
			uncounted, first = uncounted+more, cmp.Or(first, int64(run))
		}
		return nil
	}, reviewsSQL, c.Coupon, jsonArray(slices.Collect(maps.Keys(runs))))
	c.findAny(6, ReviewUncounted, uncounted,
		"DLQ entries that the records of their runs do not count: %d; the first is of run %d", first)
	return err
}

const notSelectedSQL = "SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED'"

// checkDue checks two rules. A coupon with undecided applications has opened and is not finalised. A finalised coupon
// has closed and has no free seat for a user who was not selected.
func (c *check) checkDue(ctx context.Context) error {
	a, latest := c.Account, c.look.Now.Add(coupon.MaxAhead)
	undecided := a.Waiting + a.UnderReview - a.InBoth
	if c.row.OpensAt.After(latest) {
		c.findAny(4, NeverSettled, undecided,
			"undecided applications: %d; no run settles the coupon before it opens at %s", stamp(c.row.OpensAt))
	}
	if !c.row.Finalised() {
		return nil
	}
	c.findAny(4, NeverSettled, undecided,
		"undecided applications: %d; the coupon is finalised, and no nightly run settles it")
	if c.row.ClosesAt.After(latest) {
		c.find(4, NeverSettled, 1,
			"the coupon is finalised, but closes at %s: no nightly run settles later applications",
			stamp(c.row.ClosesAt))
	}
	notSelected, err := c.number(ctx, notSelectedSQL, c.Coupon)
	c.findAny(4, NeverSettled, min(c.TotalQuantity-c.Coupons, notSelected),
		"free seats for users who were not selected: %d; the coupon is finalised, and no nightly run issues them")
	return err
}

func jsonArray[ID coupon.CouponID | coupon.UserID | coupon.RunID | coupon.UserCouponID](ids []ID) string {
	text, _ := json.Marshal(ids) // integers can always be encoded
	return string(text)
}
