package settle

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Heartbeats are written and judged by the clock of the database, because those of pods differ. A heartbeat of an abandoned
// run makes it RUNNING again.
const (
	insertRunSQL = "INSERT INTO settlement_run (trigger_kind, operator, reason, cutoff, started_at, heartbeat_at) VALUES (?, ?, ?, ?, ?, UTC_TIMESTAMP(6))"
	beatRunSQL   = "UPDATE settlement_run SET heartbeat_at = UTC_TIMESTAMP(6), status = 'RUNNING' WHERE id = ? AND status IN ('RUNNING', 'ABANDONED')"
	endRunSQL    = "UPDATE settlement_run SET status = ?, heartbeat_at = UTC_TIMESTAMP(6), finished_at = ? WHERE id = ?"
)

const findRunSQL = `
SELECT COALESCE(MAX(id), 0) FROM settlement_run
WHERE cutoff = ? AND started_at = ? AND trigger_kind = ? AND operator = ? AND reason = ? AND status = 'RUNNING'`

// findRun finds the row of a run whose INSERT got no reply; false when it was not stored.
func findRun(ctx context.Context, q mysqltx.Querier, r *run) (bool, error) {
	err := q.QueryRowContext(ctx, findRunSQL, r.cutoff, r.startedAt, r.Trigger, r.Operator, r.Reason).Scan(&r.id)
	return r.id > 0, wrap(err, "find run")
}

func insertRun(ctx context.Context, q mysqltx.Querier, r *run) error {
	done, err := q.ExecContext(ctx, insertRunSQL, r.Trigger, r.Operator, r.Reason, r.cutoff, r.startedAt)
	if err != nil {
		return wrap(err, "record run")
	}
	id, err := done.LastInsertId()
	r.id = coupon.RunID(id)
	return wrap(err, "record run")
}

func beatRun(ctx context.Context, q mysqltx.Querier, run coupon.RunID) error {
	return wrap(exec(ctx, q, 1, beatRunSQL, run), "heartbeat of run %d", run)
}

func endRun(ctx context.Context, q mysqltx.Querier, run coupon.RunID, status coupon.RunStatus, at time.Time) error {
	return exec(ctx, q, 1, endRunSQL, status, at, run)
}

const lastNightSQL = "SELECT MAX(cutoff) FROM settlement_run WHERE trigger_kind = 'CRON' AND finished_at IS NOT NULL AND cutoff <= ?"

// LastNight is the highest cutoff of a nightly run that came to its end; zero when there was none. Coupons that it could
// not settle stay due and are in every later night. A night behind the newest counts as none: the Redis clock was ahead.
func (s *Settler) LastNight(ctx context.Context, newest time.Time) (time.Time, error) {
	var last sql.NullTime
	err := s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error {
		return q.QueryRowContext(ctx, lastNightSQL, newest.UTC()).Scan(&last)
	})
	return last.Time, wrap(err, "read last nightly run")
}

const (
	selectSilentSQL  = "SELECT id FROM settlement_run WHERE status = 'RUNNING' AND " + history.IsSilent + " ORDER BY id LIMIT ?"
	abandonSilentSQL = "UPDATE settlement_run SET status = 'ABANDONED' WHERE id = ? AND status = 'RUNNING' AND " + history.IsSilent
)

// maxAbandoned are marked by one run. The others are left to the next.
const maxAbandoned = 100

// abandonSilent marks runs whose last heartbeat is old: their processes died, or lost the database before they could record
// their end. A run that lives takes that back with its next heartbeat. finished_at stays NULL, so that a night is caught up.
func abandonSilent(ctx context.Context, q mysqltx.Querier) (abandoned []coupon.RunID, err error) {
	silent, err := mysqltx.Collect(ctx, q, func(id *coupon.RunID) []any { return []any{id} }, selectSilentSQL, history.SilentSeconds, maxAbandoned)
	if err != nil {
		return nil, wrap(err, "look for abandoned runs")
	}
	for _, id := range silent {
		n, err := mysqltx.Affected(q.ExecContext(ctx, abandonSilentSQL, id, history.SilentSeconds))
		if err != nil {
			return abandoned, wrap(err, "mark run %d abandoned", id)
		}
		if n > 0 { // else it has beaten, or another run was faster
			abandoned = append(abandoned, id)
		}
	}
	return abandoned, nil
}

// maxResults are stored by one statement: with 2,000 letters each, well below the 16 MB of a packet.
const maxResults = 200

const (
	replaceResultsSQL = "REPLACE INTO run_coupon (run_id, coupon_id, status, gap, duration_ms, error) VALUES "
	resultRow         = "(?, ?, ?, ?, ?, ?)"
)

// storeResults records how long each coupon took and why it was not settled. It may be repeated.
func storeResults(ctx context.Context, q mysqltx.Querier, run coupon.RunID, results []Result) error {
	notable := slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Status == coupon.Unchanged || r.Status == coupon.NotDue })
	for some := range slices.Chunk(notable, maxResults) {
		args := make([]any, 0, 6*len(some))
		for _, r := range some {
			args = append(args, run, r.Coupon, r.Status, r.Gap, max(0, r.Millis), mysqltx.Shorten(r.Error, maxErrorLetters))
		}
		rows := strings.Repeat(", "+resultRow, len(some))[len(", "):]
		if err := upsert(ctx, q, replaceResultsSQL+rows, args...); err != nil {
			return wrap(err, "keep the results of run %d", run)
		}
	}
	return nil
}

// maxErrorLetters is the width of run_coupon.error.
const maxErrorLetters = 2000

// maxLookedUp bounds the coupons of which a manual run names the earlier settlement.
const maxLookedUp = 20

// markTimeout bounds the marking of abandoned runs.
const markTimeout = 3 * time.Second

// markAbandoned is tried once as a run begins. Its failure does not stop the run.
func (s *Settler) markAbandoned(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	abandoned, err := abandonSilent(ctx, s.DB.Pool())
	if err != nil {
		s.Logger.Warn("abandoned runs not marked", zap.Error(err))
	}
	for _, id := range abandoned {
		s.Logger.Warn("run abandoned: its last heartbeat is old", zap.Uint64("run_id", id))
	}
}

// keepResults is tried once. The settlements are recorded without it.
func (s *Settler) keepResults(ctx context.Context, r run, report *Report) {
	if err := storeResults(ctx, s.DB.Pool(), r.id, report.Coupons); err != nil {
		s.Logger.Warn("timings and errors not kept", zap.Uint64("run_id", r.id), zap.Error(err))
	}
}

// lookUpEarlier finds the earlier runs that settled the unchanged coupons of a manual run, for the report.
func (s *Settler) lookUpEarlier(ctx context.Context, r run, report *Report) {
	if r.Trigger != coupon.Manual {
		return
	}
	looked := 0
	for i := range report.Coupons {
		c := &report.Coupons[i]
		if c.Status != coupon.Unchanged {
			continue
		}
		if looked++; looked > maxLookedUp {
			return
		}
		var err error
		if c.Earlier, err = history.LastSettled(ctx, s.DB.Pool(), c.Coupon, r.id, r.cutoff); err != nil {
			s.Logger.Warn("earlier settlement not looked up", zap.Uint64("coupon_id", c.Coupon), zap.Error(err))
			return
		}
	}
}
