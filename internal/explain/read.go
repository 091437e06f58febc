package explain

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/standing"
	"github.com/jajeong/jajeong/internal/text"
)

type reader struct {
	*Explainer
	*Facts
	explanation *Explanation
	tx          *sql.Tx
}

// readMySQL adds the facts from MySQL to x. The audit events become its first events.
func (e *Explainer) readMySQL(ctx context.Context, x *Explanation) error {
	return mysqltx.Read(ctx, e.DB, sql.LevelRepeatableRead, func(tx *sql.Tx) error {
		r := &reader{e, &x.Facts, x, tx}
		for _, part := range []struct {
			what string
			read func(context.Context) error
		}{
			{"coupon", r.readCoupon}, {"user coupon of coupon", r.readUserCoupon},
			{"outcomes of coupon", r.readOutcomes},
			{"journal of coupon", r.readJournal}, {"queue of coupon", r.readPlace}, {"runs of coupon", r.readRuns},
			{"audit of coupon", r.readAudits},
			{"seats that became free of coupon", r.readFreedSeats},
		} {
			if err := part.read(ctx); text.Is(err, text.NoSuchCoupon) {
				return err
			} else if err != nil {
				return fmt.Errorf("read %s %d: %w", part.what, r.CouponID, err)
			}
		}
		return nil
	})
}

// bounded returns at most limit rows. If there are more, it adds one to LeftOut.
func bounded[T any](r *reader, rows []T, limit int) []T {
	if len(rows) <= limit {
		return rows
	}
	r.explanation.LeftOut++
	return rows[:limit]
}

const couponSQL = `
SELECT c.name, c.total_quantity, c.issued_count, c.apply_opens_at, c.apply_closes_at, c.status = 'PAUSED',
    c.finalised_at,
       {id} IS NOT NULL, {active}, {status},
       COALESCE(j.unfound, 0), COALESCE(s.written_off, 0),
       COALESCE((SELECT MAX(last_arrival) FROM settlement WHERE coupon_id = c.id), 0),
       (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = c.id AND run_id IS NULL), c.cadence, c.frozen,
         COALESCE(c.line_limit, 0)
FROM coupon c LEFT JOIN journal j ON j.coupon_id = c.id LEFT JOIN settled s ON s.coupon_id = c.id
LEFT JOIN {users} ON {id} = ? AND ? <= {last} WHERE c.id = ?`

func (r *reader) readCoupon(ctx context.Context) error {
	directory, err := r.Users.Table(ctx, r.tx)
	if err != nil {
		return err
	}
	c, user := new(CouponFacts), r.UserID
	err = r.tx.QueryRowContext(ctx, directory.SQL(couponSQL), user, user, r.CouponID).Scan(
		&c.Name, &c.Seats, &c.Issued, &c.OpensAt, &c.ClosesAt, &c.Paused, &c.FinalisedAt, &r.UserKnown, &r.UserActive,
		&r.UserStatus,
		&c.Unfound, &c.WrittenOff, &c.LastSeated, &c.ByHand, &c.Cadence, &c.Frozen, &c.LineLimit)
	if errors.Is(err, sql.ErrNoRows) {
		return text.MissingErrorf(text.NoSuchCoupon, r.CouponID)
	}
	r.Coupon = c
	if err == nil && c.Frozen {
		c.Freeze, err = history.Freeze(ctx, r.tx, r.CouponID)
	}
	return err
}

const outcomesSQL = `
SELECT o.applied_at, o.outcome, COALESCE(o.cause, ''), o.note, o.run_id, o.recorded_at, COALESCE(r.cutoff, o.applied_at)
FROM application_outcome o LEFT JOIN settlement_run r ON r.id = o.run_id
WHERE o.coupon_id = ? AND o.user_id = ? ORDER BY o.applied_at DESC LIMIT ?`

func (r *reader) readOutcomes(ctx context.Context) error {
	outcomes, err := mysqltx.Collect(ctx, r.tx, func(a *Application) []any {
		return []any{&a.AppliedAt, &a.Outcome, &a.Cause, &a.Note, &a.Run, &a.RecordedAt, &a.Cutoff}
	}, outcomesSQL, r.CouponID, r.UserID, maxOutcomes+1)
	for _, o := range bounded(r, outcomes, maxOutcomes) {
		// An application with a coupon and another outcome counts as issued. `settle verify` reports it.
		if a := r.application(coupon.ArrivalAt(o.AppliedAt)); a.Outcome != coupon.OutcomeIssued {
			a.Decision = o.Decision
		}
	}
	return err
}

