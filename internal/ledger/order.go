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
		rule{3, OrderWrong, "%d seats were given to a later arrival than the seat behind", orderSQL, []any{c.Coupon}},
		rule{5, ArrivalWrong, "%d applications were settled without an arrival before the cutoff of their run", arrivalsWrongSQL, []any{c.Coupon, c.Coupon}},
		rule{3, PassedOver, "%d active users recorded NOT_SELECTED came before the last who got a seat", directory.SQL(passedOverSQL), []any{c.Coupon, c.lastIssued}})
}

// checkRedis: invariants 3 and 6 of every application in Redis. While a clean-up is pending it reports nothing, because the
// clean-up removes settled applications and moves refused ones to the DLQ.
func (c *check) checkRedis(ctx context.Context) error {
	var passed, settled, halfMoved int64
	last := c.lastIssued.UnixMicro()
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
	if passed > 0 {
		c.find(3, PassedOver, passed, "%d active users still waiting came before the last who got a seat", passed)
	}
	if halfMoved > 0 {
		c.find(6, CleanUpToDo, halfMoved, "%d applications stand under review although their NOT_SELECTED was not taken back; the next `settle run` clears the DLQ", halfMoved)
	}
	if settled > 0 {
		c.find(6, StillStanding, settled, "%d applications still stand in Redis although they are settled and cleaned up", settled)
	}
	return nil
}

// maxAhead is how far arrivals may be ahead of the Redis clock before applications are refused.
const maxAhead = 5 * time.Second

// checkPromises: invariants 4 and 5.
func (c *check) checkPromises(context.Context) error {
	c.Gap = c.Account.Gap()
	switch {
	case c.Gap > 0:
		c.find(4, PromiseLost, c.Gap, "%d promises lost: %s", c.Gap, c.Account)
	case c.Gap < 0:
		c.find(4, Excess, -c.Gap, "%d applications that nobody promised: %s", -c.Gap, c.Account)
	}
	highest := max(c.figures.Highest, c.lastIssued.UnixMicro())
	if next := max(c.Account.LastArrival+1, c.figures.Now.UnixMicro()); highest >= next {
		c.find(5, LineRewound, 1, "arrival %d stands in line or got a seat, but the next could be %d", highest, next)
	}
	if ahead := time.UnixMicro(c.Account.LastArrival).Sub(c.figures.Now); ahead > maxAhead {
		c.find(5, ClockAhead, 1, "the line runs %s ahead of the Redis clock: nothing is accepted until it has caught up", ahead.Round(time.Millisecond))
	}
	return nil
}
