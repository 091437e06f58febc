package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// SilentSeconds is how long a run that is RUNNING may be silent before it is taken for dead: six heartbeats, of
// which one may hang. Both the heartbeat and the question go by the clock of the database. A run that was only cut off from it for so long takes that
// back with its next heartbeat.
const SilentSeconds = 60

// IsSilent is whether a run's last heartbeat is older than the one argument, SilentSeconds.
const IsSilent = "heartbeat_at < UTC_TIMESTAMP(6) - INTERVAL ? SECOND"

// Run is one execution of the job. Times are UTC.
type Run struct {
	ID          uint64     `json:"run"`
	Trigger     string     `json:"trigger"`
	Operator    string     `json:"operator"`
	Reason      string     `json:"reason"`
	Cutoff      time.Time  `json:"cutoff"`
	StartedAt   time.Time  `json:"startedAt"`
	HeartbeatAt time.Time  `json:"heartbeatAt"`
	FinishedAt  *time.Time `json:"finishedAt,omitempty"` // not while it runs, and never when it was abandoned
	Millis      *int64     `json:"durationMs,omitempty"` // the same
	Status      string     `json:"status"`               // ABANDONED also before a later run has marked it so

	Coupons       int64 `json:"coupons"` // of which it changed something
	Issued        int64 `json:"issued"`
	Rejected      int64 `json:"rejected"`
	AlreadyIssued int64 `json:"alreadyIssued"`
	NotSelected   int64 `json:"notSelected"`
	Unsettled     int64 `json:"unsettled"` // coupons that were held, busy or failed
}

// RunFilter says which runs; what is zero does not restrict.
type RunFilter struct {
	From, To time.Time // whose cutoff lies behind From and not behind To
	Coupon   uint64    // that changed this coupon, or tried and could not
	Status   string
	Trigger  string
	Before   uint64 // whose id is lower
	Limit    int    // how many at most; needed
}

const runStatus = "IF(r.status = 'RUNNING' AND r." + IsSilent + ", 'ABANDONED', r.status)"

const runColumns = "r.id, r.trigger_kind, r.operator, r.reason, r.cutoff, r.started_at, r.heartbeat_at, r.finished_at, r.status"

const summedRuns = `
SELECT ` + runColumns + `,
       COUNT(s.coupon_id), COALESCE(SUM(s.issued_count), 0), COALESCE(SUM(s.rejected_count), 0),
       COALESCE(SUM(s.already_issued_count), 0), COALESCE(SUM(s.not_selected_count), 0),
       (SELECT COUNT(*) FROM run_coupon x WHERE x.run_id = r.id AND x.status <> 'SETTLED')
FROM (%s) r LEFT JOIN settlement s ON s.run_id = r.id
GROUP BY ` + runColumns + ` ORDER BY r.id DESC`

const chosenRuns = `
SELECT id, trigger_kind, operator, reason, cutoff, started_at, heartbeat_at, finished_at, ` + runStatus + ` AS status
FROM settlement_run r
WHERE (? = 0 OR id < ?) AND (? IS NULL OR cutoff > ?) AND (? IS NULL OR cutoff <= ?)
  AND (? = '' OR trigger_kind = ?) AND (? = '' OR ` + runStatus + ` = ?)
  AND (? = 0 OR EXISTS (SELECT 1 FROM settlement f WHERE f.run_id = r.id AND f.coupon_id = ?)
       OR EXISTS (SELECT 1 FROM run_coupon t WHERE t.run_id = r.id AND t.coupon_id = ?))
ORDER BY id DESC LIMIT ?`

const oneRun = `
SELECT id, trigger_kind, operator, reason, cutoff, started_at, heartbeat_at, finished_at, ` + runStatus + ` AS status
FROM settlement_run r WHERE id = ?`

var (
	runsSQL = fmt.Sprintf(summedRuns, chosenRuns)
	runSQL  = fmt.Sprintf(summedRuns, oneRun)
)

// ErrNoRun: there is no such run.
var ErrNoRun = errors.New("there is no such run; settle runs lists them")

