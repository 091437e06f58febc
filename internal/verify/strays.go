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

// Each query returns a count and the lowest id of what it counted, in a range of ids of its column. SELECT DISTINCT
// coupon_id only reads an index.
const (
	missingOf          = "SELECT COUNT(*), COALESCE(MIN(t.coupon_id), 0) FROM "
	inRange            = " WHERE coupon_id BETWEEN ? AND ?"
	missing            = " t LEFT JOIN coupon c ON c.id = t.coupon_id WHERE c.id IS NULL"
	couponsMissingSQL  = missingOf + "(SELECT DISTINCT coupon_id FROM user_coupon" + inRange + ")" + missing
	outcomesMissingSQL = missingOf + "(SELECT DISTINCT coupon_id FROM application_outcome" + inRange + ")" + missing
	recordsMissingSQL  = missingOf + "(SELECT DISTINCT coupon_id FROM settlement" + inRange + ")" + missing
	sumsMissingSQL     = missingOf + "(SELECT coupon_id FROM settled" + inRange + ")" + missing
	sealsMissingSQL    = missingOf + "(SELECT coupon_id FROM seal" + inRange + ")" + missing

	logsMissingSQL = `
SELECT COUNT(*), COALESCE(MIN(l.id), 0) FROM coupon_log l LEFT JOIN user_coupon u ON u.id = l.user_coupon_id
WHERE l.id BETWEEN ? AND ? AND u.id IS NULL`
	ordersMissingSQL = `
SELECT COUNT(*), COALESCE(MIN(o.user_coupon_id), 0) FROM coupon_order o LEFT JOIN user_coupon u
    ON u.id = o.user_coupon_id
WHERE o.user_coupon_id BETWEEN ? AND ? AND u.id IS NULL`

	eventsOfMissingSQL = "SELECT COUNT(*), COALESCE(MIN(t.id), 0) FROM audit_event" + missing +
		" AND t.id BETWEEN ? AND ? AND t.coupon_id IS NOT NULL"
	// headsOfMissingSQL counts the audit events of missing coupons of which only the head of the chain is left.
	headsOfMissingSQL = "SELECT COALESCE(SUM(t.seq), 0), COALESCE(MIN(t.coupon_id), 0) FROM audit_head" + missing + `
AND t.coupon_id BETWEEN ? AND ? AND t.seq > 0
AND NOT EXISTS (SELECT 1 FROM audit_event e WHERE e.coupon_id = t.coupon_id)`

	// runsEndedWrongSQL counts runs with an end but no final status, or with a final status but no end.
	runsEndedWrongSQL = `
SELECT COUNT(*), COALESCE(MIN(id), 0) FROM settlement_run
WHERE id BETWEEN ? AND ? AND (finished_at IS NULL) <> (status IN ('RUNNING', 'ABANDONED'))`
	// immediateAloneSQL counts immediate runs without a record. Such a run is recorded only where it changed a coupon.
	immediateAloneSQL = `
SELECT COUNT(*), COALESCE(MIN(r.id), 0) FROM settlement_run r
WHERE r.id BETWEEN ? AND ? AND r.trigger_kind = 'IMMEDIATE'
    AND NOT EXISTS (SELECT 1 FROM settlement s WHERE s.run_id = r.id)`
	// runsOutgrownSQL counts runs that changed more coupons, or have results of more, than they were to settle.
	runsOutgrownSQL = `
SELECT COUNT(*), COALESCE(MIN(r.id), 0) FROM settlement_run r
WHERE r.id BETWEEN ? AND ? AND (r.coupons < (SELECT COUNT(*) FROM settlement s WHERE s.run_id = r.id)
    OR r.coupons < (SELECT COUNT(*) FROM run_coupon x WHERE x.run_id = r.id))`

	// These two read an index, and only what they count.
	eventsOfNoneSQL = "SELECT COUNT(*), COALESCE(MIN(id), 0) FROM audit_event WHERE coupon_id IS NULL"
	// nightsAheadSQL counts runs that ended with a cutoff after the given time. That time is MaxEarliness after now: a
	// run can start so early, and end at once if it has nothing to settle.
	nightsAheadSQL = "SELECT COUNT(*), COALESCE(MIN(id), 0) FROM settlement_run WHERE finished_at IS NOT NULL AND " +
		"cutoff > ?"
)

