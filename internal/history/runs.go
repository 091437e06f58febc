package history

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

type Reader struct{ DB mysqltx.Querier }

// SilentSeconds is the time without a heartbeat after which a run counts as abandoned: six heartbeats are missing.
const SilentSeconds = 60

// IsSilent is an SQL condition for runs whose last heartbeat is old. Its one argument is SilentSeconds.
const IsSilent = "heartbeat_at < UTC_TIMESTAMP(6) - INTERVAL ? SECOND"

// RunStatus is the status of run r as SQL: a RUNNING run that is silent is ABANDONED. The argument is SilentSeconds.
const RunStatus = "IF(r.status = 'RUNNING' AND r." + IsSilent + ", 'ABANDONED', r.status)"

type Run struct {
	ID        coupon.RunID   `json:"run"`
	Trigger   coupon.Trigger `json:"trigger"`
	Operator  string         `json:"operator"`
	Reason    string         `json:"reason"`
	Cutoff    time.Time      `json:"cutoff"`
	StartedAt time.Time      `json:"startedAt"`
	RunEnd
	Coupons int64 `json:"coupons"` // coupons that the run was to settle: due when it began, or named by the operator
	Counts
	Unsettled int64 `json:"unsettled"` // how many of Coupons were held, busy or failed
}

type RunEnd struct {
	HeartbeatAt time.Time        `json:"heartbeatAt"`
	FinishedAt  *time.Time       `json:"finishedAt,omitempty"` // nil while the run goes on, and for an abandoned run
	Millis      *int64           `json:"durationMs,omitempty"` // nil if FinishedAt is nil
	Status      coupon.RunStatus `json:"status"`               // see the constant RunStatus
}

type Counts struct {
	Issued int64 `json:"issued"`
	// Moved to the DLQ; before the clean-up has ended, also those that the run decided to move.
	UnderReview   int64 `json:"underReview"`
	Rejected      int64 `json:"rejected"` // ended as REJECTED
	AlreadyIssued int64 `json:"alreadyIssued"`
	NotSelected   int64 `json:"notSelected"`
}

// fields returns the scan targets for the counts of runsSQL and runCouponsSQL.
func (c *Counts) fields() []any {
	return []any{&c.Issued, &c.UnderReview, &c.Rejected, &c.AlreadyIssued, &c.NotSelected}
}

// RunFilter restricts Runs. A zero field does not restrict.
type RunFilter struct {
	From, To time.Time       // the cutoff is after From and not after To
	Coupon   coupon.CouponID // only runs that changed this coupon or failed to settle it
	Status   string
	Trigger  string       // empty: without a coupon, any but IMMEDIATE
	Before   coupon.RunID // only runs with lower ids
	Limit    int          // required
}

// below returns the lowest id that the filter leaves out.
func (f RunFilter) below() uint64 { return cmp.Or(uint64(f.Before), math.MaxInt64) }

const runColumns = "r.id, r.trigger_kind, r.operator, r.reason, r.cutoff, r.coupons, r.started_at, r.heartbeat_at, " +
	"r.finished_at, "

const (
	runsSQL = "SELECT " + runColumns + `r.status,
       COALESCE(SUM(s.issued_count), 0), COALESCE(SUM(s.under_review_count), 0), COALESCE(SUM(s.ended_count), 0),
       COALESCE(SUM(s.already_issued_count), 0), COALESCE(SUM(s.not_selected_count), 0),
       (SELECT COUNT(*) FROM run_coupon x WHERE x.run_id = r.id AND x.status IN ('HELD', 'BUSY', 'FAILED'))
FROM (SELECT ` + runColumns + RunStatus + ` AS status FROM `
	ofRuns = `) r LEFT JOIN settlement s ON s.run_id = r.id
GROUP BY ` + runColumns + `r.status ORDER BY r.id DESC`

	oneRunSQL = runsSQL + "settlement_run r WHERE r.id = ?" + ofRuns

	// Each trigger has its runs in the order of a page, or by cutoff. A coupon has its runs in the order of a page.
	newestSQL   = "settlement_run r FORCE INDEX (settlement_run_newest) WHERE r.trigger_kind = ?" + ofCouponSQL
	ofPeriodSQL = "settlement_run r FORCE INDEX (settlement_run_trigger) WHERE r.trigger_kind = ?" + ofCouponSQL
	ofCouponSQL = ` AND (? = 0 OR EXISTS (SELECT 1 FROM settlement s WHERE s.run_id = r.id AND s.coupon_id = ?)
		OR EXISTS (SELECT 1 FROM run_coupon x WHERE x.run_id = r.id AND x.coupon_id = ?))`
	ofRecords  = "settlement f FORCE INDEX (settlement_newest)" + coupledSQL
	ofResults  = "run_coupon f FORCE INDEX (run_coupon_coupon)" + coupledSQL
	coupledSQL = " STRAIGHT_JOIN settlement_run r ON r.id = f.run_id WHERE f.coupon_id = ? AND (? = '' OR " +
		"r.trigger_kind = ?)"
)

