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
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

func scanCoupon(scan func(...any) error) (c coupon.Coupon, err error) {
	return c, scan(c.FieldsWithPromise()...)
}

// lockCoupon is the first statement of every transaction here: the row lock is the only mutual exclusion there is.
func lockCoupon(ctx context.Context, tx *sql.Tx, id uint64) (coupon.Coupon, error) {
	c, err := scanCoupon(tx.QueryRowContext(ctx, coupon.LockSQL, id).Scan)
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, sql.ErrNoRows):
		return coupon.Coupon{}, &coupon.Error{Class: coupon.Setup, Err: text.Errorf(text.NoSuchCoupon, id)}
	default:
		return coupon.Coupon{}, fmt.Errorf("lock coupon %d: %w", id, err)
	}
}

const selectCouponSQL = "SELECT " + coupon.ColumnsWithPromise + " FROM coupon c WHERE c.id = ?"

func selectCoupon(ctx context.Context, q mysqltx.Querier, id uint64) (coupon.Coupon, error) {
	c, err := scanCoupon(q.QueryRowContext(ctx, selectCouponSQL, id).Scan)
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, sql.ErrNoRows):
		return coupon.Coupon{}, &coupon.Error{Class: coupon.Setup, Err: text.Errorf(text.NoSuchCoupon, id)}
	default:
		return coupon.Coupon{}, fmt.Errorf("read coupon %d: %w", id, err)
	}
}

const selectDueSQL = "SELECT " + coupon.ColumnsWithPromise + ` FROM coupon c
WHERE c.finalised_at IS NULL AND c.apply_opens_at < ? ORDER BY c.id`

