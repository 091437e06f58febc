package history

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Start has the fields of a run that are recorded at its beginning. Times are UTC.
type Start struct {
	Trigger           coupon.Trigger
	Operator, Reason  string
	Cutoff, StartedAt time.Time
}

// Heartbeats are written and compared by the clock of MySQL, because the clocks of pods differ. A heartbeat of a run
// that was marked ABANDONED makes it RUNNING again.
const (
	insertSQL = "INSERT INTO settlement_run (trigger_kind, operator, reason, cutoff, started_at, heartbeat_at) VALUES (?, ?, ?, ?, ?, UTC_TIMESTAMP(6))"
	beatSQL   = "UPDATE settlement_run SET heartbeat_at = UTC_TIMESTAMP(6), status = 'RUNNING' WHERE id = ? AND status IN ('RUNNING', 'ABANDONED')"
	endSQL    = "UPDATE settlement_run SET status = ?, heartbeat_at = UTC_TIMESTAMP(6), finished_at = ? WHERE id = ?"
	findSQL   = `
SELECT COALESCE(MAX(id), 0) FROM settlement_run
WHERE cutoff = ? AND started_at = ? AND trigger_kind = ? AND operator = ? AND reason = ? AND status = 'RUNNING'`
)

// Begin records a run. If attempt is above 1, it first looks for the row of an earlier attempt whose reply was lost.
func Begin(ctx context.Context, q mysqltx.Querier, s Start, attempt int) (id coupon.RunID, err error) {
	if attempt > 1 {
		err := q.QueryRowContext(ctx, findSQL, s.Cutoff, s.StartedAt, s.Trigger, s.Operator, s.Reason).Scan(&id)
		if err != nil || id > 0 {
			return id, mysqltx.Wrap(err, "find run")
		}
	}
	done, err := q.ExecContext(ctx, insertSQL, s.Trigger, s.Operator, s.Reason, s.Cutoff, s.StartedAt)
	if err != nil {
		return 0, fmt.Errorf("record run: %w", err)
	}
	inserted, err := done.LastInsertId()
	return coupon.RunID(inserted), mysqltx.Wrap(err, "record run")
}

func Beat(ctx context.Context, q mysqltx.Querier, run coupon.RunID) error {
	return mysqltx.Wrap(mysqltx.Exec(ctx, q, 1, beatSQL, run), "heartbeat of run %d", run)
}

func End(ctx context.Context, q mysqltx.Querier, run coupon.RunID, status coupon.RunStatus, at time.Time) error {
	return mysqltx.Wrap(mysqltx.Exec(ctx, q, 1, endSQL, status, at, run), "end run %d", run)
}

const lastNightSQL = "SELECT MAX(cutoff) FROM settlement_run WHERE trigger_kind = 'CRON' AND finished_at IS NOT NULL AND cutoff <= ?"

// LastNight returns the highest cutoff of a nightly run that has ended, or zero. Coupons that the run could not settle
// stay due. Cutoffs after newest do not count: such a run ended while the Redis clock was ahead.
func LastNight(ctx context.Context, q mysqltx.Querier, newest time.Time) (time.Time, error) {
	var last sql.NullTime
	err := q.QueryRowContext(ctx, lastNightSQL, newest.UTC()).Scan(&last)
	return last.Time, mysqltx.Wrap(err, "read last nightly run")
}

const (
	silentSQL  = "SELECT id FROM settlement_run WHERE status = 'RUNNING' AND " + IsSilent + " ORDER BY id LIMIT ?"
	abandonSQL = "UPDATE settlement_run SET status = 'ABANDONED' WHERE id = ? AND status = 'RUNNING' AND " + IsSilent

	maxAbandoned = 100 // limit for one call; the next run marks the others
)

// Abandon marks runs whose last heartbeat is old. Their processes died, or lost the database. The next heartbeat of
// such a run removes the mark. finished_at stays NULL, so that a later run settles the night again.
func Abandon(ctx context.Context, q mysqltx.Querier) (abandoned []coupon.RunID, err error) {
	silent, err := mysqltx.Column[coupon.RunID](ctx, q, silentSQL, SilentSeconds, maxAbandoned)
	if err != nil {
		return nil, fmt.Errorf("look for abandoned runs: %w", err)
	}
	for _, id := range silent {
		n, err := mysqltx.Affected(q.ExecContext(ctx, abandonSQL, id, SilentSeconds))
		if err != nil {
			return abandoned, fmt.Errorf("mark run %d abandoned: %w", id, err)
		}
		if n > 0 { // if n is 0, a heartbeat has come or another run was faster
			abandoned = append(abandoned, id)
		}
	}
	return abandoned, nil
}

const (
	replaceResultsSQL = "REPLACE INTO run_coupon (run_id, coupon_id, status, gap, duration_ms, error) VALUES "
	resultRow         = "(?, ?, ?, ?, ?, ?)"

	maxResults      = 200  // rows per statement, which stays well below 16 MB
	maxErrorLetters = 2000 // width of column run_coupon.error
)

// Result has what table settlement does not say about a run and one coupon.
type Result struct {
	Coupon coupon.CouponID
	Status coupon.ResultStatus
	Gap    int64
	Millis int64
	Error  string
}

// Keep records how long each coupon took and why it was not settled. It may be repeated.
func Keep(ctx context.Context, q mysqltx.Querier, run coupon.RunID, results []Result) error {
	for some := range slices.Chunk(results, maxResults) {
		args := make([]any, 0, 6*len(some))
		for _, r := range some {
			args = append(args, run, r.Coupon, r.Status, r.Gap, max(0, r.Millis), mysqltx.Shorten(r.Error, maxErrorLetters))
		}
		rows := strings.Repeat(", "+resultRow, len(some))[len(", "):]
		if _, err := q.ExecContext(ctx, replaceResultsSQL+rows, args...); err != nil {
			return fmt.Errorf("keep the results of run %d: %w", run, err)
		}
	}
	return nil
}
