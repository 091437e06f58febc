package records

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// This file inserts rows of user_coupon fast. Rows are sent as packed numbers in one JSON text, in the order of the
// unique key. The foreign key is not checked. A page is packed while the page before is inserted. Each of these
// measures saves at least 5 % of a settlement's time on MySQL or on MariaDB; docs/performance.md has the figures.

// insertIssuedSQL inserts SeatRows. The foreign key need not be checked for each row, because the transaction has
// locked the coupon's row. MariaDB and MySQL switch the check off in different ways; each server takes the other's way
// for a comment. The check is off only in this statement and in its triggers.
const insertIssuedSQL = insertSeatsSQL + `
SELECT ?, j.user_id, ? + (j.packed & 32767), TIMESTAMP ? + INTERVAL (j.packed >> 15) MICROSECOND, TIMESTAMP ?, TIMESTAMP ?, ?
FROM JSON_TABLE(?, '$[*]' COLUMNS (
	user_id BIGINT UNSIGNED PATH '$[0]', packed BIGINT UNSIGNED PATH '$[1]'
)) AS j`

// insertOfManySQL is insertIssuedSQL for several coupons.
const insertOfManySQL = insertSeatsSQL + `
SELECT j.coupon_id, j.user_id, j.packed & 32767, TIMESTAMP ? + INTERVAL (j.packed >> 15) MICROSECOND, TIMESTAMP ?, TIMESTAMP ?, ?
FROM JSON_TABLE(?, '$[*]' COLUMNS (
	user_id BIGINT UNSIGNED PATH '$[0]', packed BIGINT UNSIGNED PATH '$[1]', coupon_id BIGINT UNSIGNED PATH '$[2]'
)) AS j`

const insertSeatsSQL = `
/*M! SET STATEMENT foreign_key_checks = 0 FOR */
INSERT /*+ SET_VAR(foreign_key_checks = OFF) */ INTO user_coupon (coupon_id, user_id, position, applied_at, issued_at, expires_at, run_id)`

// In a packed number, the low placeBits bits are the place in the page. The others are µs since its first arrival.
const (
	placeBits = 15
	maxLater  = 1<<(63-placeBits) - 1 // nine years, in µs
)

// MaxSeatRows is the greatest number of applications that can be packed.
const MaxSeatRows = 1<<placeBits - 1

// Packable reports whether the arrival can be packed with those before it. A score written by hand may be too far off.
func Packable(before []coupon.Application, a coupon.Application) bool {
	return len(before) == 0 || a.Arrival-before[0].Arrival <= maxLater
}

// SeatRows are applications in the form that InsertIssued stores.
type SeatRows struct {
	applications []coupon.Application
	first        coupon.Arrival
	json         string // [[user id, packed number], …], sorted by user id
}

// PackSeats packs place (from 1) and arrival into one number, because the server reads one number faster than two.
func PackSeats(applications []coupon.Application) *SeatRows {
	if len(applications) == 0 {
		return &SeatRows{}
	}
	const perApplication = 32 // bytes: two numbers, brackets, commas
	first := applications[0].Arrival
	json := make([]byte, 0, 2+perApplication*len(applications))
	json = append(json, '[')
	for i, place := range mysqltx.ByUser(applications) {
		if i > 0 {
			json = append(json, ',')
		}
		json = append(appendSeat(json, applications[place], first, place+1), ']')
	}
	return &SeatRows{applications, first, string(append(json, ']'))}
}

// appendSeat appends one row without its closing bracket.
func appendSeat(json []byte, a coupon.Application, first coupon.Arrival, place int) []byte {
	json = append(json, '[')
	json = strconv.AppendUint(json, uint64(a.User()), 10)
	json = append(json, ',')
	return strconv.AppendInt(json, int64(a.Arrival-first)<<placeBits+int64(place), 10)
}

// InsertIssued inserts one user_coupon row for each application, and returns the lowest id of them. The first position is
// seated + 1. The coupons expire at a midnight in zone.
func InsertIssued(ctx context.Context, tx *sql.Tx, run Run, c coupon.Coupon, zone *time.Location, seated int, rows *SeatRows) (coupon.UserCouponID, error) {
	s := seats{c.ID, timestamp(calendar.ExpiresAt(run.At, c.ValidityDays, zone)), seated, rows}
	first, err := mysqltx.Together(ctx, tx, "issue until "+s.expiresAt, s, func(ctx context.Context, q mysqltx.Querier, all []seats) ([]coupon.UserCouponID, error) {
		if len(all) > 1 {
			return insertOfMany(ctx, q, run, all)
		}
		return mysqltx.OneByOne(func(ctx context.Context, q mysqltx.Querier, s seats) (coupon.UserCouponID, error) {
			return inserted(len(s.rows.applications))(q.ExecContext(ctx, insertIssuedSQL, s.coupon, s.seated, timestamp(s.rows.first.Time()), timestamp(run.At), s.expiresAt,
				run.ID, s.rows.json))
		})(ctx, q, all)
	})
	return first, mysqltx.Wrap(err, "issue coupon %d to %d users", c.ID, len(rows.applications))
}

// seats are the rows of one coupon.
type seats struct {
	coupon    coupon.CouponID
	expiresAt string
	seated    int
	rows      *SeatRows
}

// insertOfMany inserts the rows of several coupons, with the number of the seat as place. They are in the order of the unique
// key. All coupons get the same id: it is not above any of theirs.
func insertOfMany(ctx context.Context, q mysqltx.Querier, run Run, all []seats) ([]coupon.UserCouponID, error) {
	first := all[0].rows.first
	for _, s := range all {
		first = min(first, s.rows.first)
	}
	json, n := []byte{'['}, 0
	for _, s := range all {
		for _, place := range mysqltx.ByUser(s.rows.applications) {
			a, seat := s.rows.applications[place], s.seated+place+1
			if a.Arrival-first > maxLater || seat > MaxSeatRows {
				return nil, fmt.Errorf("seat %d of coupon %d cannot be packed", seat, s.coupon)
			}
			json = append(appendSeat(json, a, first, seat), ',')
			json = append(strconv.AppendUint(json, uint64(s.coupon), 10), "],"...)
			n++
		}
	}
	json[len(json)-1] = ']'
	id, err := inserted(n)(q.ExecContext(ctx, insertOfManySQL, timestamp(first.Time()), timestamp(run.At), all[0].expiresAt, run.ID, string(json)))
	ids := make([]coupon.UserCouponID, len(all))
	for i := range ids {
		ids[i] = id
	}
	return ids, err
}

// inserted returns the lowest id of n inserted rows.
func inserted(n int) func(sql.Result, error) (coupon.UserCouponID, error) {
	return func(done sql.Result, err error) (coupon.UserCouponID, error) {
		stored, err := mysqltx.Affected(done, err)
		if err != nil {
			return 0, err
		}
		if stored != n {
			return 0, fmt.Errorf("%d rows stored, want %d", stored, n)
		}
		first, err := done.LastInsertId() // of a statement that inserts several rows, the servers report the first id
		return coupon.UserCouponID(first), mysqltx.Wrap(err, "read the first id")
	}
}

// timestamp formats a time for TIMESTAMP. The driver writes midnight in UTC as a date alone, which TIMESTAMP refuses.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000000") }
