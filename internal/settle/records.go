package settle

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/decision"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

const (
	selectCouponSQL = "SELECT " + coupon.ColumnsWithPromise + " FROM coupon c WHERE c.id = ?"
	selectDueSQL    = "SELECT " + coupon.ColumnsWithPromise + ` FROM coupon c
WHERE c.finalised_at IS NULL AND c.apply_opens_at < ? ORDER BY c.id`
)

var (
	errBusy   = &coupon.Error{Class: coupon.Infrastructure, Err: text.RetryableErrorf(text.CouponBusy)}
	errFrozen = &coupon.Error{Class: coupon.Setup, Err: errors.New("the coupon is frozen")} // the result shows it as a status
)

// lock is the first statement of every transaction of this package. Its row lock is the only mutual exclusion. An
// immediate run does not wait for it.
func (s *settlement) lock(ctx context.Context, tx *sql.Tx) (coupon.Coupon, error) {
	query := coupon.LockSQL
	if s.run.immediate() {
		query += " NOWAIT"
	}
	locked, err := readCoupon(ctx, tx, query, s.coupon.ID)
	switch {
	case s.run.immediate() && mysqltx.IsLockWait(err):
		return s.coupon, errBusy
	case err == nil && locked.Frozen:
		return locked, errFrozen
	default:
		return locked, err
	}
}

func readCoupon(ctx context.Context, q mysqltx.Querier, query string, id coupon.CouponID) (c coupon.Coupon, err error) {
	err = q.QueryRowContext(ctx, query, id).Scan(c.FieldsWithPromise()...)
	if errors.Is(err, sql.ErrNoRows) {
		return coupon.Coupon{}, &coupon.Error{Class: coupon.Setup, Err: text.Errorf(text.NoSuchCoupon, id)}
	}
	return c, mysqltx.Wrap(err, "read coupon %d", id)
}

func selectDue(ctx context.Context, q mysqltx.Querier, cutoff time.Time) ([]coupon.Coupon, error) {
	due, err := mysqltx.Collect(ctx, q, (*coupon.Coupon).FieldsWithPromise, selectDueSQL, cutoff)
	return due, mysqltx.Wrap(err, "read due coupons")
}

const takeSeatsSQL = "UPDATE coupon SET issued_count = issued_count + ? WHERE id = ? AND issued_count + ? <= total_quantity"

func takeSeats(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, seats int) error {
	n, err := mysqltx.Affected(tx.ExecContext(ctx, takeSeatsSQL, seats, couponID, seats))
	if mysqltx.IsCheck(err) || err == nil && n != 1 {
		return invariant(errors.Join(text.Errorf(text.SeatsGone, couponID, seats), err))
	}
	return mysqltx.Wrap(err, "count %d seats of coupon %d", seats, couponID)
}

const (
	selectIssuedSQL = `
SELECT user_id, applied_at, position, id FROM user_coupon
WHERE coupon_id = ? AND run_id = ? AND position >= ? AND (position > ? OR id > ?) AND applied_at IS NOT NULL
ORDER BY position, id LIMIT ?`

	selectRejectedSQL = `
SELECT user_id, applied_at, 0, 0 FROM application_outcome
WHERE coupon_id = ? AND outcome = 'REJECTED' AND run_id = ? AND user_id > 0
  AND (applied_at > ? OR (applied_at = ? AND user_id > ?))
ORDER BY applied_at, user_id LIMIT ?`
)

// cleanUpApplications is the greatest number of applications that one call removes from Redis.
const cleanUpApplications = 5_000

// removePages removes from Redis the applications that a run has recorded as issued or, with MarkRejected, rejected.
func (s *settlement) removePages(ctx context.Context, run coupon.RunID, mark coupon.Mark) error {
	for last := (recorded{}); ; {
		query, args := selectIssuedSQL, []any{s.coupon.ID, run, last.position, last.position, last.id, cleanUpApplications}
		if mark == coupon.MarkRejected {
			query, args = selectRejectedSQL, []any{s.coupon.ID, run, last.at, last.at, last.user, cleanUpApplications}
		}
		var rows []recorded
		err := s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
			rows, err = mysqltx.Collect(ctx, q, (*recorded).fields, query, args...)
			return err
		})
		if err != nil || len(rows) == 0 {
			return mysqltx.Wrap(err, "read settled applications of coupon %d", s.coupon.ID)
		}
		page := make([]coupon.Application, len(rows))
		for i, r := range rows {
			page[i] = coupon.Application{Member: r.user.Member(), Arrival: coupon.ArrivalAt(r.at), Source: coupon.SourceQueue}
		}
		if _, err := s.Line.Remove(ctx, s.coupon.ID, s.coupon.ClosesAt, mark, page); err != nil {
			return err
		}
		last = rows[len(rows)-1]
	}
}

