// Package ledger counts the accepted applications of each coupon and checks every invariant of the system.
//
// The checker counts rows instead of reading counters, computes digests again, and compares every application in Redis
// with MySQL. It counts again the sums that settlements keep. It shares no query with them. It compares each run with its record, its rows and its audit
// events. It also finds applications that no run will settle: their coupon is finalised, or exists in Redis only.
//
// Applications arrive and settlements commit during a check. A check with a finding is therefore repeated under the
// coupon's row lock: no settlement commits, but applications still arrive. The order of reads is the promises in MySQL,
// Redis, the outcomes in MySQL. An application that arrives after the read of Redis is in neither count. An application
// that leaves Redis is already in MySQL: it can be counted twice for a moment, but is never missed.
//
// A check changes nothing. It is safe to repeat and to stop.
package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// couponIDsSQL leaves out coupons that are being purged: some of their rows are already deleted.
const couponIDsSQL = `
SELECT c.id FROM coupon c LEFT JOIN purged_coupon p ON p.coupon_id = c.id WHERE c.id > ? AND p.coupon_id IS NULL ORDER BY c.id LIMIT ?`

func (l *Ledger) Coupons(ctx context.Context, db *sql.DB, after coupon.CouponID, limit int) ([]coupon.CouponID, error) {
	ids, err := mysqltx.Column[coupon.CouponID](ctx, db, couponIDsSQL, after, limit)
	return ids, mysqltx.Wrap(err, "read coupons")
}

// UnderLock makes a SELECT lock the coupon's row against settlements and changes until the transaction ends. The lock
// is shared, because a read-only server refuses FOR UPDATE.
const UnderLock = " LOCK IN SHARE MODE"

// Check checks one coupon. If there is a finding that may pass, it checks again under the lock of the coupon's row.
func (l *Ledger) Check(ctx context.Context, db *sql.DB, couponID coupon.CouponID) (*Verdict, error) {
	c, err := l.check(ctx, db, couponID, checkedSQL)
	if err == nil && slices.ContainsFunc(c.Findings, func(f Finding) bool { return !f.OfCreation() }) {
		if err = l.waitForPods(ctx, c); err == nil {
			c, err = l.check(ctx, db, couponID, checkedSQL+UnderLock)
		}
	}
	switch {
	case text.Is(err, text.NoSuchCoupon):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("check coupon %d: %w", couponID, err)
	}
	return &c.Verdict, nil
}

// waitForPods waits until API pods have had time to put back applications that a failover lost. All coupons of a Ledger
// share the end of the wait, so that their waits do not add up. All times are of the Redis clock.
func (l *Ledger) waitForPods(ctx context.Context, c *check) error {
	if c.Gap <= 0 || c.counts.PutBackWait == 0 {
		return nil
	}
	until := c.counts.Now.Add(c.counts.MaxPutBackWait)
	if !l.until.CompareAndSwap(nil, &until) {
		until = *l.until.Load()
	}
	wait, end := context.WithTimeout(ctx, min(c.counts.PutBackWait, until.Sub(c.counts.Now)))
	defer end()
	<-wait.Done()
	return context.Cause(ctx)
}

type check struct {
	Verdict
	ledger *Ledger
	tx     *sql.Tx

	row        coupon.Coupon
	counts     candidates.Counts // in Redis
	lastIssued coupon.Arrival    // highest arrival that got a seat; 0: none did; checkIssued sets it
	byRuns     int64             // coupons that runs issued; checkIssued sets it
	seats      seatFaults        // checkRecords sets it
	invalid    int64             // changed coupons with a wrong time of issue or expiry; checkLogs sets it
	events     runEvents         // what the audit chain says about runs; checkAudit fills it
}

const checkedSQL = "SELECT " + coupon.Columns + " FROM coupon c WHERE c.id = ?"

// checks run in this order, because some use the results of earlier ones.
var checks = []func(*check, context.Context) error{
	(*check).checkIssued, (*check).checkRecords, (*check).checkSums, (*check).checkRows, (*check).checkLogs, (*check).checkValidity, (*check).checkRedis, (*check).checkKept, (*check).checkReviews,
	(*check).checkMarks, (*check).checkPromises, (*check).checkAudit, (*check).checkRuns, (*check).checkRejected, (*check).checkApprovals,
}

func (l *Ledger) check(ctx context.Context, db *sql.DB, couponID coupon.CouponID, query string) (*check, error) {
	c := &check{Verdict: Verdict{Coupon: couponID, Findings: []Finding{}}, ledger: l,
		events: runEvents{runs: map[coupon.RunID]runIdentity{}, dropped: map[droppedApplication]string{}}}
	return c, mysqltx.Read(ctx, db, sql.LevelDefault, func(tx *sql.Tx) error {
		c.tx = tx
		err := tx.QueryRowContext(ctx, query, couponID).Scan(c.row.Fields()...)
		if errors.Is(err, sql.ErrNoRows) {
			return text.MissingErrorf(text.NoSuchCoupon, couponID)
		}
		c.Name, c.TotalQuantity, c.IssuedCount = c.row.Name, int64(c.row.TotalQuantity), int64(c.row.IssuedCount)
		if err == nil {
			c.Account, c.counts, err = l.count(ctx, tx, couponID)
		}
		for i := 0; err == nil && i < len(checks); i++ {
			err = checks[i](c, ctx)
		}
		return err
	})
}

func (c *check) number(ctx context.Context, query string, args ...any) (n int64, err error) {
	return n, c.tx.QueryRowContext(ctx, query, args...).Scan(&n)
}
