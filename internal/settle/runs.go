package settle

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Heartbeats go by the clock of the database, by which they are judged: those of pods differ. A beat also takes back that
// somebody took the run for dead.
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
	if err != nil {
		return false, fmt.Errorf("find run: %w", err)
	}
	return r.id > 0, nil
}

func insertRun(ctx context.Context, q mysqltx.Querier, r *run) error {
	done, err := q.ExecContext(ctx, insertRunSQL, r.Trigger, r.Operator, r.Reason, r.cutoff, r.startedAt)
	if err != nil {
		return fmt.Errorf("record run: %w", err)
	}
	id, err := done.LastInsertId()
	if err != nil {
		return fmt.Errorf("record run: %w", err)
	}
	r.id = uint64(id)
	return nil
}

func beatRun(ctx context.Context, q mysqltx.Querier, run coupon.RunID) error {
	if err := mysqltx.One(q.ExecContext(ctx, beatRunSQL, run)); err != nil {
		return fmt.Errorf("heartbeat of run %d: %w", run, err)
	}
	return nil
}

func endRun(ctx context.Context, q mysqltx.Querier, run coupon.RunID, status coupon.RunStatus, at time.Time) error {
	return mysqltx.One(q.ExecContext(ctx, endRunSQL, status, at, run))
}

const lastNightSQL = "SELECT MAX(cutoff) FROM settlement_run WHERE trigger_kind = 'CRON' AND finished_at IS NOT NULL AND cutoff <= ?"

// LastNight is the highest cutoff of a nightly run that came to its end; zero when there was none. Coupons that it could
// not settle stay due and are in every later night. A night behind the newest counts as none: the Redis clock was ahead.
func (s *Settler) LastNight(ctx context.Context, newest time.Time) (time.Time, error) {
	var last sql.NullTime
	err := s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error {
		return q.QueryRowContext(ctx, lastNightSQL, newest.UTC()).Scan(&last)
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("read last nightly run: %w", err)
	}
	return last.Time, nil
}

const (
	selectSilentSQL  = "SELECT id FROM settlement_run WHERE status = 'RUNNING' AND " + history.IsSilent + " ORDER BY id LIMIT ?"
	abandonSilentSQL = "UPDATE settlement_run SET status = 'ABANDONED' WHERE id = ? AND status = 'RUNNING' AND " + history.IsSilent
)

// mostAbandoned are marked by one run: it is to settle. Those behind are left to the next.
const mostAbandoned = 100

// abandonSilent marks runs that have not beaten for long: their processes died, or lost the database before they could
// write down their end. One that lives nevertheless takes it back with its next beat, and its end says how it really
// ended. finished_at stays NULL: what such a run left undone is still to do.
func abandonSilent(ctx context.Context, q mysqltx.Querier) (abandoned []uint64, err error) {
	silent, err := selectSilent(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("look for abandoned runs: %w", err)
	}
	for _, id := range silent {
		n, err := mysqltx.Affected(q.ExecContext(ctx, abandonSilentSQL, id, history.SilentSeconds))
		if err != nil {
			return abandoned, fmt.Errorf("mark run %d abandoned: %w", id, err)
		}
		if n > 0 { // else it has beaten, or another run was faster
			abandoned = append(abandoned, id)
		}
	}
	return abandoned, nil
}

func selectSilent(ctx context.Context, q mysqltx.Querier) (ids []uint64, err error) {
	rows, err := q.QueryContext(ctx, selectSilentSQL, history.SilentSeconds, mostAbandoned)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id uint64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// resultsAtOnce are stored by one statement: with 2,000 letters each, well below the 16 MB that a packet may have.
const resultsAtOnce = 200

const (
	replaceResultsSQL = "REPLACE INTO run_coupon (run_id, coupon_id, status, gap, duration_ms, error) VALUES "
	resultRow         = "(?, ?, ?, ?, ?, ?)"
)

// storeResults keeps how long each coupon took and why it was not settled. The whole may be repeated.
func storeResults(ctx context.Context, q mysqltx.Querier, run coupon.RunID, results []Result) error {
	notable := slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Status == coupon.Unchanged || r.Status == coupon.NotDue })
	for some := range slices.Chunk(notable, resultsAtOnce) {
		args := make([]any, 0, 6*len(some))
		for _, r := range some {
			args = append(args, run, r.Coupon, r.Status, r.Gap, max(0, r.Millis), mysqltx.Shorten(r.Error, maxErrorLetters))
		}
		rows := strings.Repeat(", "+resultRow, len(some))[len(", "):]
		if _, err := mysqltx.Affected(q.ExecContext(ctx, replaceResultsSQL+rows, args...)); err != nil {
			return fmt.Errorf("keep the results of run %d: %w", run, err)
		}
	}
	return nil
}

// maxErrorLetters is the width of run_coupon.error.
const maxErrorLetters = 2000

// mostLookedUp bounds how many coupons a person is told about.
const mostLookedUp = 20

// asideTimeout bounds what a run does beside settling, as it begins.
const asideTimeout = 3 * time.Second

// markAbandoned sees to it that no run is RUNNING for ever. Like all that is done beside settling, it is tried once and
// keeps no run from its work.
func (s *Settler) markAbandoned(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, asideTimeout)
	defer cancel()
	abandoned, err := abandonSilent(ctx, s.DB.Pool())
	if err != nil {
		s.Logger.Warn("abandoned runs not marked", zap.Error(err))
	}
	for _, id := range abandoned {
		s.Logger.Warn("run abandoned: it has not beaten for long", zap.Uint64("run_id", id))
	}
}

// keepResults tries to; what was settled is recorded without it.
func (s *Settler) keepResults(ctx context.Context, r run, report *Report) {
	if err := storeResults(ctx, s.DB.Pool(), r.id, report.Coupons); err != nil {
		s.Logger.Warn("timings and errors not kept", zap.Uint64("run_id", r.id), zap.Error(err))
	}
}

// lookUpEarlier finds which earlier runs have settled what a person wanted settled again. It only informs.
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
		if looked++; looked > mostLookedUp {
			return
		}
		var err error
		if c.Earlier, err = history.LastSettled(ctx, s.DB.Pool(), c.Coupon, r.id, r.cutoff); err != nil {
			s.Logger.Warn("earlier settlement not looked up", zap.Uint64("coupon_id", c.Coupon), zap.Error(err))
			return
		}
	}
}
