package ledger

import (
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

const lastIssuedSQL = "SELECT MAX(applied_at) FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL"

const passedOverSQL = `
SELECT COUNT(*) FROM application_outcome o JOIN {users} ON {id} = o.user_id AND o.user_id <= {last} AND {active}
WHERE o.coupon_id = ? AND o.outcome = 'NOT_SELECTED' AND o.applied_at < ?`

const orderSQL = `
SELECT COUNT(*) FROM (
	SELECT applied_at, LAG(applied_at) OVER (PARTITION BY run_id ORDER BY position, user_id) AS before_it
	FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL
) seats WHERE applied_at < before_it`

const arrivalsWrongSQL = `
SELECT (SELECT COUNT(*) FROM user_coupon c LEFT JOIN settlement_run r ON r.id = c.run_id
        WHERE c.coupon_id = ? AND c.run_id IS NOT NULL AND (c.applied_at IS NULL OR c.applied_at >= r.cutoff))
     + (SELECT COUNT(*) FROM application_outcome o JOIN settlement_run r ON r.id = o.run_id
        WHERE o.coupon_id = ? AND o.outcome <> 'REJECTED' AND o.applied_at >= r.cutoff)`

// checkOrder: invariants 3 and 5 in MySQL.
func (c *check) checkOrder(ctx context.Context) error {
	var last sql.NullTime
	if err := c.tx.QueryRowContext(ctx, lastIssuedSQL, c.Coupon).Scan(&last); err != nil {
		return err
	}
	if c.lastIssued = time.UnixMicro(0).UTC(); last.Valid {
		c.lastIssued = last.Time
	}
	directory, err := c.ledger.Users.Table(ctx, c.tx)
	if err != nil {
		return err
	}
	return c.apply(ctx,
		rule{3, OrderWrong, "%d seat{|s} went to a later arrival than the next seat", orderSQL, []any{c.Coupon}},
		rule{5, ArrivalWrong, "%d settled application{|s} {has|have} no arrival before the cutoff of {its|their} run", arrivalsWrongSQL, []any{c.Coupon, c.Coupon}},
		rule{3, PassedOver, "%d active user{|s} {is|are} NOT_SELECTED, but arrived before the last user with a seat", directory.SQL(passedOverSQL), []any{c.Coupon, c.lastIssued}})
}

// checkRedis: invariants 3 and 6 of every application in Redis. It finds nothing while a clean-up is pending, which removes
// settled applications and moves failed ones to the DLQ.
func (c *check) checkRedis(ctx context.Context) error {
	var passed, settled, halfMoved int64
	last := coupon.ArrivalAt(c.lastIssued)
	err := c.ledger.walk(ctx, c.tx, c.Coupon, max(c.Account.LastArrival, c.figures.Highest), func(e Entry) {
		switch {
		case e.halfMoved():
			halfMoved++
		case e.Settled():
			settled++
		case e.Source == coupon.SourceQueue && e.active && !e.hasCoupon && e.Arrival < last:
			passed++
		}
	})
	if err != nil || c.pendingCleanup > 0 {
		return err
	}
	c.findAny(3, PassedOver, passed, "%d active user{|s} {is|are} waiting, but arrived before the last user with a seat")
	c.findAny(6, CleanUpToDo, halfMoved, "%d DLQ {entry still has|entries still have} a NOT_SELECTED outcome; the next `settle run` removes {it|them}")
	c.findAny(6, StillStanding, settled, "%d application{|s} {is|are} settled and cleaned up, but still in Redis")
	return nil
}

// maxAhead is how far the last arrival can be ahead of the Redis clock while Redis accepts applications.
const maxAhead = 5 * time.Second

// checkPromises: invariants 4 and 5.
func (c *check) checkPromises(context.Context) error {
	c.Gap = c.Account.Gap()
	switch {
	case c.Gap > 0:
		c.find(4, PromiseLost, c.Gap, "%d promise{|s} lost: %s", c.Gap, c.Account)
	case c.Gap < 0:
		c.find(4, Excess, -c.Gap, "%d application{|s} without a promise: %s", -c.Gap, c.Account)
	}
	highest := max(c.figures.Highest, coupon.ArrivalAt(c.lastIssued))
	if next := max(c.Account.LastArrival+1, coupon.ArrivalAt(c.figures.Now)); highest >= next {
		c.find(5, LineRewound, 1, "arrival %d is in Redis or has a seat, but the next arrival can be %d", highest, next)
	}
	if ahead := c.Account.LastArrival.Time().Sub(c.figures.Now); ahead > maxAhead {
		c.find(5, ClockAhead, 1, "the last arrival is %s ahead of the Redis clock; Redis accepts no application until the clock has caught up", ahead.Round(time.Millisecond))
	}
	return nil
}
