package verify

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

// Each query returns a count and the lowest id of what it counted. SELECT DISTINCT coupon_id only reads an index.
const (
	missingOf          = "SELECT COUNT(*), COALESCE(MIN(t.coupon_id), 0) FROM "
	missing            = " t LEFT JOIN coupon c ON c.id = t.coupon_id WHERE c.id IS NULL"
	couponsMissingSQL  = missingOf + "(SELECT DISTINCT coupon_id FROM user_coupon)" + missing
	outcomesMissingSQL = missingOf + "(SELECT DISTINCT coupon_id FROM application_outcome)" + missing
	recordsMissingSQL  = missingOf + "(SELECT DISTINCT coupon_id FROM settlement)" + missing
	sumsMissingSQL     = missingOf + "settled" + missing

	logsMissingSQL = `
SELECT COUNT(*), COALESCE(MIN(l.id), 0) FROM coupon_log l LEFT JOIN user_coupon u ON u.id = l.user_coupon_id
    WHERE u.id IS NULL`
	ordersMissingSQL = `
SELECT COUNT(*), COALESCE(MIN(o.user_coupon_id), 0) FROM coupon_order o LEFT JOIN user_coupon u
    ON u.id = o.user_coupon_id WHERE u.id IS NULL`

	eventsOfNoneSQL    = "SELECT COUNT(*), COALESCE(MIN(id), 0) FROM audit_event WHERE coupon_id IS NULL"
	eventsOfMissingSQL = missingOf + "audit_event" + missing + " AND t.coupon_id IS NOT NULL"
	// headsOfMissingSQL counts the audit events of missing coupons of which only the head of the chain is left.
	headsOfMissingSQL = "SELECT COALESCE(SUM(t.seq), 0), COALESCE(MIN(t.coupon_id), 0) FROM audit_head" + missing + `
AND t.seq > 0 AND NOT EXISTS (SELECT 1 FROM audit_event e WHERE e.coupon_id = t.coupon_id)`

	// runsEndedWrongSQL counts runs with an end but no final status, or with a final status but no end.
	runsEndedWrongSQL = `
SELECT COUNT(*), COALESCE(MIN(id), 0) FROM settlement_run
WHERE (finished_at IS NULL) <> (status IN ('RUNNING', 'ABANDONED'))`
	// immediateAloneSQL counts immediate runs without a record. Such a run is recorded only where it changed a coupon.
	immediateAloneSQL = `
SELECT COUNT(*), COALESCE(MIN(r.id), 0) FROM settlement_run r
WHERE r.trigger_kind = 'IMMEDIATE' AND NOT EXISTS (SELECT 1 FROM settlement s WHERE s.run_id = r.id)`
	// runsOutgrownSQL counts runs that changed more coupons, or have results of more, than they were to settle.
	runsOutgrownSQL = `
SELECT COUNT(*), COALESCE(MIN(r.id), 0) FROM settlement_run r
WHERE r.coupons < (SELECT COUNT(*) FROM settlement s WHERE s.run_id = r.id) OR r.coupons < (SELECT COUNT(*)
    FROM run_coupon x WHERE x.run_id = r.id)`
	// nightsAheadSQL counts runs that ended with a cutoff after the given time. That time is MaxEarliness after now: a
	// run can start so early, and end at once if it has nothing to settle.
	nightsAheadSQL = "SELECT COUNT(*), COALESCE(MIN(id), 0) FROM settlement_run WHERE finished_at IS NOT NULL AND " +
		"cutoff > ?"
)

// Strays finds rows and Redis keys of coupons that do not exist, and impossible runs. The program leaves no such rows:
// a purge deletes a coupon last, and each audit event is about an existing coupon.
func (r *Verifier) Strays(ctx context.Context, db *sql.DB) ([]Finding, error) {
	now, err := r.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	v := Verdict{Findings: []Finding{}}
	for _, r := range []rule{
		{6, AuditInserted, "audit events without a coupon: %d; the first has the id %d", eventsOfNoneSQL, nil},
		{6, AuditInserted, "audit events about coupons that do not exist: %d; the first is about coupon %d",
			eventsOfMissingSQL, nil},
		{6, AuditRemoved, "removed audit events about coupons that do not exist: %d; the first is about coupon %d",
			headsOfMissingSQL, nil},
		{6, CouponMissing, "coupons that do not exist, but have rows in user_coupon: %d; the first is coupon %d",
			couponsMissingSQL, nil},
		{6, CouponMissing,
			"coupons that do not exist, but have rows in application_outcome: %d; the first is coupon %d",
			outcomesMissingSQL, nil},
		{6, CouponMissing, "coupons that do not exist, but have rows in settlement: %d; the first is coupon %d",
			recordsMissingSQL, nil},
		{6, CouponMissing, "coupons that do not exist, but have rows in settled: %d; the first is coupon %d",
			sumsMissingSQL, nil},
		{8, OrderMismatch, "orders with issued coupons that do not exist: %d; the first is user_coupon %d",
			ordersMissingSQL, nil},
		{9, LogWrong, "rows of coupon_log about issued coupons that do not exist: %d; the first has the id %d",
			logsMissingSQL, nil},
		{6, RunWrong,
			"runs with a final status and no end, or with an end and no final status: %d; the first is run %d",
			runsEndedWrongSQL, nil},
		{6, RunWrong, "immediate runs without a record of a coupon: %d; the first is run %d", immediateAloneSQL, nil},
		{6, RunWrong, "runs with more coupons than they were to settle: %d; the first is run %d", runsOutgrownSQL, nil},
		{5, NightAhead, "runs that ended before their cutoff by the Redis clock: %d; the first is run %d",
			nightsAheadSQL, []any{now.Add(calendar.MaxEarliness)}},
	} {
		var n int64
		var first uint64
		if err := db.QueryRowContext(ctx, r.query, r.args...).Scan(&n, &first); err != nil {
			return nil, fmt.Errorf("find rows of missing coupons: %w", err)
		}
		v.findAny(r.invariant, r.code, n, r.detail, first)
	}
	if err := checkPolicies(ctx, db, &v); err != nil {
		return nil, err
	}
	err = r.findOrphans(ctx, db, &v)
	return v.Findings, err
}

// maxOrphans bounds how many missing coupons findOrphans collects. More of them would have the same cause.
const maxOrphans = 10_000

const notInMySQLSQL = `
SELECT DISTINCT j.id FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) AS j
WHERE NOT EXISTS (SELECT 1 FROM coupon c WHERE c.id = j.id)`

func (r *Verifier) findOrphans(ctx context.Context, db *sql.DB, v *Verdict) error {
	unknown := map[coupon.CouponID]bool{}
	err := r.Store.ScanCoupons(ctx, func(coupons []coupon.CouponID) error {
		if len(unknown) >= maxOrphans {
			return nil
		}
		missing, err := mysqltx.Column[coupon.CouponID](ctx, db, notInMySQLSQL, jsonArray(coupons))
		for _, id := range missing {
			unknown[id] = true
		}
		return mysqltx.Wrap(err, "find missing coupons")
	})
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(unknown)) {
		look, err := r.Store.Observe(ctx, id, 0)
		if err != nil {
			return err
		}
		v.findAny(4, NeverSettled, look.Waiting+look.DLQ,
			"applications in Redis: %d; coupon %d does not exist, and no run settles them", id)
	}
	return nil
}