// recorded is a row of user_coupon or, without position and id, of application_outcome.
type recorded struct {
	user         coupon.UserID
	at           time.Time
	position, id int64
}

func (r *recorded) fields() []any { return []any{&r.user, &r.at, &r.position, &r.id} }

const insertOutcomesSQL = `
INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, reason, run_id, recorded_at)
SELECT ?, j.user_id, ` + mysqltx.AppliedAt + `, ?, ?, ?, ? FROM ` + mysqltx.ApplicationsTable

func insertOutcomes(ctx context.Context, tx *sql.Tx, run run, couponID coupon.CouponID, outcome coupon.Outcome, reason string, applications []coupon.Application) error {
	sorted := slices.SortedFunc(slices.Values(applications), func(a, b coupon.Application) int { return cmp.Compare(a.User(), b.User()) })
	err := mysqltx.Exec(ctx, tx, len(sorted), insertOutcomesSQL, couponID, outcome, reason, run.id, run.settledAt(), mysqltx.ApplicationsJSON(sorted))
	return mysqltx.Wrap(err, "record %s for coupon %d", outcome, couponID)
}

const deleteNotSelectedSQL = `
DELETE o FROM application_outcome o JOIN ` + mysqltx.ApplicationsTable + `
ON o.coupon_id = ? AND o.user_id = j.user_id AND o.applied_at = ` + mysqltx.AppliedAt + ` AND o.outcome = 'NOT_SELECTED'`

// deleteNotSelected deletes the records of applications that have got a seat or move to the DLQ.
func deleteNotSelected(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, applications []coupon.Application) error {
	if len(applications) == 0 {
		return nil
	}
	err := mysqltx.Exec(ctx, tx, len(applications), deleteNotSelectedSQL, mysqltx.ApplicationsJSON(applications), couponID)
	return mysqltx.Wrap(err, "take back NOT_SELECTED of coupon %d", couponID)
}

// maxReasonLetters is the width of application_outcome.reason in characters.
const maxReasonLetters = 500

const updateNotSelectedSQL = `
UPDATE application_outcome SET outcome = ?, reason = ?, run_id = ?, recorded_at = ?
WHERE coupon_id = ? AND user_id = ? AND applied_at = ? AND outcome = 'NOT_SELECTED'`

func updateNotSelected(ctx context.Context, tx *sql.Tx, run run, couponID coupon.CouponID, a coupon.Application, outcome coupon.Outcome, reason string) error {
	err := mysqltx.Exec(ctx, tx, 1, updateNotSelectedSQL, outcome, mysqltx.Shorten(reason, maxReasonLetters), run.id, run.settledAt(), couponID, a.User(), a.Arrival.Time())
	return mysqltx.Wrap(err, "record %s for coupon %d, user %d", outcome, couponID, a.User())
}

const anyNotSelectedSQL = "SELECT EXISTS (SELECT 1 FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED')"

