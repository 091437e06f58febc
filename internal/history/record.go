package history

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// Start has the fields of a run that are recorded at its beginning. Times are UTC.
type Start struct {
	Trigger           coupon.Trigger
	Operator, Reason  string
	Cutoff, StartedAt time.Time
	Coupons           int // how many the run is to settle
	Nonce             Nonce
}

// Nonce identifies a run. The process makes it, because MySQL can give an AUTO_INCREMENT id twice after a crash.
type Nonce [16]byte

func NewNonce() (n Nonce) {
	_, _ = rand.Read(n[:]) // never fails
	return n
}

// Heartbeats are written and compared by the clock of MySQL, because the clocks of pods differ. A heartbeat of a run
// that was marked ABANDONED makes it RUNNING again.
const (
	insertSQL = "INSERT INTO settlement_run (trigger_kind, operator, reason, cutoff, coupons, started_at, " +
		"heartbeat_at, nonce) VALUES (?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6), ?)"
	findSQL = "SELECT COALESCE(MAX(id), 0) FROM settlement_run WHERE nonce = ?"
	beatSQL = "UPDATE settlement_run SET heartbeat_at = UTC_TIMESTAMP(6), status = 'RUNNING' WHERE nonce = ? AND " +
		"status IN ('RUNNING', 'ABANDONED')"
	endSQL = "UPDATE settlement_run SET status = ?, heartbeat_at = UTC_TIMESTAMP(6), finished_at = ? WHERE nonce = ?"
)

// Begin records a run. If attempt is above 1, it first looks for the row of an earlier attempt whose reply was lost.
func Begin(ctx context.Context, q mysqltx.Querier, s Start, attempt int) (id coupon.RunID, err error) {
	if attempt > 1 {
		if id, err := Find(ctx, q, s.Nonce); err != nil || id > 0 {
			return id, err
		}
	}
	return insert(ctx, q, insertSQL, s.Trigger, s.Operator, s.Reason, s.Cutoff, s.Coupons, s.StartedAt, s.Nonce[:])
}

// ErrLost says that MySQL does not have a run that has begun. A replica was promoted that had not received its row, and
// gives its id to another run.
var ErrLost = &coupon.Error{Class: coupon.Infrastructure, Err: text.RetryableErrorf(text.RunLost)}

// Find returns the run with a nonce, or 0.
func Find(ctx context.Context, q mysqltx.Querier, n Nonce) (id coupon.RunID, err error) {
	err = q.QueryRowContext(ctx, findSQL, n[:]).Scan(&id)
	return id, mysqltx.Wrap(err, "find run")
}

const insertEndedSQL = `
INSERT INTO settlement_run (trigger_kind, operator, reason, cutoff, coupons, started_at, heartbeat_at, finished_at,
    status, nonce)
VALUES (?, '', '', ?, ?, ?, UTC_TIMESTAMP(6), ?, 'SUCCEEDED', ?)`

// BeginImmediate records an immediate run in the transaction of its first change, and as ended: the row exists only if
// the transaction is committed. If the run has a row already, BeginImmediate finds it.
func BeginImmediate(ctx context.Context, tx mysqltx.Querier, s Start, at time.Time) (coupon.RunID, error) {
	id, err := insert(ctx, tx, insertEndedSQL, s.Trigger, s.Cutoff, s.Coupons, s.StartedAt, at, s.Nonce[:])
	if mysqltx.IsDuplicate(err) {
		return Find(ctx, tx, s.Nonce)
	}
	return id, err
}

func insert(ctx context.Context, q mysqltx.Querier, query string, args ...any) (coupon.RunID, error) {
	done, err := q.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, fmt.Errorf("record run: %w", err)
	}
	inserted, err := done.LastInsertId()
	return coupon.RunID(inserted), mysqltx.Wrap(err, "record run")
}

func Beat(ctx context.Context, q mysqltx.Querier, n Nonce) error {
	return mysqltx.Wrap(found(q.ExecContext(ctx, beatSQL, n[:])), "heartbeat")
}

func End(ctx context.Context, q mysqltx.Querier, n Nonce, status coupon.RunStatus, at time.Time) error {
	return mysqltx.Wrap(found(q.ExecContext(ctx, endSQL, status, at, n[:])), "end run")
}

func found(done sql.Result, err error) error {
	n, err := mysqltx.Affected(done, err)
	if err == nil && n == 0 {
		err = ErrLost
	}
	return err
}

const endedSQL = "SELECT COUNT(*) > 0 FROM settlement_run WHERE nonce = ? AND finished_at IS NOT NULL"

// HasEnded reports whether the end of the run with a nonce is recorded.
func HasEnded(ctx context.Context, q mysqltx.Querier, n Nonce) (ended bool, err error) {
	err = q.QueryRowContext(ctx, endedSQL, n[:]).Scan(&ended)
	return ended, mysqltx.Wrap(err, "look for a run")
}

// lastNightSQL uses the index of triggers, because most cutoffs are those of immediate runs.
const lastNightSQL = `
SELECT cutoff FROM settlement_run FORCE INDEX (settlement_run_trigger)
WHERE trigger_kind = 'CRON' AND finished_at IS NOT NULL AND cutoff <= ? ORDER BY cutoff DESC LIMIT 1`

// LastNight returns the highest cutoff of a nightly run that has ended, or zero. Coupons that the run could not settle
// stay due. Cutoffs after newest do not count: such a run ended while the Redis clock was ahead.
func LastNight(ctx context.Context, q mysqltx.Querier, newest time.Time) (time.Time, error) {
	var last time.Time
	err := q.QueryRowContext(ctx, lastNightSQL, newest.UTC()).Scan(&last)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return last, mysqltx.Wrap(err, "read last nightly run")
}

const (
	silentSQL = "SELECT id FROM settlement_run FORCE INDEX (settlement_run_status) WHERE status = 'RUNNING' AND " +
		IsSilent + " ORDER BY id LIMIT ?"
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

	// dropPurgedSQL runs after the rows are inserted: a purge that begins later finds them.
	dropPurgedSQL = "DELETE FROM run_coupon WHERE run_id = ? AND coupon_id IN (SELECT coupon_id FROM purged_coupon)"

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

// Keep records how long each coupon took and why it was not settled, but nothing of a purged coupon. It may be
// repeated.
func Keep(ctx context.Context, db *sql.DB, run coupon.RunID, results []Result) error {
	if len(results) == 0 {
		return nil
	}
	tx, err := db.BeginTx(ctx, nil)
	if err == nil {
		defer func() { _ = tx.Rollback() }() // nothing after COMMIT
		if err = keep(ctx, tx, run, results); err == nil {
			err = tx.Commit()
		}
	}
	return mysqltx.Wrap(err, "keep the results of run %d", run)
}

func keep(ctx context.Context, tx *sql.Tx, run coupon.RunID, results []Result) error {
	for some := range slices.Chunk(results, maxResults) {
		args := make([]any, 0, 6*len(some))
		for _, r := range some {
			args = append(args, run, r.Coupon, r.Status, r.Gap, max(0, r.Millis),
				mysqltx.Shorten(r.Error, maxErrorLetters))
		}
		rows := strings.Repeat(", "+resultRow, len(some))[len(", "):]
		if _, err := tx.ExecContext(ctx, replaceResultsSQL+rows, args...); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, dropPurgedSQL, run)
	return err
}
