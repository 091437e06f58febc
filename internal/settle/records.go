package settle

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// couponColumns has table promise in subqueries: a locking read of a join would lock its row too, which the catalog writes.
const couponColumns = coupon.Columns + `,
       COALESCE((SELECT p.accepted FROM promise p WHERE p.coupon_id = c.id), 0),
       COALESCE((SELECT p.last_arrival FROM promise p WHERE p.coupon_id = c.id), 0),
       COALESCE((SELECT p.twice FROM promise p WHERE p.coupon_id = c.id), 0),
       COALESCE((SELECT p.counted_since FROM promise p WHERE p.coupon_id = c.id), 0)`

func scanCoupon(scan func(...any) error) (c coupon.Coupon, err error) {
	return c, scan(append(c.Fields(), c.Promise.Fields()...)...)
}

const lockCouponSQL = "SELECT " + couponColumns + " FROM coupon c WHERE c.id = ? FOR UPDATE"

// lockCoupon is the first statement of every transaction here: the row lock is the only mutual exclusion there is.
func lockCoupon(ctx context.Context, tx *sql.Tx, id uint64) (coupon.Coupon, error) {
	c, err := scanCoupon(tx.QueryRowContext(ctx, lockCouponSQL, id).Scan)
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, sql.ErrNoRows):
		return coupon.Coupon{}, &coupon.Error{Class: coupon.Setup, Err: told(NoSuchCoupon, id)}
	default:
		return coupon.Coupon{}, fmt.Errorf("lock coupon %d: %w", id, err)
	}
}

const selectCouponSQL = "SELECT " + couponColumns + " FROM coupon c WHERE c.id = ?"

func selectCoupon(ctx context.Context, q mysqltx.Querier, id uint64) (coupon.Coupon, error) {
	c, err := scanCoupon(q.QueryRowContext(ctx, selectCouponSQL, id).Scan)
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, sql.ErrNoRows):
		return coupon.Coupon{}, &coupon.Error{Class: coupon.Setup, Err: told(NoSuchCoupon, id)}
	default:
		return coupon.Coupon{}, fmt.Errorf("read coupon %d: %w", id, err)
	}
}

const selectDueSQL = "SELECT " + couponColumns + ` FROM coupon c
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
		return &coupon.Error{Class: coupon.Invariant, Err: fmt.Errorf("count %d seats of coupon %d: %w: nothing was issued; run `settle verify`", seats, couponID, err)}
	}
	if err != nil {
		return fmt.Errorf("count %d seats of coupon %d: %w", seats, couponID, err)
	}
	if n != 1 {
		return &coupon.Error{Class: coupon.Invariant, Err: fmt.Errorf("coupon %d has no %d seats left to count: nothing was issued; run `settle verify`", couponID, seats)}
	}
	return nil
}

// insertIssuedSQL inserts seatRows in their order. The foreign key is not checked again for each row, since the
// transaction has the coupon's row locked: in this statement alone (and in what a trigger on the table may write with it),
// which MariaDB and MySQL say differently, each in what the other takes for a comment.
const insertIssuedSQL = `
/*M! SET STATEMENT foreign_key_checks = 0 FOR */
INSERT /*+ SET_VAR(foreign_key_checks = OFF) */ INTO user_coupon (coupon_id, user_id, position, applied_at, issued_at, expires_at, run_id)
SELECT ?, j.user_id, ? + (j.packed & 32767), TIMESTAMP ? + INTERVAL (j.packed >> 15) MICROSECOND, TIMESTAMP ?, TIMESTAMP ?, ?
FROM JSON_TABLE(?, '$[*]' COLUMNS (
	user_id BIGINT UNSIGNED PATH '$[0]', packed BIGINT UNSIGNED PATH '$[1]'
)) AS j`

// placeBits hold a place in a page; above them stands how many µs an application came after the page's first, at most
// nine years.
const (
	placeBits = 15
	mostLater = 1<<(63-placeBits) - 1
)

// seatRows is [[user, packed], …]: by user id, as the unique key has it, each with its place in the page from 1 and its
// arrival, in one number, since what the server spends on reading JSON goes by how many there are.
func seatRows(applications []coupon.Application) string {
	const perApplication = 32 // two numbers, brackets, commas
	rows := make([]byte, 0, 2+perApplication*len(applications))
	rows = append(rows, '[')
	for i, place := range byUser(applications) {
		if i > 0 {
			rows = append(rows, ',')
		}
		rows = append(rows, '[')
		rows = strconv.AppendUint(rows, applications[place].User(), 10)
		rows = append(rows, ',')
		rows = strconv.AppendInt(rows, (applications[place].Arrival-applications[0].Arrival)<<placeBits+int64(place+1), 10)
		rows = append(rows, ']')
	}
	return string(append(rows, ']'))
}

// insertIssued gives the seats behind those that are seated to applications, whose seatRows rows are.
func insertIssued(ctx context.Context, tx *sql.Tx, run run, c coupon.Coupon, seated int, issued []coupon.Application, rows string) error {
	expiresAt := run.startedAt.AddDate(0, 0, c.ValidityDays)
	stored, err := mysqltx.Affected(tx.ExecContext(ctx, insertIssuedSQL, c.ID, seated, fromArrival(issued[0].Arrival), run.startedAt, expiresAt, run.id, rows))
	if err != nil {
		return fmt.Errorf("issue coupon %d to %d users: %w", c.ID, len(issued), err)
	}
	if stored != len(issued) {
		return fmt.Errorf("issue coupon %d: %d rows stored, want %d", c.ID, stored, len(issued))
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
	return scanApplications(rows, "issued", couponID)
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
	return scanApplications(rows, "rejected", couponID)
}

func scanApplications(rows *sql.Rows, what string, couponID coupon.CouponID) ([]coupon.Application, error) {
	defer rows.Close()
	var page []coupon.Application
	for rows.Next() {
		var user coupon.UserID
		var appliedAt time.Time
		if err := rows.Scan(&user, &appliedAt); err != nil {
			return nil, fmt.Errorf("read %s of coupon %d: %w", what, couponID, err)
		}
		page = append(page, coupon.Application{Member: coupon.Member(user), Arrival: coupon.ArrivalAt(appliedAt), Source: coupon.SourceQueue})
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read %s of coupon %d: %w", what, couponID, err)
	}
	return page, nil
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

// writeOff accepts a gap in the name of the run's operator, who is kept in audit_event.
func writeOff(ctx context.Context, tx *sql.Tx, run run, couponID coupon.CouponID, a ledger.Account) error {
	if err := mysqltx.One(tx.ExecContext(ctx, writeOffSQL, a.Gap(), couponID)); err != nil {
		return fmt.Errorf("write off gap of coupon %d: %w", couponID, err)
	}
	return run.audit(ctx, tx, audit.GapAccepted, couponID, audit.Entry{Detail: fmt.Sprintf("%d applications written off: %s", a.Gap(), a)})
}

const insertRecordSQL = `
INSERT INTO settlement (run_id, coupon_id, read_count, issued_count, rejected_count, already_issued_count,
                        first_arrival, last_arrival, winners_digest, settled_at)
