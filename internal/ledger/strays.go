package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const (
	eventsOfNoneSQL    = "SELECT COUNT(*), COALESCE(MIN(id), 0) FROM audit_event WHERE coupon_id IS NULL"
	eventsOfMissingSQL = `
SELECT COUNT(*), COALESCE(MIN(e.coupon_id), 0) FROM audit_event e LEFT JOIN coupon c ON c.id = e.coupon_id
WHERE e.coupon_id IS NOT NULL AND c.id IS NULL`
	// headsOfMissingSQL leaves out chains with events, which eventsOfMissingSQL counts.
	headsOfMissingSQL = `
SELECT COALESCE(SUM(h.seq), 0), COALESCE(MIN(h.coupon_id), 0) FROM audit_head h LEFT JOIN coupon c ON c.id = h.coupon_id
WHERE c.id IS NULL AND h.seq > 0 AND NOT EXISTS (SELECT 1 FROM audit_event e WHERE e.coupon_id = h.coupon_id)`
)

// The coupons that rows name and that do not exist: their number, and the first. An index that begins with the coupon gives the
// coupons of each table.
const (
	missingOf          = "SELECT COUNT(*), COALESCE(MIN(t.coupon_id), 0) FROM "
	missing            = " t LEFT JOIN coupon c ON c.id = t.coupon_id WHERE c.id IS NULL"
	couponsMissingSQL  = missingOf + "(SELECT DISTINCT coupon_id FROM user_coupon)" + missing
	outcomesMissingSQL = missingOf + "(SELECT DISTINCT coupon_id FROM application_outcome)" + missing
	recordsMissingSQL  = missingOf + "(SELECT DISTINCT coupon_id FROM settlement)" + missing
	promisesMissingSQL = missingOf + "promise" + missing + " AND t.accepted > 0"
)

// A run has an end exactly when its status is final. A run that starts shortly before its cutoff and has nothing to settle can
// end before it.
const (
	runsEndedWrongSQL = `
SELECT COUNT(*), COALESCE(MIN(id), 0) FROM settlement_run WHERE (finished_at IS NULL) <> (status IN ('RUNNING', 'ABANDONED'))`
	nightsAheadSQL = "SELECT COUNT(*), COALESCE(MIN(id), 0) FROM settlement_run WHERE finished_at IS NOT NULL AND cutoff > ?"
)

// Strays finds rows and Redis keys of missing coupons, and impossible runs. Every audit event is of a coupon that exists, and the
// program has no right to delete one.
func (l *Ledger) Strays(ctx context.Context, db *sql.DB) ([]Finding, error) {
	now, err := l.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	v := Verdict{Findings: []Finding{}}
	for _, r := range []rule{
		{6, AuditInserted, "%d audit event{|s} {has|have} no coupon; the first has the id %d", eventsOfNoneSQL, nil},
		{6, AuditInserted, "%d audit event{|s} {is|are} about a missing coupon; the first is coupon %d", eventsOfMissingSQL, nil},
		{6, AuditRemoved, "%d audit event{|s} about a missing coupon {was|were} removed; the first is coupon %d", headsOfMissingSQL, nil},
		{6, CouponMissing, "user_coupon has rows of %d missing coupon{|s}; the first is coupon %d", couponsMissingSQL, nil},
		{6, CouponMissing, "application_outcome has rows of %d missing coupon{|s}; the first is coupon %d", outcomesMissingSQL, nil},
		{6, CouponMissing, "settlement has rows of %d missing coupon{|s}; the first is coupon %d", recordsMissingSQL, nil},
		{6, CouponMissing, "promise has rows of %d missing coupon{|s}; the first is coupon %d", promisesMissingSQL, nil},
		{6, RunWrong, "%d run{|s} {has|have} a final status without an end, or an end without a final status; the first is run %d", runsEndedWrongSQL, nil},
		{5, NightAhead, "%d run{|s} ended before {its|their} cutoff by the Redis clock; the first is run %d", nightsAheadSQL, []any{now.Add(calendar.MaxEarliness)}},
	} {
		var n int64
		var first uint64
		if err := db.QueryRowContext(ctx, r.query, r.args...).Scan(&n, &first); err != nil {
			return nil, fmt.Errorf("find rows of missing coupons: %w", err)
		}
		v.findAny(r.invariant, r.code, n, r.detail, first)
	}
	if err := l.findOrphans(ctx, db, &v); err != nil {
		return nil, err
	}
	return v.Findings, nil
}

// maxOrphans bounds the missing coupons in Redis. More of them have one cause.
const maxOrphans = 10_000

// findOrphans finds applications in Redis for missing coupons. No run settles them.
func (l *Ledger) findOrphans(ctx context.Context, db *sql.DB, v *Verdict) error {
	unknown := map[coupon.CouponID]bool{}
	err := l.Store.ScanCoupons(ctx, func(coupons []coupon.CouponID) error {
		if len(unknown) >= maxOrphans {
			return nil
		}
		missing, err := notInMySQL(ctx, db, coupons)
		for _, id := range missing {
			unknown[id] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(unknown)) {
		f, err := l.Store.Counts(ctx, id, 0)
		if err != nil {
			return err
		}
		v.findAny(4, NeverSettled, f.Waiting+f.DLQ, "%d application{|s} in Redis {is|are} for coupon %d, which does not exist; no run settles it", id)
	}
	return nil
}

const notInMySQLSQL = `
SELECT DISTINCT j.id FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) AS j
WHERE NOT EXISTS (SELECT 1 FROM coupon c WHERE c.id = j.id)`

func notInMySQL(ctx context.Context, db *sql.DB, coupons []coupon.CouponID) ([]coupon.CouponID, error) {
	missing, err := mysqltx.Column[coupon.CouponID](ctx, db, notInMySQLSQL, jsonArray(coupons))
	if err != nil {
		return nil, fmt.Errorf("find missing coupons: %w", err)
	}
	return missing, nil
}