// Runs returns runs, the newest first. An immediate coupon can have a million a day: only a filter of the coupon or the
// trigger finds them. A page reads its runs. With a period it reads those of the period, and with a coupon and another
// trigger or status those that are not immediate.
func (r Reader) Runs(ctx context.Context, f RunFilter) ([]Run, error) {
	var found []string
	var args []any
	after, upTo := mysqltx.Period(f.From, f.To)
	add := func(source, id string, of ...any) {
		found = append(found, "(SELECT "+id+" AS id FROM "+source+" AND "+id+" < ? AND r.cutoff > ? AND "+
			"r.cutoff <= ? AND (? = '' OR "+RunStatus+" = ?) ORDER BY "+id+" DESC LIMIT ?)")
		args = slices.Concat(args, of, []any{f.below(), after, upTo, f.Status, SilentSeconds, f.Status, f.Limit})
	}
	// An immediate run has succeeded from the beginning.
	immediate := f.Coupon > 0 && f.Trigger == "" && (f.Status == "" || f.Status == string(coupon.RunSucceeded))
	if f.From.IsZero() && (immediate || f.Coupon > 0 && f.Trigger == string(coupon.ImmediateRun)) {
		add(ofRecords, "f.run_id", f.Coupon, f.Trigger, f.Trigger)
		add(ofResults, "f.run_id", f.Coupon, f.Trigger, f.Trigger)
	} else {
		triggers, source := []string{f.Trigger}, newestSQL
		if f.Trigger == "" {
			triggers = []string{string(coupon.Cron), string(coupon.Manual), string(coupon.DLQRetry)}
		}
		if immediate {
			triggers = append(triggers, string(coupon.ImmediateRun))
		}
		if !f.From.IsZero() {
			source = ofPeriodSQL
		}
		for _, trigger := range triggers {
			add(source, "r.id", trigger, f.Coupon, f.Coupon, f.Coupon)
		}
	}
	return r.runs(ctx, runsSQL+"("+strings.Join(found, " UNION ")+`) i STRAIGHT_JOIN settlement_run r ON r.id = i.id
		ORDER BY r.id DESC LIMIT ?`+ofRuns, append(args, f.Limit)...)
}

// runs executes a query that begins with runsSQL.
func (r Reader) runs(ctx context.Context, query string, args ...any) ([]Run, error) {
	runs, err := mysqltx.Collect(ctx, r.DB, func(r *Run) []any {
		fields := []any{&r.ID, &r.Trigger, &r.Operator, &r.Reason, &r.Cutoff, &r.Coupons, &r.StartedAt, &r.HeartbeatAt,
			&r.FinishedAt, &r.Status}
		return append(append(fields, r.Counts.fields()...), &r.Unsettled)
	}, query, append([]any{SilentSeconds}, args...)...)
	for i := range runs {
		r := &runs[i]
		if r.FinishedAt != nil {
			r.Millis = new(r.FinishedAt.Sub(r.StartedAt).Milliseconds())
		}
	}
	return runs, mysqltx.Wrap(err, "read runs")
}

func (r Reader) Run(ctx context.Context, id coupon.RunID) (Run, error) {
	runs, err := r.runs(ctx, oneRunSQL, id)
	if err == nil && len(runs) == 0 {
		err = text.MissingErrorf(text.NoRun, id)
	}
	if err != nil {
		return Run{}, err
	}
	return runs[0], nil
}