// selectDue reads the coupons to settle: opened before the cutoff and not finalised.
func selectDue(ctx context.Context, q mysqltx.Querier, cutoff time.Time) ([]coupon.Coupon, error) {
	rows, err := q.QueryContext(ctx, selectDueSQL, cutoff)
	if err != nil {
		return nil, fmt.Errorf("read due coupons: %w", err)
	}
	defer rows.Close()
	var due []coupon.Coupon
	for rows.Next() {
		c, err := scanCoupon(rows.Scan)
		if err != nil {
			return nil, fmt.Errorf("read due coupons: %w", err)
		}
		due = append(due, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read due coupons: %w", err)
	}
	return due, nil
}

const takeSeatsSQL = "UPDATE coupon SET issued_count = issued_count + ? WHERE id = ? AND issued_count + ? <= total_quantity"

func takeSeats(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, seats int) error {
	n, err := mysqltx.Affected(tx.ExecContext(ctx, takeSeatsSQL, seats, couponID, seats))
	if mysqltx.IsCheck(err) {
		return invariant(fmt.Errorf("count %d seats of coupon %d: %w: nothing was issued; run `settle verify`", seats, couponID, err))
	}
	if err != nil {
		return fmt.Errorf("count %d seats of coupon %d: %w", seats, couponID, err)
	}
	if n != 1 {
		return invariant(fmt.Errorf("coupon %d has no %d seats left to count: nothing was issued; run `settle verify`", couponID, seats))
	}
	return nil
}

const selectIssuedSQL = `
SELECT user_id, applied_at FROM user_coupon
WHERE coupon_id = ? AND user_id > ? AND run_id = ? AND applied_at IS NOT NULL ORDER BY user_id LIMIT ?`

// selectIssued pages through what a run issued, by user id.
func selectIssued(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID, run coupon.RunID, after coupon.Application, limit int) ([]coupon.Application, error) {
	rows, err := q.QueryContext(ctx, selectIssuedSQL, couponID, after.User(), run, limit)
	if err != nil {
		return nil, fmt.Errorf("read issued of coupon %d: %w", couponID, err)
	}
	return scanApplications(rows, coupon.SourceQueue, "issued", couponID)
}

const selectRejectedSQL = `
SELECT user_id, applied_at FROM application_outcome
WHERE coupon_id = ? AND outcome = 'REJECTED' AND run_id = ? AND user_id > 0
  AND (applied_at > ? OR (applied_at = ? AND user_id > ?))
ORDER BY applied_at, user_id LIMIT ?`

// selectRejected pages through what a run rejected, by arrival.
func selectRejected(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID, run coupon.RunID, after coupon.Application, limit int) ([]coupon.Application, error) {
	from := fromArrival(after.Arrival)
	rows, err := q.QueryContext(ctx, selectRejectedSQL, couponID, run, from, from, after.User(), limit)
	if err != nil {
		return nil, fmt.Errorf("read rejected of coupon %d: %w", couponID, err)
	}
	return scanApplications(rows, coupon.SourceQueue, "rejected", couponID)
}

func scanApplications(rows *sql.Rows, source coupon.Source, what string, couponID coupon.CouponID) ([]coupon.Application, error) {
	defer rows.Close()
	var page []coupon.Application
	for rows.Next() {
		var user coupon.UserID
		var appliedAt time.Time
		if err := rows.Scan(&user, &appliedAt); err != nil {
			return nil, fmt.Errorf("read %s of coupon %d: %w", what, couponID, err)
		}
		page = append(page, coupon.Application{Member: coupon.Member(user), Arrival: coupon.ArrivalAt(appliedAt), Source: source})
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read %s of coupon %d: %w", what, couponID, err)
	}
	return page, nil
}

// cleanUpApplications are removed from Redis by one call, and read back from MySQL where they must be.
const cleanUpApplications = 5_000

type selectPage func(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID, run coupon.RunID, after coupon.Application, limit int) ([]coupon.Application, error)

// removePages takes out of Redis what a run has committed.
func (s *settlement) removePages(ctx context.Context, run coupon.RunID, mark coupon.Mark, next selectPage) error {
	var last coupon.Application
	for {
		var page []coupon.Application
		err := s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
			page, err = next(ctx, q, s.coupon.ID, run, last, cleanUpApplications)
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		if _, err := s.Line.Remove(ctx, s.coupon.ID, s.coupon.ClosesAt, mark, page); err != nil {
			return err
		}
		last = page[len(page)-1]
	}
}

const insertOutcomesSQL = `
INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, reason, run_id, recorded_at)
SELECT ?, j.user_id, ` + appliedAt + `, ?, ?, ?, ? FROM ` + applicationsTable

func insertOutcomes(ctx context.Context, tx *sql.Tx, run run, couponID coupon.CouponID, outcome coupon.Outcome, reason string, applications []coupon.Application) error {
	if len(applications) == 0 {
		return nil
	}
	sorted := slices.SortedFunc(slices.Values(applications), func(a, b coupon.Application) int { return cmp.Compare(a.User(), b.User()) })
	n, err := mysqltx.Affected(tx.ExecContext(ctx, insertOutcomesSQL, couponID, outcome, reason, run.id, run.startedAt, applicationsJSON(sorted)))
	if err != nil {
		return fmt.Errorf("record %s for coupon %d: %w", outcome, couponID, err)
	}
	if n != len(applications) {
		return fmt.Errorf("record %s for coupon %d: %d rows stored, want %d", outcome, couponID, n, len(applications))
	}
	return nil
}

const deleteNotSelectedSQL = `
DELETE o FROM application_outcome o JOIN ` + applicationsTable + `
ON o.coupon_id = ? AND o.user_id = j.user_id AND o.applied_at = ` + appliedAt + ` AND o.outcome = 'NOT_SELECTED'`

// deleteNotSelected takes back the records of those who have a seat now.
func deleteNotSelected(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, seated []coupon.Application) error {
	if len(seated) == 0 {
		return nil
	}
	n, err := mysqltx.Affected(tx.ExecContext(ctx, deleteNotSelectedSQL, applicationsJSON(seated), couponID))
	if err != nil {
		return fmt.Errorf("take back NOT_SELECTED of coupon %d: %w", couponID, err)
	}
	if n != len(seated) {
		return fmt.Errorf("take back NOT_SELECTED of coupon %d: %d rows, want %d", couponID, n, len(seated))
	}
	return nil
}

// maxReasonLetters is the width of application_outcome.reason.
const maxReasonLetters = 500

const updateNotSelectedSQL = `
UPDATE application_outcome SET outcome = ?, reason = ?, run_id = ?, recorded_at = ?
WHERE coupon_id = ? AND user_id = ? AND applied_at = ? AND outcome = 'NOT_SELECTED'`

func updateNotSelected(ctx context.Context, tx *sql.Tx, run run, couponID coupon.CouponID, a coupon.Application, outcome coupon.Outcome, reason string) error {
	err := mysqltx.One(tx.ExecContext(ctx, updateNotSelectedSQL, outcome, mysqltx.Shorten(reason, maxReasonLetters), run.id, run.startedAt, couponID, a.User(), fromArrival(a.Arrival)))
	if err != nil {
		return fmt.Errorf("record %s for coupon %d, user %d: %w", outcome, couponID, a.User(), err)
	}
	return nil
}

const anyNotSelectedSQL = "SELECT EXISTS (SELECT 1 FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED')"

func anyNotSelected(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (bool, error) {
	var any bool
	if err := tx.QueryRowContext(ctx, anyNotSelectedSQL, couponID).Scan(&any); err != nil {
		return false, fmt.Errorf("look for not selected of coupon %d: %w", couponID, err)
	}
	return any, nil
}

const keepPromiseSQL = `
INSERT INTO promise (coupon_id, accepted, last_arrival, twice, counted_since, seen_at) VALUES (?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE accepted = GREATEST(accepted, ?), last_arrival = GREATEST(last_arrival, ?), twice = GREATEST(twice, ?),
                        counted_since = GREATEST(counted_since, ?), seen_at = ?`

// keepPromise writes down the promises Redis knows of, so that it cannot forget them.
func keepPromise(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, a ledger.Account, at time.Time) error {
	_, err := mysqltx.Affected(tx.ExecContext(ctx, keepPromiseSQL, couponID, a.Accepted, a.LastArrival, a.AskedAgain, a.CountedSince, at,
		a.Accepted, a.LastArrival, a.AskedAgain, a.CountedSince, at))
	if err != nil {
		return fmt.Errorf("keep promise of coupon %d: %w", couponID, err)
	}
	return nil
}

const writeOffSQL = "UPDATE promise SET written_off = written_off + ? WHERE coupon_id = ?"

// writeOff accepts a gap in the name of the run's operator, who is kept in audit_event with what was approved.
func writeOff(ctx context.Context, tx *sql.Tx, run run, couponID coupon.CouponID, a ledger.Account, pin string) error {
	if err := mysqltx.One(tx.ExecContext(ctx, writeOffSQL, a.Gap(), couponID)); err != nil {
		return fmt.Errorf("write off gap of coupon %d: %w", couponID, err)
	}
	return run.audit(ctx, tx, audit.GapAccepted, couponID, audit.Entry{Detail: fmt.Sprintf("%d applications written off: %s; %s", a.Gap(), a, pin)})
}

const insertRecordSQL = `
INSERT INTO settlement (run_id, coupon_id, read_count, issued_count, rejected_count, already_issued_count,
                        first_arrival, last_arrival, winners_digest, settled_at)
VALUES (?, ?, ?, ?, ?, ?, NULLIF(?, 0), NULLIF(?, 0), ?, ?)`

// insertRecord records what a transaction has issued and decided. rejected_count is under review and rejected together.
func insertRecord(ctx context.Context, tx *sql.Tx, run run, couponID coupon.CouponID, seats seated) error {
	t, w := seats.tally, seats.winners
	var digest any
	if w.count > 0 {
		digest = w.digest
	}
	_, err := mysqltx.Affected(tx.ExecContext(ctx, insertRecordSQL, run.id, couponID, t.Read, t.Issued, t.UnderReview+t.Rejected, t.AlreadyIssued,
		w.first, w.last, digest, run.startedAt))
	if err != nil {
		return fmt.Errorf("record settlement of coupon %d: %w", couponID, err)
	}
	return nil
}

const addToRecordSQL = `
INSERT INTO settlement (run_id, coupon_id, already_issued_count, not_selected_count, settled_at) VALUES (?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE already_issued_count = already_issued_count + ?, not_selected_count = not_selected_count + ?,
                        cleaned_at = NULL`

// addToRecord counts a page's outcomes with the page, so that a crash cannot part them.
func addToRecord(ctx context.Context, tx *sql.Tx, run run, couponID coupon.CouponID, d decisions) error {
	already, not := len(d.alreadyIssued), len(d.notSelected)
	if already+not == 0 {
		return nil
	}
	if _, err := mysqltx.Affected(tx.ExecContext(ctx, addToRecordSQL, run.id, couponID, already, not, run.startedAt, already, not)); err != nil {
		return fmt.Errorf("record outcomes of coupon %d: %w", couponID, err)
	}
	return nil
}

const completeRecordSQL = `
INSERT INTO settlement (run_id, coupon_id, read_count, rejected_count, settled_at, cleaned_at) VALUES (?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE read_count = ?, rejected_count = ?, cleaned_at = COALESCE(cleaned_at, ?)`

// completeRecord writes what only the end of a settlement knows, and that Redis is clean.
func completeRecord(ctx context.Context, q mysqltx.Querier, run run, couponID coupon.CouponID, c Counts, at time.Time) error {
	rejected := c.UnderReview + c.Rejected
	_, err := mysqltx.Affected(q.ExecContext(ctx, completeRecordSQL, run.id, couponID, c.Read, rejected, run.startedAt, at, c.Read, rejected, at))
	if err != nil {
		return fmt.Errorf("complete record of coupon %d: %w", couponID, err)
	}
	return nil
}

const selectRecordSQL = `
SELECT s.read_count, s.issued_count, s.rejected_count, s.already_issued_count, s.not_selected_count,
       COALESCE(s.first_arrival, 0), COALESCE(s.last_arrival, 0), COALESCE(s.winners_digest, ''),
       (SELECT COUNT(*) FROM application_outcome o WHERE o.coupon_id = s.coupon_id AND o.outcome = 'REJECTED' AND o.run_id = s.run_id)
FROM settlement s WHERE s.run_id = ? AND s.coupon_id = ?`

// loadRecord reads what a run has committed already; false when that is nothing.
func loadRecord(ctx context.Context, q mysqltx.Querier, run coupon.RunID, couponID coupon.CouponID) (done seated, found bool, err error) {
	t, w := &done.tally, &done.winners
	err = q.QueryRowContext(ctx, selectRecordSQL, run, couponID).Scan(&t.Read, &t.Issued, &t.UnderReview, &t.AlreadyIssued, &t.NotSelected,
		&w.first, &w.last, &w.digest, &t.Rejected)
	if errors.Is(err, sql.ErrNoRows) {
		return seated{}, false, nil
	}
	if err != nil {
		return seated{}, false, fmt.Errorf("read record of coupon %d: %w", couponID, err)
	}
	t.Rejected = min(t.Rejected, t.UnderReview)
	t.UnderReview -= t.Rejected
	w.count = t.Issued
	return done, true, nil
}

// pendingCleanup is a run whose settlement of a coupon Redis may not know of.
type pendingCleanup struct {
	run     coupon.RunID
	covered bool // its cutoff is not later than this run's, which therefore walks all that it may have left
}

const selectPendingSQL = `
SELECT s.run_id, r.cutoff <= ? FROM settlement s JOIN settlement_run r ON r.id = s.run_id
WHERE s.coupon_id = ? AND s.cleaned_at IS NULL ORDER BY s.run_id`

func selectPendingCleanups(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, cutoff time.Time) ([]pendingCleanup, error) {
	rows, err := tx.QueryContext(ctx, selectPendingSQL, cutoff, couponID)
	if err != nil {
		return nil, fmt.Errorf("read settlements to clean up of coupon %d: %w", couponID, err)
	}
	defer rows.Close()
	var all []pendingCleanup
	for rows.Next() {
		var p pendingCleanup
		if err := rows.Scan(&p.run, &p.covered); err != nil {
			return nil, fmt.Errorf("read settlements to clean up of coupon %d: %w", couponID, err)
		}
		all = append(all, p)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read settlements to clean up of coupon %d: %w", couponID, err)
	}
	return all, nil
}

const selectLastIssuedSQL = "SELECT COALESCE(MAX(last_arrival), 0) FROM settlement WHERE coupon_id = ?"

// selectLastIssued is the highest arrival that ever got a seat.
func selectLastIssued(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (int64, error) {
	var last int64
	if err := tx.QueryRowContext(ctx, selectLastIssuedSQL, couponID).Scan(&last); err != nil {
		return 0, fmt.Errorf("read last arrival issued of coupon %d: %w", couponID, err)
	}
	return last, nil
}

const markCleanedSQL = "UPDATE settlement SET cleaned_at = COALESCE(cleaned_at, ?) WHERE run_id = ? AND coupon_id = ?"

func markCleaned(ctx context.Context, q mysqltx.Querier, run coupon.RunID, couponID coupon.CouponID, at time.Time) error {
	if err := mysqltx.One(q.ExecContext(ctx, markCleanedSQL, at, run, couponID)); err != nil {
		return fmt.Errorf("mark coupon %d of run %d clean: %w", couponID, run, err)
	}
	return nil
}

const markFinalisedSQL = "UPDATE coupon SET finalised_at = ? WHERE id = ? AND finalised_at IS NULL"

func markFinalised(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, at time.Time) error {
	if err := mysqltx.One(tx.ExecContext(ctx, markFinalisedSQL, at, couponID)); err != nil {
		return fmt.Errorf("finalise coupon %d: %w", couponID, err)
	}
	return nil
}
