package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// ErrNoCoupon reports a coupon that does not exist.
var ErrNoCoupon = text.UsageErrorf(text.NoCoupon)

const couponIDsSQL = "SELECT id FROM coupon WHERE id > ? ORDER BY id LIMIT ?"

// Coupons returns up to limit coupon ids above after, in order.
func (l *Ledger) Coupons(ctx context.Context, db *sql.DB, after coupon.CouponID, limit int) ([]coupon.CouponID, error) {
	ids, err := mysqltx.Collect(ctx, db, func(id *coupon.CouponID) []any { return []any{id} }, couponIDsSQL, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read coupons: %w", err)
	}
	return ids, nil
}

// UnderLock keeps settlements and changes away from a coupon's row until the transaction ends. The lock is shared, because a
// read-only server refuses FOR UPDATE as a write.
const UnderLock = " LOCK IN SHARE MODE"

// Check checks one coupon, and again under its lock before it reports a finding.
func (l *Ledger) Check(ctx context.Context, db *sql.DB, couponID coupon.CouponID) (*Verdict, error) {
	c, err := l.check(ctx, db, couponID, checkedSQL)
	if err != nil {
		return nil, err
	}
	if len(c.Findings) == 0 {
		return &c.Verdict, nil
	}
	if err := l.waitForPods(ctx, c); err != nil {
		return nil, fmt.Errorf("check coupon %d: %w", couponID, err)
	}
	if c, err = l.check(ctx, db, couponID, checkedSQL+UnderLock); err != nil {
		return nil, err
	}
	return &c.Verdict, nil
}

// waitForPods waits, when promises are missing, until API pods have had the time to put back applications that a failover
// lost. The instant is the same for all coupons, so that a ledger waits once at most. All times are of the Redis clock.
func (l *Ledger) waitForPods(ctx context.Context, c *check) error {
	if c.Gap <= 0 || c.figures.ForPods == 0 {
		return nil
	}
	until := c.figures.Now.Add(candidates.PutBackTime)
	if !l.until.CompareAndSwap(nil, &until) {
		until = *l.until.Load()
	}
	timer := time.NewTimer(min(c.figures.ForPods, until.Sub(c.figures.Now)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// check checks one coupon in one transaction. Its methods add findings to the verdict; those that need the result of another
// come after it in checks.
type check struct {
	Verdict
	ledger *Ledger
	tx     *sql.Tx

	row            checkedRow         // of the coupon
	figures        candidates.Figures // of Redis
	pendingCleanup int64              // settlements whose clean-up is pending, by checkRecords
	lastIssued     time.Time          // highest arrival that got a seat, by checkOrder; 1970: none
	events         runEvents          // what audit events say of runs, by checkAudit
}

// checkedRow is what the coupon's row says beside the fields of Verdict.
type checkedRow struct {
	opens, closes time.Time
	finalised     sql.NullTime
	validityDays  int64
}

const checkedSQL = "SELECT name, total_quantity, issued_count, apply_opens_at, apply_closes_at, finalised_at, validity_days FROM coupon WHERE id = ?"

// checks are in the order of their findings.
var checks = []func(*check, context.Context) error{
	(*check).checkCleanup, (*check).checkRows, (*check).checkRecords, (*check).checkIssued, (*check).checkRunRows,
	(*check).checkOrder, (*check).checkRedis, (*check).checkKept, (*check).checkMarks, (*check).checkPromises,
	(*check).checkAudit, (*check).checkRuns, (*check).checkRejected,
}

func (l *Ledger) check(ctx context.Context, db *sql.DB, couponID coupon.CouponID, query string) (*check, error) {
	c := &check{Verdict: Verdict{Coupon: couponID, Findings: []Finding{}}, ledger: l}
	var err error
	if c.tx, err = db.BeginTx(ctx, nil); err != nil {
		return nil, fmt.Errorf("check coupon %d: %w", couponID, err)
	}
	defer func() { _ = c.tx.Rollback() }() // it only reads

	err = c.tx.QueryRowContext(ctx, query, couponID).Scan(&c.Name, &c.TotalQuantity, &c.IssuedCount,
		&c.row.opens, &c.row.closes, &c.row.finalised, &c.row.validityDays)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("coupon %d: %w", couponID, ErrNoCoupon)
	}
	if err != nil {
		return nil, fmt.Errorf("check coupon %d: %w", couponID, err)
	}
	if c.Account, c.figures, err = l.count(ctx, c.tx, couponID); err != nil {
		return nil, err
	}
	for _, one := range checks {
		if err := one(c, ctx); err != nil {
			return nil, fmt.Errorf("check coupon %d: %w", couponID, err)
		}
	}
	return c, nil
}

// number reads one number.
func (c *check) number(ctx context.Context, query string, args ...any) (n int64, err error) {
	return n, c.tx.QueryRowContext(ctx, query, args...).Scan(&n)
}

// rule is a query that counts rows that break an invariant.
type rule struct {
	invariant int
	code      Code
	detail    string // with one %d for the count
	query     string
	args      []any
}

// apply adds a finding for each rule that counts any row.
func (c *check) apply(ctx context.Context, rules ...rule) error {
	for _, r := range rules {
		n, err := c.number(ctx, r.query, r.args...)
		if err != nil {
			return err
		}
		switch {
		case n == 0:
		case r.code == RecordWrong: // it counts coupons, not records
			c.find(r.invariant, r.code, 0, r.detail, n)
		default:
			c.find(r.invariant, r.code, n, r.detail, n)
		}
	}
	return nil
}
