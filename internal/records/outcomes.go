package records

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strconv"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// maxNote is the width of application_outcome.note in characters. A longer note is shortened.
const maxNote = 500

// Ending is what application_outcome says about applications, besides who and when.
type Ending struct {
	Outcome coupon.Outcome
	Cause   coupon.Cause // why a run rejected them; empty: an operator did, or they were not rejected
	Note    string       // words of the operator who rejected them; with Cause, the note of the failure
	Member  *string      // see coupon.StoredMember; nil: the user id says who it is
}

// RejectedFor is the ending of an application that a run rejects.
func RejectedFor(f coupon.Failure) Ending {
	return Ending{Outcome: coupon.OutcomeRejected, Cause: f.Cause, Note: f.Note}
}

// columns are the values of outcome, cause and note.
func (e Ending) columns() []any {
	return []any{e.Outcome, sql.NullString{String: string(e.Cause), Valid: e.Cause != ""},
		mysqltx.Shorten(e.Note, maxNote)}
}

// insertOutcomesSQL inserts OutcomeRows. The constant times are literals, which the server parses once.
const insertOutcomesSQL = `
INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, cause, note, member, run_id, recorded_at)
SELECT ?, j.user_id, TIMESTAMP ? + INTERVAL j.later MICROSECOND, ?, ?, ?, ?, ?, TIMESTAMP ?
FROM JSON_TABLE(?, '$[*]' COLUMNS (
	user_id BIGINT UNSIGNED PATH '$[0]', later BIGINT UNSIGNED PATH '$[1]'
)) AS j`

// OutcomeRows are applications in the form that InsertOutcomes stores.
type OutcomeRows struct {
	n     int
	first coupon.Arrival // the earliest
	json  string         // [[user id, µs since first], …], sorted by user id
}

// PackOutcomes counts arrivals from the earliest one, because the server reads short numbers faster.
func PackOutcomes(applications []coupon.Application) *OutcomeRows {
	if len(applications) == 0 {
		return &OutcomeRows{}
	}
	const perApplication = 24 // bytes: two numbers, brackets, commas
	first := slices.MinFunc(applications, func(a,
		b coupon.Application) int {
		return cmp.Compare(a.Arrival, b.Arrival)
	}).Arrival
	json := make([]byte, 0, 2+perApplication*len(applications))
	for _, place := range mysqltx.ByUser(applications) {
		json = append(json, ",["...)
		json = strconv.AppendUint(json, uint64(applications[place].User()), 10)
		json = append(json, ',')
		json = strconv.AppendInt(json, int64(applications[place].Arrival-first), 10)
		json = append(json, ']')
	}
	json[0] = '['
	return &OutcomeRows{len(applications), first, string(append(json, ']'))}
}

// InsertOutcomes inserts one row for each application.
func InsertOutcomes(ctx context.Context, tx *sql.Tx, run Run, couponID coupon.CouponID, as Ending,
	rows *OutcomeRows) error {
	args := slices.Concat([]any{couponID, timestamp(rows.first.Time())}, as.columns(),
		[]any{as.Member, run.ID, timestamp(run.At), rows.json})
	err := mysqltx.Exec(ctx, tx, rows.n, insertOutcomesSQL, args...)
	return mysqltx.Wrap(err, "record %s for coupon %d", as.Outcome, couponID)
}

const deleteNotSelectedSQL = `
DELETE o FROM application_outcome o JOIN ` + mysqltx.ApplicationsTable + `
ON o.coupon_id = ? AND o.user_id = j.user_id AND o.applied_at = ` + mysqltx.AppliedAt + `
    AND o.outcome = 'NOT_SELECTED'`

// DeleteNotSelected deletes the records of applications that have got a seat or move to the DLQ.
func DeleteNotSelected(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID,
	applications []coupon.Application) error {
	if len(applications) == 0 {
		return nil
	}
	err := mysqltx.Exec(ctx, tx, len(applications), deleteNotSelectedSQL, mysqltx.ApplicationsJSON(applications),
		couponID)
	return mysqltx.Wrap(err, "take back NOT_SELECTED of coupon %d", couponID)
}

