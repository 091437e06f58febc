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
const insertIssuedSQL = `
/*M! SET STATEMENT foreign_key_checks = 0 FOR */
INSERT /*+ SET_VAR(foreign_key_checks = OFF) */ INTO user_coupon (coupon_id, user_id, position, applied_at, issued_at,
                         expires_at, run_id)
SELECT ?, j.user_id, ? + (j.packed & 32767), TIMESTAMP ? + INTERVAL (j.packed >> 15) MICROSECOND, TIMESTAMP ?,
       TIMESTAMP ?, ?
FROM JSON_TABLE(?, '$[*]' COLUMNS (
	user_id BIGINT UNSIGNED PATH '$[0]', packed BIGINT UNSIGNED PATH '$[1]'
)) AS j`

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
	n     int
	first coupon.Arrival
	json  string // [[user id, packed number], …], sorted by user id
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
		json = append(json, '[')
		json = strconv.AppendUint(json, uint64(applications[place].User()), 10)
		json = append(json, ',')
		json = strconv.AppendInt(json, int64(applications[place].Arrival-first)<<placeBits+int64(place+1), 10)
		json = append(json, ']')
	}
	return &SeatRows{len(applications), first, string(append(json, ']'))}
}

// InsertIssued inserts one user_coupon row for each application, and returns the lowest id of them. The first position
// is seated + 1. The coupons expire at a midnight in zone.
func InsertIssued(ctx context.Context, tx *sql.Tx, run Run, c coupon.Coupon, zone *time.Location, seated int,
	rows *SeatRows) (coupon.UserCouponID, error) {
	expiresAt := calendar.ExpiresAt(run.At, c.ValidityDays, zone)
	done, err := tx.ExecContext(ctx, insertIssuedSQL, c.ID, seated, timestamp(rows.first.Time()), timestamp(run.At),
		timestamp(expiresAt), run.ID, rows.json)
	stored, err := mysqltx.Affected(done, err)
	if err == nil && stored != rows.n {
		err = fmt.Errorf("%d rows stored, want %d", stored, rows.n)
	}
	if err != nil {
		return 0, mysqltx.Wrap(err, "issue coupon %d to %d users", c.ID, rows.n)
	}
	first, err := done.LastInsertId() // of a statement that inserts several rows, the servers report the first id
	return coupon.UserCouponID(first), mysqltx.Wrap(err, "read the first id")
}

// timestamp formats a time for TIMESTAMP. The driver writes midnight in UTC as a date alone, which TIMESTAMP refuses.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000000") }