type RunCoupon struct {
	Coupon coupon.CouponID     `json:"coupon"`
	Name   string              `json:"name"`   // empty if the coupon does not exist
	Status coupon.ResultStatus `json:"status"` // SETTLED, HELD, BUSY, FAILED or FROZEN
	Read   int64               `json:"read"`   // applications: the sum of the counts
	Counts
	Gap int64 `json:"gap"` // lost promises that the run found
	CouponRecord
	Millis *int64 `json:"durationMs,omitempty"` // nil if the run was killed
	Error  string `json:"error,omitempty"`

	Recorded bool `json:"-"` // the run changed the coupon
}

type CouponRecord struct {
	FirstArrival  coupon.Arrival `json:"firstArrival,omitempty"`
	LastArrival   coupon.Arrival `json:"lastArrival,omitempty"`
	WinnersDigest string         `json:"winnersDigest,omitempty"`
	CleanedAt     *time.Time     `json:"cleanedAt,omitempty"` // end of the clean-up in Redis; nil: pending
}

const runCouponsSQL = `
SELECT k.coupon_id, COALESCE(c.name, ''), COALESCE(x.status, 'SETTLED'), s.run_id IS NOT NULL,
       COALESCE(s.read_count, 0), COALESCE(s.issued_count, 0), COALESCE(s.under_review_count, 0),
         COALESCE(s.ended_count, 0),
       COALESCE(s.already_issued_count, 0), COALESCE(s.not_selected_count, 0), COALESCE(x.gap, 0),
       COALESCE(s.first_arrival, 0), COALESCE(s.last_arrival, 0), COALESCE(s.winners_digest, ''), s.cleaned_at,
       x.duration_ms, COALESCE(x.error, '')
FROM (SELECT coupon_id FROM settlement WHERE run_id = ? UNION SELECT coupon_id FROM run_coupon WHERE run_id = ?) k
LEFT JOIN settlement s ON s.run_id = ? AND s.coupon_id = k.coupon_id
LEFT JOIN run_coupon x ON x.run_id = ? AND x.coupon_id = k.coupon_id
LEFT JOIN coupon c ON c.id = k.coupon_id
ORDER BY k.coupon_id`

func (r Reader) RunCoupons(ctx context.Context, run coupon.RunID) ([]RunCoupon, error) {
	coupons, err := mysqltx.Collect(ctx, r.DB, func(c *RunCoupon) []any {
		fields := append([]any{&c.Coupon, &c.Name, &c.Status, &c.Recorded, &c.Read}, c.Counts.fields()...)
		return append(fields, &c.Gap, &c.FirstArrival, &c.LastArrival, &c.WinnersDigest, &c.CleanedAt, &c.Millis,
			&c.Error)
	}, runCouponsSQL, run, run, run, run)
	return coupons, mysqltx.Wrap(err, "read coupons of run %d", run)
}

type Settled struct {
	Run coupon.RunID `json:"run"`
	At  time.Time    `json:"at"` // UTC
}

const lastSettledSQL = `
SELECT s.run_id, s.settled_at FROM settlement s JOIN settlement_run r ON r.id = s.run_id
WHERE s.coupon_id = ? AND s.run_id < ?
  AND s.run_id NOT IN (SELECT e.run_id FROM audit_event e WHERE e.coupon_id = ? AND e.action = ?
    AND e.run_id IS NOT NULL)
ORDER BY r.cutoff <= ? DESC, s.run_id DESC LIMIT 1`

// LastSettled returns the last run with a lower id than before that settled a coupon, or nil if there is none. Runs up
// to the given cutoff are preferred to runs with a later one. A run that only dropped applications does not count.
func LastSettled(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID, before coupon.RunID,
	cutoff time.Time) (*Settled, error) {
	var s Settled
	err := q.QueryRowContext(ctx, lastSettledSQL, couponID, before, couponID, audit.DLQDropped,
		cutoff.UTC()).Scan(&s.Run, &s.At)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &s, mysqltx.Wrap(err, "last settlement of coupon %d", couponID)
}