const updateNotSelectedSQL = `
UPDATE application_outcome SET outcome = ?, cause = ?, note = ?, run_id = ?, recorded_at = ?
WHERE coupon_id = ? AND user_id = ? AND applied_at = ? AND outcome = 'NOT_SELECTED'`

// UpdateNotSelected gives the record of an application that cannot get a seat any more its final outcome.
func UpdateNotSelected(ctx context.Context, tx *sql.Tx, run Run, couponID coupon.CouponID, a coupon.Application,
	as Ending) error {
	args := append(as.columns(), run.ID, run.At, couponID, a.User(), a.Arrival.Time())
	err := mysqltx.Exec(ctx, tx, 1, updateNotSelectedSQL, args...)
	return mysqltx.Wrap(err, "record %s for coupon %d, user %d", as.Outcome, couponID, a.User())
}

const anyNotSelectedSQL = "SELECT EXISTS (SELECT 1 FROM application_outcome WHERE coupon_id = ? AND outcome = " +
	"'NOT_SELECTED')"

func AnyNotSelected(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (found bool, err error) {
	err = tx.QueryRowContext(ctx, anyNotSelectedSQL, couponID).Scan(&found)
	return found, mysqltx.Wrap(err, "look for not selected of coupon %d", couponID)
}

const recordersSQL = `
SELECT DISTINCT r.id, r.cutoff FROM application_outcome o JOIN settlement_run r ON r.id = o.run_id
WHERE o.coupon_id = ? AND o.user_id IN `

// Recorders returns the runs that have recorded outcomes of applications, and their cutoffs.
func Recorders(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID,
	of []coupon.Application) (map[coupon.RunID]time.Time, error) {
	if len(of) == 0 {
		return nil, nil
	}
	args := []any{couponID}
	for _, a := range of {
		args = append(args, a.User())
	}
	cutoffs := map[coupon.RunID]time.Time{}
	err := mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
		var run coupon.RunID
		var cutoff time.Time
		err := rows.Scan(&run, &cutoff)
		cutoffs[run] = cutoff
		return err
	}, recordersSQL+mysqltx.In(len(of)), args...)
	return cutoffs, mysqltx.Wrap(err, "look for the runs that recorded applications of coupon %d", couponID)
}

// Row is a row of user_coupon or application_outcome. The zero Row is before all others.
type Row struct {
	user coupon.UserID
	at   time.Time
}

func (r *Row) fields() []any { return []any{&r.user, &r.at} }

// Application returns the application of the row.
func (r Row) Application() coupon.Application {
	return coupon.Application{Member: r.user.Member(), Arrival: coupon.ArrivalAt(r.at), Source: coupon.SourceQueue}
}

const selectIssuedSQL = `
SELECT user_id, applied_at FROM user_coupon
WHERE coupon_id = ? AND user_id > ? AND run_id = ? AND applied_at IS NOT NULL ORDER BY user_id LIMIT ?`

// Issued reads the next rows of user_coupon that a run inserted, by user.
func Issued(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID, run coupon.RunID, after Row,
	limit int) ([]Row, error) {
	rows, err := mysqltx.Collect(ctx, q, (*Row).fields, selectIssuedSQL, couponID, after.user, run, limit)
	return rows, mysqltx.Wrap(err, "read issued applications of coupon %d", couponID)
}

const selectRejectedSQL = `
SELECT user_id, applied_at FROM application_outcome
WHERE coupon_id = ? AND outcome = 'REJECTED' AND run_id = ? AND user_id > 0
  AND (applied_at > ? OR (applied_at = ? AND user_id > ?))
ORDER BY applied_at, user_id LIMIT ?`

// Rejected reads the next outcomes REJECTED that a run recorded, by arrival. Malformed members are left out.
func Rejected(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID, run coupon.RunID, after Row,
	limit int) ([]Row, error) {
	from := max(0, coupon.ArrivalAt(after.at)).Time() // MySQL refuses to compare with the zero time
	rows, err := mysqltx.Collect(ctx, q, (*Row).fields, selectRejectedSQL, couponID, run, from, from, after.user, limit)
	return rows, mysqltx.Wrap(err, "read rejected applications of coupon %d", couponID)
}
