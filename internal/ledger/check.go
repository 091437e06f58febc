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

const couponIDsSQL = "SELECT id FROM coupon WHERE id > ? ORDER BY id LIMIT ?"

// Coupons returns up to limit coupon ids above after, in order.
func (l *Ledger) Coupons(ctx context.Context, db *sql.DB, after coupon.CouponID, limit int) ([]coupon.CouponID, error) {
	ids, err := mysqltx.Column[coupon.CouponID](ctx, db, couponIDsSQL, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read coupons: %w", err)
	}
	return ids, nil
}

// UnderLock locks a coupon's row against settlements and changes until the transaction ends. The lock is shared, because a
// read-only server refuses FOR UPDATE.
const UnderLock = " LOCK IN SHARE MODE"

// Check checks one coupon. It repeats the check under the coupon's lock before it reports a finding.
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

// waitForPods gives API pods the time to put back applications that a failover lost. The instant is the same for all coupons,
// so that a ledger waits once at most. All times are of the Redis clock.
func (l *Ledger) waitForPods(ctx context.Context, c *check) error {
	if c.Gap <= 0 || c.figures.PutBackWait == 0 {
		return nil
	}
	until := c.figures.Now.Add(c.figures.MaxPutBackWait)
	if !l.until.CompareAndSwap(nil, &until) {
		until = *l.until.Load()
	}
	timer := time.NewTimer(min(c.figures.PutBackWait, until.Sub(c.figures.Now)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// check is one check of one coupon in one transaction. Its methods add findings to the verdict. checks has them in an order in
// which each comes after those whose results it needs.
type check struct {
	Verdict
	ledger *Ledger
	tx     *sql.Tx

	row            checkedRow        // of the coupon
	figures        candidates.Counts // of Redis
	pendingCleanup int64             // settlements whose clean-up is pending, by checkRecords
	lastIssued     time.Time         // highest arrival that got a seat, by checkOrder; 1970: none
	events         runEvents         // of the audit chain, by checkAudit
}

// checkedRow are the columns of the coupon's row that Verdict lacks.
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
	err := mysqltx.Read(ctx, db, sql.LevelDefault, func(tx *sql.Tx) (err error) {
		c.tx = tx
		err = tx.QueryRowContext(ctx, query, couponID).Scan(&c.Name, &c.TotalQuantity, &c.IssuedCount,
			&c.row.opens, &c.row.closes, &c.row.finalised, &c.row.validityDays)
		if errors.Is(err, sql.ErrNoRows) {
			return text.UsageErrorf(text.NoSuchCoupon, couponID)
		}
		if err == nil {
			c.Account, c.figures, err = l.count(ctx, tx, couponID)
		}
		for i := 0; err == nil && i < len(checks); i++ {
			err = checks[i](c, ctx)
		}
		return err
	})
	if text.Is(err, text.NoSuchCoupon) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("check coupon %d: %w", couponID, err)
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
	detail    string // of the finding, with %d for the count
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
		if n > 0 && r.code == RecordWrong { // whose count is of coupons, not of records
			c.find(r.invariant, r.code, 0, r.detail, n)
			continue
		}
		c.findAny(r.invariant, r.code, n, r.detail)
	}
	return nil
}