VALUES (?, ?, ?, ?, ?, ?, NULLIF(?, 0), NULLIF(?, 0), NULLIF(?, ''), ?)`

func insertRecord(ctx context.Context, tx *sql.Tx, run run, couponID coupon.CouponID, r *Result) error {
	_, err := mysqltx.Affected(tx.ExecContext(ctx, insertRecordSQL, run.id, couponID, r.Read, r.Issued, r.Rejected, r.AlreadyIssued,
		r.FirstArrival, r.LastArrival, r.WinnersDigest, run.startedAt))
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
func completeRecord(ctx context.Context, q mysqltx.Querier, run run, couponID coupon.CouponID, read, rejected int, at time.Time) error {
	_, err := mysqltx.Affected(q.ExecContext(ctx, completeRecordSQL, run.id, couponID, read, rejected, run.startedAt, at, read, rejected, at))
	if err != nil {
		return fmt.Errorf("complete record of coupon %d: %w", couponID, err)
	}
	return nil
}

const selectRecordSQL = `
SELECT read_count, issued_count, rejected_count, already_issued_count, not_selected_count,
       COALESCE(first_arrival, 0), COALESCE(last_arrival, 0), COALESCE(winners_digest, '')
FROM settlement WHERE run_id = ? AND coupon_id = ?`

// loadRecord takes over into r what this run has committed already; false when that is nothing.
func loadRecord(ctx context.Context, q mysqltx.Querier, run run, couponID coupon.CouponID, r *Result) (found bool, err error) {
	err = q.QueryRowContext(ctx, selectRecordSQL, run.id, couponID).Scan(&r.Read, &r.Issued, &r.Rejected, &r.AlreadyIssued,
		&r.NotSelected, &r.FirstArrival, &r.LastArrival, &r.WinnersDigest)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read record of coupon %d: %w", couponID, err)
	}
	return true, nil
}

// uncleaned is a run whose settlement of a coupon Redis may not have heard of.
type uncleaned struct {
	run     coupon.RunID
	covered bool // its cutoff is not later than this run's, which therefore walks all that it may have left
}

const selectUncleanedSQL = `
SELECT s.run_id, r.cutoff <= ? FROM settlement s JOIN settlement_run r ON r.id = s.run_id
WHERE s.coupon_id = ? AND s.cleaned_at IS NULL ORDER BY s.run_id`

func selectUncleaned(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, cutoff time.Time) ([]uncleaned, error) {
	rows, err := tx.QueryContext(ctx, selectUncleanedSQL, cutoff, couponID)
	if err != nil {
		return nil, fmt.Errorf("read uncleaned settlements of coupon %d: %w", couponID, err)
	}
	defer rows.Close()
	var all []uncleaned
	for rows.Next() {
		var u uncleaned
		if err := rows.Scan(&u.run, &u.covered); err != nil {
			return nil, fmt.Errorf("read uncleaned settlements of coupon %d: %w", couponID, err)
		}
		all = append(all, u)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read uncleaned settlements of coupon %d: %w", couponID, err)
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
