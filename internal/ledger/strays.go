package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
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

// Coupons that rows name and that do not exist: how many, and the first. Each table has an index that begins with the coupon,
// which gives its coupons without a look at every row.
const (
	missingOf          = "SELECT COUNT(*), COALESCE(MIN(t.coupon_id), 0) FROM "
	missing            = " t LEFT JOIN coupon c ON c.id = t.coupon_id WHERE c.id IS NULL"
	couponsMissingSQL  = missingOf + "(SELECT DISTINCT coupon_id FROM user_coupon)" + missing
	outcomesMissingSQL = missingOf + "(SELECT DISTINCT coupon_id FROM application_outcome)" + missing
	recordsMissingSQL  = missingOf + "(SELECT DISTINCT coupon_id FROM settlement)" + missing
	promisesMissingSQL = missingOf + "promise" + missing + " AND t.accepted > 0"
)

// A run has a finish time exactly when its status is final. No run finishes before its cutoff, except one that starts
// shortly before and has nothing to wait for.
const (
	runsEndedWrongSQL = `
SELECT COUNT(*), COALESCE(MIN(id), 0) FROM settlement_run WHERE (finished_at IS NULL) <> (status IN ('RUNNING', 'ABANDONED'))`
	nightsAheadSQL = "SELECT COUNT(*), COALESCE(MIN(id), 0) FROM settlement_run WHERE finished_at IS NOT NULL AND cutoff > ?"
)

// Strays finds rows and Redis keys of coupons that do not exist, and impossible runs. The program writes every audit event
// about a coupon that exists, under its lock, and no account of it may delete one.
func (l *Ledger) Strays(ctx context.Context, db *sql.DB) ([]Finding, error) {
	now, err := l.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	v := Verdict{Findings: []Finding{}}
	for _, s := range []struct {
		query     string
		invariant int
		code      Code
		format    string
		args      []any
	}{
		{eventsOfNoneSQL, 6, AuditInserted, "%d audit events are about no coupon, the first of them has the id %d", nil},
		{eventsOfMissingSQL, 6, AuditInserted, "%d audit events are about coupons that do not exist, the first of these is coupon %d", nil},
		{headsOfMissingSQL, 6, AuditRemoved, "%d audit events of coupons that do not exist are gone, too, the first of these is coupon %d", nil},
		{couponsMissingSQL, 6, CouponMissing, "user_coupon names %d coupons that do not exist, the first of them is coupon %d", nil},
		{outcomesMissingSQL, 6, CouponMissing, "application_outcome names %d coupons that do not exist, the first of them is coupon %d", nil},
		{recordsMissingSQL, 6, CouponMissing, "settlement names %d coupons that do not exist, the first of them is coupon %d", nil},
		{promisesMissingSQL, 6, CouponMissing, "promise names %d coupons that do not exist, the first of them is coupon %d", nil},
		{runsEndedWrongSQL, 6, RunWrong, "%d runs have an end and no result, or a result and no end, the first of them is run %d", nil},
		{nightsAheadSQL, 5, NightAhead, "%d runs have ended whose cutoff has not come by the Redis clock, the first of them is run %d", []any{now.Add(calendar.MaxEarliness)}},
	} {
		var n int64
		var first uint64
		if err := db.QueryRowContext(ctx, s.query, s.args...).Scan(&n, &first); err != nil {
			return nil, fmt.Errorf("look for what is of no coupon: %w", err)
		}
		if n > 0 {
			v.find(s.invariant, s.code, n, s.format, n, first)
		}
	}
	if err := l.findOrphans(ctx, db, &v); err != nil {
		return nil, err
	}
	return v.Findings, nil
}

// maxOrphans bounds the coupons that are looked at. More unknown coupons have one cause.
const maxOrphans = 10_000

// findOrphans finds applications in Redis for coupons that MySQL does not have. No run settles them.
func (l *Ledger) findOrphans(ctx context.Context, db *sql.DB, v *Verdict) error {
	unknown := map[coupon.CouponID]bool{}
	err := l.Store.EachPage(ctx, func(coupons []coupon.CouponID) error {
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
		f, err := l.Store.Figures(ctx, id, 0)
		if err != nil {
			return err
		}
		if stand := f.Waiting + f.DLQ; stand > 0 {
			v.find(4, NeverSettled, stand, "%d applications stand in Redis for coupon %d, which does not exist: no run settles them", stand, id)
		}
	}
	return nil
}

const notInMySQLSQL = `
SELECT DISTINCT j.id FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) AS j
WHERE NOT EXISTS (SELECT 1 FROM coupon c WHERE c.id = j.id)`

func notInMySQL(ctx context.Context, db *sql.DB, coupons []coupon.CouponID) ([]coupon.CouponID, error) {
	asked, err := json.Marshal(coupons)
	if err != nil {
		return nil, fmt.Errorf("look for coupons: %w", err)
	}
	missing, err := mysqltx.Collect(ctx, db, func(id *coupon.CouponID) []any { return []any{id} }, notInMySQLSQL, string(asked))
	if err != nil {
		return nil, fmt.Errorf("look for coupons: %w", err)
	}
	return missing, nil
}