// stray is a rule that looks at rows by ranges of a column. Rows are new as the table is that grows with them.
type stray struct {
	invariant int
	code      Code
	detail    string
	query     string
	column    table
	grows     table
}

// turn is the name of the progress of its turn.
func (s stray) turn() string { return "turn of " + s.column.name }

func ofCoupons(name string) table {
	return table{name: name, id: "coupon_id", piece: couponTable.piece}
}

var (
	runs     = table{name: "settlement_run", id: "id", piece: 10_000}
	ofIssued = table{name: "coupon_order", id: "user_coupon_id", piece: issuedTable.piece}
	strays   = []stray{
		{6, AuditInserted, "audit events about coupons that do not exist: %d; the first has the id %d",
			eventsOfMissingSQL, eventTable, eventTable},
		{6, AuditRemoved, "removed audit events about coupons that do not exist: %d; the first is about coupon %d",
			headsOfMissingSQL, ofCoupons("audit_head"), couponTable},
		{6, CouponMissing, "coupons that do not exist, but have rows in user_coupon: %d; the first is coupon %d",
			couponsMissingSQL, ofCoupons("user_coupon"), couponTable},
		{6, CouponMissing,
			"coupons that do not exist, but have rows in application_outcome: %d; the first is coupon %d",
			outcomesMissingSQL, ofCoupons("application_outcome"), couponTable},
		{6, CouponMissing, "coupons that do not exist, but have rows in settlement: %d; the first is coupon %d",
			recordsMissingSQL, ofCoupons("settlement"), couponTable},
		{6, CouponMissing, "coupons that do not exist, but have rows in settled: %d; the first is coupon %d",
			sumsMissingSQL, ofCoupons("settled"), couponTable},
		{6, CouponMissing, "coupons that do not exist, and were sealed: %d; the first is coupon %d",
			sealsMissingSQL, ofCoupons("seal"), couponTable},
		{8, OrderMismatch, "orders with issued coupons that do not exist: %d; the first is user_coupon %d",
			ordersMissingSQL, ofIssued, issuedTable},
		{9, LogWrong, "rows of coupon_log about issued coupons that do not exist: %d; the first has the id %d",
			logsMissingSQL, logTable, logTable},
		{6, RunWrong,
			"runs with a final status and no end, or with an end and no final status: %d; the first is run %d",
			runsEndedWrongSQL, runs, recordTable},
		{6, RunWrong, "immediate runs without a record of a coupon: %d; the first is run %d", immediateAloneSQL, runs,
			recordTable},
		{6, RunWrong, "runs with more coupons than they were to settle: %d; the first is run %d", runsOutgrownSQL,
			runs, recordTable},
	}
)

// Strays finds rows and Redis keys of coupons that do not exist, and impossible runs: among what is new since the last
// check and what has its turn, or everywhere if the plan is to check all. The program leaves no such rows: a purge
// deletes a coupon last, and each audit event is about an existing coupon.
func (r *Verifier) Strays(ctx context.Context, db *sql.DB, p *Plan) ([]Finding, error) {
	now, err := r.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	v := Verdict{Findings: []Finding{}}
	for _, s := range strays {
		n, first, err := p.countStrays(ctx, db, s)
		if err != nil {
			return nil, err
		}
		if v.findAny(s.invariant, s.code, n, s.detail, first); n > 0 {
			p.keep(s, first)
		}
	}
	for _, r := range []rule{
		{6, AuditInserted, "audit events without a coupon: %d; the first has the id %d", eventsOfNoneSQL, nil},
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

func (p *Plan) countStrays(ctx context.Context, db *sql.DB, s stray) (found int64, first uint64, err error) {
	spans, err := p.spansOf(ctx, db, s)
	if err != nil {
		return 0, 0, err
	}
	for _, ids := range spans {
		err := eachPiece(ctx, db, s.column, ids, func(ids span) error {
			var n int64
			var lowest uint64
			err := db.QueryRowContext(ctx, s.query, ids.from, ids.to).Scan(&n, &lowest)
			if found += n; n > 0 && (first == 0 || lowest < first) {
				first = lowest
			}
			return err
		})
		if err != nil {
			return 0, 0, fmt.Errorf("find rows of missing coupons: %w", err)
		}
	}
	return found, first, nil
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
		v.findAny(6, CouponMissing, look.Issued+look.ByHand,
			"users whom Redis knows to have a coupon: %d; coupon %d does not exist: MySQL has lost it", id)
	}
	return nil
}