func anyNotSelected(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (found bool, err error) {
	err = tx.QueryRowContext(ctx, anyNotSelectedSQL, couponID).Scan(&found)
	return found, mysqltx.Wrap(err, "look for not selected of coupon %d", couponID)
}

const keepPromiseSQL = `
INSERT INTO promise (coupon_id, accepted, last_arrival, twice, counted_since, seen_at) VALUES (?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE accepted = GREATEST(accepted, ?), last_arrival = GREATEST(last_arrival, ?), twice = GREATEST(twice, ?),
                        counted_since = GREATEST(counted_since, ?), seen_at = ?`

// keepPromise copies the promise counters of Redis to MySQL, so that they survive a loss of Redis.
func keepPromise(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, a ledger.Account, at time.Time) error {
	err := mysqltx.Upsert(ctx, tx, keepPromiseSQL, couponID, a.Accepted, a.LastArrival, a.AskedAgain, a.CountedSince, at,
		a.Accepted, a.LastArrival, a.AskedAgain, a.CountedSince, at)
	return mysqltx.Wrap(err, "keep promise of coupon %d", couponID)
}

const writeOffSQL = "UPDATE promise SET written_off = written_off + ? WHERE coupon_id = ?"

// writeOff accepts a gap in the name of the run's operator. The audit event contains the approved digest.
func writeOff(ctx context.Context, tx *sql.Tx, run run, couponID coupon.CouponID, a ledger.Account, pin string) error {
	if err := mysqltx.Exec(ctx, tx, 1, writeOffSQL, a.Gap(), couponID); err != nil {
		return mysqltx.Wrap(err, "write off gap of coupon %d", couponID)
	}
	return run.audit(ctx, tx, audit.GapAccepted, couponID, audit.Entry{Detail: fmt.Sprintf("%d applications written off: %s; %s", a.Gap(), a, pin)})
}

const insertRecordSQL = `
INSERT INTO settlement (run_id, coupon_id, read_count, issued_count, rejected_count, already_issued_count,
                        first_arrival, last_arrival, winners_digest, settled_at)
VALUES (?, ?, ?, ?, ?, ?, NULLIF(?, 0), NULLIF(?, 0), IF(? = 0, NULL, ?), ?)`

// insertRecord inserts the settlement row. Its rejected_count includes the applications moved to the DLQ.
func insertRecord(ctx context.Context, tx *sql.Tx, run run, couponID coupon.CouponID, seats seated) error {
	t, w := seats.tally, seats.winners
	err := mysqltx.Exec(ctx, tx, 1, insertRecordSQL, run.id, couponID, t.Read, t.Issued, t.UnderReview+t.Rejected, t.AlreadyIssued,
		w.first, w.last, w.count, w.digest, run.settledAt())
	return mysqltx.Wrap(err, "record settlement of coupon %d", couponID)
}

const addToRecordSQL = `
INSERT INTO settlement (run_id, coupon_id, already_issued_count, not_selected_count, settled_at) VALUES (?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE already_issued_count = already_issued_count + ?, not_selected_count = not_selected_count + ?,
                        cleaned_at = NULL`

// addToRecord adds the outcomes of a page to the settlement row, in the transaction that records the outcomes.
func addToRecord(ctx context.Context, tx *sql.Tx, run run, couponID coupon.CouponID, d decision.Decisions) error {
	already, not := len(d.AlreadyIssued), len(d.NotSelected)
	err := mysqltx.Upsert(ctx, tx, addToRecordSQL, run.id, couponID, already, not, run.settledAt(), already, not)
	return mysqltx.Wrap(err, "record outcomes of coupon %d", couponID)
}

const completeRecordSQL = `
INSERT INTO settlement (run_id, coupon_id, read_count, rejected_count, settled_at, cleaned_at) VALUES (?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE read_count = ?, rejected_count = ?, cleaned_at = COALESCE(cleaned_at, ?)`

// completeRecord writes the final counts and marks the settlement as cleaned up.
func completeRecord(ctx context.Context, q mysqltx.Querier, run run, couponID coupon.CouponID, c Counts, at time.Time) error {
	rejected := c.UnderReview + c.Rejected
	err := mysqltx.Upsert(ctx, q, completeRecordSQL, run.id, couponID, c.Read, rejected, run.settledAt(), at, c.Read, rejected, at)
	return mysqltx.Wrap(err, "complete record of coupon %d", couponID)
}

const selectRecordSQL = `
SELECT s.read_count, s.issued_count, s.rejected_count, s.already_issued_count, s.not_selected_count,
       COALESCE(s.first_arrival, 0), COALESCE(s.last_arrival, 0), COALESCE(s.winners_digest, ''),
       (SELECT COUNT(*) FROM application_outcome o WHERE o.coupon_id = s.coupon_id AND o.outcome = 'REJECTED' AND o.run_id = s.run_id)
FROM settlement s WHERE s.run_id = ? AND s.coupon_id = ?`

func loadRecord(ctx context.Context, q mysqltx.Querier, run coupon.RunID, couponID coupon.CouponID) (done seated, found bool, err error) {
	t, w := &done.tally, &done.winners
	err = q.QueryRowContext(ctx, selectRecordSQL, run, couponID).Scan(&t.Read, &t.Issued, &t.UnderReview, &t.AlreadyIssued, &t.NotSelected,
		&w.first, &w.last, &w.digest, &t.Rejected)
	if errors.Is(err, sql.ErrNoRows) {
		return seated{}, false, nil
	}
	t.Rejected = min(t.Rejected, t.UnderReview)
	t.UnderReview -= t.Rejected
	w.count = t.Issued
	return done, true, mysqltx.Wrap(err, "read record of coupon %d", couponID)
}

// pendingCleanup is a run whose settled applications may still be in Redis.
type pendingCleanup struct {
	run     coupon.RunID
	covered bool // its cutoff is not later than that of the current run, which thus reads every application that it left
}

const selectPendingSQL = `
SELECT s.run_id, r.cutoff <= ? FROM settlement s JOIN settlement_run r ON r.id = s.run_id
WHERE s.coupon_id = ? AND s.cleaned_at IS NULL ORDER BY s.run_id`

func selectPendingCleanups(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, cutoff time.Time) ([]pendingCleanup, error) {
	pending, err := mysqltx.Collect(ctx, tx, func(p *pendingCleanup) []any { return []any{&p.run, &p.covered} }, selectPendingSQL, cutoff, couponID)
	return pending, mysqltx.Wrap(err, "read settlements to clean up of coupon %d", couponID)
}

const keepSumsSQL = `
INSERT INTO settled (coupon_id, issued, concluded, settled_up_to, last_issued) VALUES (?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE issued = ?, concluded = ?, settled_up_to = ?, last_issued = ?`

// keepSums writes the sums after the transaction that seats the winners, if they have changed or were wrong.
func keepSums(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, a ledger.Account, seats seated) error {
	now := a.Sums
	now.Issued += int64(seats.winners.count)
	now.Concluded += int64(seats.recorded)
	now.LastIssued = max(now.LastIssued, seats.winners.last)
	now.SettledUpTo = max(now.SettledUpTo, now.LastIssued)
	if now == a.Stored {
		return nil
	}
	err := mysqltx.Upsert(ctx, tx, keepSumsSQL, couponID, now.Issued, now.Concluded, now.SettledUpTo, now.LastIssued,
		now.Issued, now.Concluded, now.SettledUpTo, now.LastIssued)
	return mysqltx.Wrap(err, "keep sums of coupon %d", couponID)
}

const addToSumsSQL = `
INSERT INTO settled (coupon_id, concluded, settled_up_to) VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE concluded = concluded + ?, settled_up_to = GREATEST(settled_up_to, ?)`

// addToSums counts outcomes that were recorded without a seat.
func addToSums(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, recorded ...coupon.Application) error {
	if len(recorded) == 0 {
		return nil
	}
	upTo := coupon.Arrival(0)
	for _, a := range recorded {
		upTo = max(upTo, a.Arrival)
	}
	err := mysqltx.Upsert(ctx, tx, addToSumsSQL, couponID, len(recorded), upTo, len(recorded), upTo)
	return mysqltx.Wrap(err, "add to sums of coupon %d", couponID)
}

const selectLastIssuedSQL = "SELECT COALESCE(MAX(last_issued), 0) FROM settled WHERE coupon_id = ?"

// selectLastIssued returns the highest arrival of the coupon that ever got a seat.
func selectLastIssued(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (last coupon.Arrival, err error) {
	err = tx.QueryRowContext(ctx, selectLastIssuedSQL, couponID).Scan(&last)
	return last, mysqltx.Wrap(err, "read last arrival issued of coupon %d", couponID)
}

const (
	markCleanedSQL   = "UPDATE settlement SET cleaned_at = COALESCE(cleaned_at, ?) WHERE run_id = ? AND coupon_id = ?"
	markFinalisedSQL = "UPDATE coupon SET finalised_at = ? WHERE id = ? AND finalised_at IS NULL"
)

func markCleaned(ctx context.Context, q mysqltx.Querier, run coupon.RunID, couponID coupon.CouponID, at time.Time) error {
	return mysqltx.Wrap(mysqltx.Exec(ctx, q, 1, markCleanedSQL, at, run, couponID), "mark coupon %d of run %d clean", couponID, run)
}

func markFinalised(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, at time.Time) error {
	return mysqltx.Wrap(mysqltx.Exec(ctx, tx, 1, markFinalisedSQL, at, couponID), "finalise coupon %d", couponID)
}

func (r run) origin() audit.Origin {
	return audit.Origin{At: r.settledAt(), Actor: r.Operator, Run: r.id, Reason: r.Reason}
}

// audit appends events of the run to the coupon's audit chain. The transaction must hold the coupon's lock.
func (r run) audit(ctx context.Context, tx *sql.Tx, action audit.Action, couponID coupon.CouponID, entries ...audit.Entry) error {
	return audit.Append(ctx, tx, r.origin(), action, couponID, entries...)
}

// auditOnce appends the events unless the run has already recorded this action for the coupon.
func (r run) auditOnce(ctx context.Context, tx *sql.Tx, action audit.Action, couponID coupon.CouponID, entries ...audit.Entry) error {
	if done, err := audit.Recorded(ctx, tx, r.origin(), action, couponID); err != nil || done {
		return err
	}
	return r.audit(ctx, tx, action, couponID, entries...)
}

func applicationEntries(applications []coupon.Application) []audit.Entry {
	entries := make([]audit.Entry, len(applications))
	for i, a := range applications {
		entries[i] = audit.ApplicationEntry(a.Member, a.Arrival)
	}
	return entries
}