const journalledSQL = "SELECT COALESCE(MIN(arrival), 0) FROM line_journal WHERE coupon_id = ? AND arrival >= ? AND " +
	"user_id = ?"

// readJournal looks into the journal for an application that is accounted for nowhere.
func (r *reader) readJournal(ctx context.Context) error {
	is := r.standing().Is
	if r.Published == nil || r.Coupon.FinalisedAt != nil || is != coupon.StandingNone &&
		is != coupon.StandingNotSelected {
		return nil
	}
	var arrival coupon.Arrival
	below := standing.AccountedBelow(r.known().Outcomes)
	err := r.tx.QueryRowContext(ctx, journalledSQL, r.CouponID, below, r.UserID).Scan(&arrival)
	if err == nil && arrival > 0 {
		r.application(arrival).Lost = true
	}
	return err
}

const orderSQL = `
SELECT (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL AND applied_at <= ?)
     + (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND applied_at <= ?)`

const rankSQL = `
SELECT COUNT(*) FROM application_outcome
WHERE coupon_id = ? AND outcome = 'NOT_SELECTED' AND (applied_at < ? OR (applied_at = ? AND user_id <= ?))`

// readPlace finds the rank, by arrival, of the last application with an outcome, and how far it was from a seat.
func (r *reader) readPlace(ctx context.Context) error {
	a := r.latest()
	if a == nil {
		return nil
	}
	if r.Published != nil {
		var settled int64
		if err := r.tx.QueryRowContext(ctx, orderSQL, r.CouponID, a.AppliedAt, r.CouponID, a.AppliedAt).
			Scan(&settled); err != nil {
			return err
		}
		if look, err := r.Redis.Observe(ctx, r.CouponID, a.Arrival); err == nil { // after an error Order stays 0
			a.Order = settled + look.Waiting - look.WaitingAfter + look.DLQ - look.DLQAfter
		}
	}
	if a.Outcome != coupon.OutcomeNotSelected {
		return nil
	}
	r.Missed = &Missed{Arrival: a.Arrival}
	if last := r.Coupon.LastSeated; last > 0 && last < a.Arrival {
		r.Missed.Micros = int64(a.Arrival - last)
	}
	return r.tx.QueryRowContext(ctx, rankSQL, r.CouponID, a.AppliedAt, a.AppliedAt, r.UserID).Scan(&r.Missed.Rank)
}

const runColumnsSQL = `
SELECT r.id, r.trigger_kind, r.operator, r.reason, r.cutoff, r.started_at, r.heartbeat_at, r.finished_at,
    ` + history.RunStatus + `,
       s.run_id IS NOT NULL, COALESCE(s.read_count, 0), COALESCE(s.issued_count, 0), COALESCE(s.not_selected_count, 0),
       COALESCE(s.last_arrival, 0), s.cleaned_at IS NOT NULL
FROM settlement_run r `

const recordOfRun = " LEFT JOIN settlement s ON s.run_id = r.id AND s.coupon_id = ? "

const namedRunsSQL = runColumnsSQL + recordOfRun +
	"WHERE r.id IN (SELECT j.id FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) AS j)"

// runsSQL finds runs with a cutoff after the user's first application. It finds runs with a record of the coupon. While
// an application was undecided, it also finds runs that failed at this coupon and runs that never ended. It leaves out
// immediate runs: one concerns a user only if it decided the application, and another fact names it then.
const runsSQL = runColumnsSQL + "FORCE INDEX (settlement_run_trigger)" + recordOfRun + `
WHERE r.trigger_kind IN ('CRON', 'MANUAL', 'DLQ_RETRY') AND r.cutoff > ? AND (s.run_id IS NOT NULL AND r.started_at <= ?
    OR s.run_id IS NULL AND r.status <> 'SUCCEEDED' AND r.started_at <= ?
  AND (r.finished_at IS NULL OR EXISTS (SELECT 1 FROM run_coupon x WHERE x.run_id = r.id AND x.coupon_id = ?)))
ORDER BY r.id DESC LIMIT ?`

