package history

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Fold makes a Run stand for the immediate runs of one coupon whose cutoff is in the same hour. ID, StartedAt and
// Cutoff are then of the first of them, HeartbeatAt and FinishedAt of the last, the counts are sums, and Millis is nil.
// The id of the first run never changes: pages of a growing list neither repeat a fold nor leave one out.
type Fold struct {
	Runs    int64           `json:"runs,omitempty"` // number of runs; 0: the Run is a single run
	Coupon  coupon.CouponID `json:"coupon,omitempty"`
	LastRun coupon.RunID    `json:"lastRun,omitempty"`
}

// hourOf numbers the hours of cutoffs since 1970 (UTC).
const hourOf = "TIMESTAMPDIFF(HOUR, '1970-01-01', r.cutoff)"

// The rows of a fold are added up in MySQL. FORCE INDEX: the index settlement_run_trigger has all that the sums need of
// settlement_run.
const (
	foldsSQL = `
SELECT g.first_run, a.started_at, a.cutoff, z.heartbeat_at, z.finished_at, z.status, g.runs, g.coupon_id, g.last_run,
       g.issued, g.under_review, g.rejected, g.already_issued, g.not_selected
FROM (SELECT s.coupon_id, ` + hourOf + ` AS hour, COUNT(*) AS runs, MIN(s.run_id) AS first_run,
    MAX(s.run_id) AS last_run,
             SUM(s.issued_count) AS issued, SUM(s.under_review_count) AS under_review, SUM(s.ended_count) AS rejected,
             SUM(s.already_issued_count) AS already_issued, SUM(s.not_selected_count) AS not_selected
      FROM `
	ofFolds = `
      GROUP BY s.coupon_id, hour HAVING first_run < ? ORDER BY first_run DESC LIMIT ?) g
JOIN settlement_run a ON a.id = g.first_run JOIN settlement_run z ON z.id = g.last_run`

	foldsOfTimeSQL = foldsSQL + `settlement_run r FORCE INDEX (settlement_run_trigger)
	STRAIGHT_JOIN settlement s ON s.run_id = r.id
      WHERE r.trigger_kind = 'IMMEDIATE' AND r.cutoff > ? AND r.cutoff <= ? AND (? = 0 OR s.coupon_id = ?)` + ofFolds
	foldsOfCouponSQL = foldsSQL + `settlement s STRAIGHT_JOIN settlement_run r ON r.id = s.run_id
      WHERE r.trigger_kind = 'IMMEDIATE' AND s.coupon_id = ?` + ofFolds

	// otherHourSQL finds the last immediate run below an id whose hour is not in a list.
	otherHourSQL = "SELECT r.id, " + hourOf + ` FROM settlement_run r FORCE INDEX (PRIMARY)
WHERE r.trigger_kind = 'IMMEDIATE' AND r.id < ? AND FIND_IN_SET(` + hourOf + ", ?) = 0 ORDER BY r.id DESC LIMIT 1"
)

// withFolds adds folds to nightly and manual runs.
func (r Reader) withFolds(ctx context.Context, f RunFilter, runs []Run) ([]Run, error) {
	if f.Coupon > 0 && f.From.IsZero() {
		folds, err := r.folds(ctx, foldsOfCouponSQL, f.Coupon, f.below(), f.Limit)
		return firstOf(f.Limit, runs, folds), err
	}
	if !f.From.IsZero() {
		after, upTo := mysqltx.Period(f.From, f.To)
		folds, err := r.foldsOfTime(ctx, f, after, upTo)
		return firstOf(f.Limit, runs, folds), err
	}
	hours := []string{}
	for below := f.below(); ; {
		var last uint64
		var hour int64
		err := r.DB.QueryRowContext(ctx, otherHourSQL, below, strings.Join(hours, ",")).Scan(&last, &hour)
		// Each fold of an hour that is not read yet has a lower id.
		if errors.Is(err, sql.ErrNoRows) || err == nil && len(runs) == f.Limit && last < uint64(runs[f.Limit-1].ID) {
			return runs, nil
		}
		if err != nil {
			return nil, mysqltx.Wrap(err, "read immediate runs")
		}
		begins := time.Unix(hour*3600, 0)
		folds, err := r.foldsOfTime(ctx, f, begins.Add(-time.Microsecond), begins.Add(time.Hour-time.Microsecond))
		if err != nil {
			return nil, err
		}
		runs, hours, below = firstOf(f.Limit, runs, folds), append(hours, strconv.FormatInt(hour, 10)), last
	}
}

func (r Reader) foldsOfTime(ctx context.Context, f RunFilter, after, upTo time.Time) ([]Run, error) {
	return r.folds(ctx, foldsOfTimeSQL, after.UTC(), upTo.UTC(), f.Coupon, f.Coupon, f.below(), f.Limit)
}

func (r Reader) folds(ctx context.Context, query string, args ...any) ([]Run, error) {
	folds, err := mysqltx.Collect(ctx, r.DB, func(r *Run) []any {
		r.Trigger, r.Coupons = coupon.ImmediateRun, 1
		return append([]any{&r.ID, &r.StartedAt, &r.Cutoff, &r.HeartbeatAt, &r.FinishedAt, &r.Status, &r.Runs,
			&r.Fold.Coupon, &r.LastRun},
			r.Counts.fields()...)
	}, query, args...)
	return folds, mysqltx.Wrap(err, "read immediate runs")
}

// firstOf returns the newest of both.
func firstOf(limit int, runs, folds []Run) []Run {
	all := append(runs, folds...)
	slices.SortFunc(all, func(a, b Run) int { return cmp.Compare(b.ID, a.ID) })
	return all[:min(limit, len(all))]
}