// Runs reads runs, the newest first.
func (h History) Runs(ctx context.Context, f RunFilter) ([]Run, error) {
	from, to := orNull(f.From), orNull(f.To)
	runs, err := h.runs(ctx, runsSQL, SilentSeconds, f.Before, f.Before, from, from, to, to, f.Trigger, f.Trigger,
		f.Status, SilentSeconds, f.Status, f.Coupon, f.Coupon, f.Coupon, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	return runs, nil
}

// Run reads one run; ErrNoRun when there is none.
func (h History) Run(ctx context.Context, id uint64) (Run, error) {
	runs, err := h.runs(ctx, runSQL, SilentSeconds, id)
	if err != nil {
		return Run{}, fmt.Errorf("read run %d: %w", id, err)
	}
	if len(runs) == 0 {
		return Run{}, fmt.Errorf("run %d: %w", id, ErrNoRun)
	}
	return runs[0], nil
}

func orNull(t time.Time) sql.NullTime { return sql.NullTime{Time: t.UTC(), Valid: !t.IsZero()} }

func (h History) runs(ctx context.Context, query string, args ...any) ([]Run, error) {
	rows, err := h.DB.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	runs := []Run{}
	for rows.Next() {
		var r Run
		var finished sql.NullTime
		if err := rows.Scan(&r.ID, &r.Trigger, &r.Operator, &r.Reason, &r.Cutoff, &r.StartedAt, &r.HeartbeatAt, &finished, &r.Status,
			&r.Coupons, &r.Issued, &r.Rejected, &r.AlreadyIssued, &r.NotSelected, &r.Unsettled); err != nil {
			return nil, err
		}
		if finished.Valid {
			millis := finished.Time.Sub(r.StartedAt).Milliseconds()
			r.FinishedAt, r.Millis = &finished.Time, &millis
		}
		runs = append(runs, r)
	}
	return runs, rows.Err()
}

// RunCoupon is what a run did to one coupon. Arrivals are µs since 1970.
type RunCoupon struct {
	Coupon        uint64     `json:"coupon"`
	Name          string     `json:"name"`   // empty when the coupon is gone
	Status        string     `json:"status"` // SETTLED, or why it was not: HELD, BUSY, FAILED
	Read          int64      `json:"read"`
	Issued        int64      `json:"issued"`
	Rejected      int64      `json:"rejected"`
	AlreadyIssued int64      `json:"alreadyIssued"`
	NotSelected   int64      `json:"notSelected"`
	Gap           int64      `json:"gap"` // as the run found it
	FirstArrival  int64      `json:"firstArrival,omitempty"`
	LastArrival   int64      `json:"lastArrival,omitempty"`
	WinnersDigest string     `json:"winnersDigest,omitempty"`
	CleanedAt     *time.Time `json:"cleanedAt,omitempty"`  // when Redis held nothing of it any more
	Millis        *int64     `json:"durationMs,omitempty"` // not of a run that was killed
	Error         string     `json:"error,omitempty"`

	Recorded bool `json:"-"` // the run changed something
}

const runCouponsSQL = `
SELECT k.coupon_id, COALESCE(c.name, ''), COALESCE(x.status, 'SETTLED'), s.run_id IS NOT NULL,
       COALESCE(s.read_count, 0), COALESCE(s.issued_count, 0), COALESCE(s.rejected_count, 0),
       COALESCE(s.already_issued_count, 0), COALESCE(s.not_selected_count, 0), COALESCE(x.gap, 0),
       COALESCE(s.first_arrival, 0), COALESCE(s.last_arrival, 0), COALESCE(s.winners_digest, ''), s.cleaned_at,
       x.duration_ms, COALESCE(x.error, '')
FROM (SELECT coupon_id FROM settlement WHERE run_id = ? UNION SELECT coupon_id FROM run_coupon WHERE run_id = ?) k
LEFT JOIN settlement s ON s.run_id = ? AND s.coupon_id = k.coupon_id
LEFT JOIN run_coupon x ON x.run_id = ? AND x.coupon_id = k.coupon_id
LEFT JOIN coupon c ON c.id = k.coupon_id
ORDER BY k.coupon_id`

// RunCoupons reads what a run did, coupon by coupon: those that it changed or could not settle.
func (h History) RunCoupons(ctx context.Context, run uint64) ([]RunCoupon, error) {
	rows, err := h.DB.QueryContext(ctx, runCouponsSQL, run, run, run, run)
	if err != nil {
		return nil, fmt.Errorf("read coupons of run %d: %w", run, err)
	}
	defer rows.Close()
	coupons := []RunCoupon{}
	for rows.Next() {
		var c RunCoupon
		var cleaned sql.NullTime
		var millis sql.NullInt64
		if err := rows.Scan(&c.Coupon, &c.Name, &c.Status, &c.Recorded, &c.Read, &c.Issued, &c.Rejected, &c.AlreadyIssued, &c.NotSelected,
			&c.Gap, &c.FirstArrival, &c.LastArrival, &c.WinnersDigest, &cleaned, &millis, &c.Error); err != nil {
			return nil, fmt.Errorf("read coupons of run %d: %w", run, err)
		}
		if cleaned.Valid {
			c.CleanedAt = &cleaned.Time
		}
		if millis.Valid {
			c.Millis = &millis.Int64
		}
		coupons = append(coupons, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read coupons of run %d: %w", run, err)
	}
	return coupons, nil
}

// Settled is when a run settled a coupon.
type Settled struct {
	Run uint64    `json:"run"`
	At  time.Time `json:"at"` // UTC
}

const lastSettledSQL = `
SELECT s.run_id, s.settled_at FROM settlement s JOIN settlement_run r ON r.id = s.run_id
WHERE s.coupon_id = ? AND s.run_id < ? AND NOT EXISTS
      (SELECT 1 FROM audit_event e WHERE e.coupon_id = s.coupon_id AND e.run_id = s.run_id AND e.action = 'DLQ_DROPPED')
ORDER BY r.cutoff <= ? DESC, s.run_id DESC LIMIT 1`

// LastSettled is the last run before another that settled a coupon: one of the same date or an earlier one, or else any; nil
// when none did. One that only dropped applications has not.
func LastSettled(ctx context.Context, q rowQuerier, coupon, before uint64, cutoff time.Time) (*Settled, error) {
	var s Settled
	err := q.QueryRowContext(ctx, lastSettledSQL, coupon, before, cutoff.UTC()).Scan(&s.Run, &s.At)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("last settlement of coupon %d: %w", coupon, err)
	}
	return &s, nil
}

// rowQuerier is a pool, a connection or a transaction.
type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}