// readRuns reads the runs that concern the user, and every run that another fact names.
func (r *reader) readRuns(ctx context.Context) error {
	if len(r.Applications) > 0 {
		settled, unsettled := r.concernedUntil()
		runs, err := r.runs(ctx, runsSQL, r.Applications[0].AppliedAt, settled, unsettled, r.CouponID, maxRuns+1)
		if err != nil {
			return err
		}
		r.Runs = append(r.Runs, bounded(r, runs, maxRuns)...)
	}
	ids, _ := json.Marshal(r.namedRuns()) // integers can always be encoded
	named, err := r.runs(ctx, namedRunsSQL, string(ids))
	r.Runs = append(r.Runs, named...)
	slices.SortFunc(r.Runs, func(a, b RunFacts) int { return cmp.Compare(a.ID, b.ID) })
	r.Runs = slices.CompactFunc(r.Runs, func(a, b RunFacts) bool { return a.ID == b.ID })
	return err
}

func (r *reader) runs(ctx context.Context, query string, args ...any) ([]RunFacts, error) {
	return mysqltx.Collect(ctx, r.tx, func(f *RunFacts) []any {
		return []any{&f.ID, &f.Trigger, &f.Operator, &f.Reason, &f.Cutoff, &f.StartedAt, &f.HeartbeatAt, &f.FinishedAt,
			&f.Status, &f.Settled, &f.Read, &f.Issued, &f.NotSelected, &f.LastArrival, &f.Cleaned}
	}, query, append([]any{history.SilentSeconds, r.CouponID}, args...)...)
}

// namedRuns returns the runs that the other facts name. The id 0 means no run.
func (f *Facts) namedRuns() (ids []coupon.RunID) {
	for _, a := range f.Applications {
		ids = append(ids, a.Run)
		if a.Review != nil {
			ids = append(ids, a.Review.Run)
		}
	}
	if f.UserCoupon != nil {
		ids = append(ids, f.UserCoupon.Run)
	}
	return ids
}

// concernedUntil returns two limits: a run that started later does not concern the user. The first is for runs that
// settled the coupon, the second for all other runs. Both are the time of the user's last outcome. They are the latest
// time while the user waits, is in the DLQ or is to be put back; the first is also that after NOT_SELECTED, because a
// later settlement may still issue a seat.
func (f *Facts) concernedUntil() (settled, unsettled time.Time) {
	if slices.ContainsFunc(f.Applications, func(a Application) bool { return a.Outcome == "" }) {
		return mysqltx.Latest, mysqltx.Latest
	}
	for _, a := range f.Applications {
		if a.RecordedAt != nil && a.RecordedAt.After(unsettled) {
			unsettled = *a.RecordedAt
		}
	}
	if latest := f.latest(); f.UserCoupon == nil && latest != nil && latest.Outcome == coupon.OutcomeNotSelected {
		return mysqltx.Latest, unsettled
	}
	return unsettled, unsettled
}

// auditsSQL leaves out the events about other users, also about those who were forgotten. Of the pages of lists it has
// the one by which the user got the coupon.
const auditsSQL = "SELECT e.at, e.actor, e.action, COALESCE(e.run_id, 0), e.reason, e.detail" + audit.Chained + `
WHERE e.coupon_id = ? AND (e.user_hash IS NULL OR e.user_id = ?)
    AND (e.action <> '` + string(audit.CouponListGranted) + `' OR e.at = ?)
ORDER BY e.seq DESC LIMIT ?`

func (r *reader) readAudits(ctx context.Context) error {
	granted := mysqltx.Latest
	if r.UserCoupon != nil {
		granted = r.UserCoupon.IssuedAt
	}
	events, err := mysqltx.Collect(ctx, r.tx, func(e *Event) []any {
		e.Kind = EventAudit
		return []any{&e.At, &e.Actor, &e.Action, &e.Run, &e.Reason, &e.Detail}
	}, auditsSQL, r.CouponID, r.UserID, granted, maxAudits+1)
	r.explanation.Events = bounded(r, events, maxAudits)
	if r.UserCoupon != nil {
		r.explanation.Events = r.UserCoupon.addReasons(r.explanation.Events)
	}
	return err
}
