package settle

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// This file inserts rows of user_coupon fast: as packed numbers in one JSON text, in the order of the unique key, without a
// check of the foreign key. A page is packed while the page before is inserted. Each of these saves 5 % or more of a settlement
// on one of the servers; docs/performance.md has the figures.

// insertIssuedSQL inserts seatRows. The foreign key is not checked for each row, because the transaction has locked the
// coupon's row. MariaDB and MySQL switch the check off in different ways, each in a comment for the other. It is off in this
// statement and in its triggers alone.
const insertIssuedSQL = `
/*M! SET STATEMENT foreign_key_checks = 0 FOR */
INSERT /*+ SET_VAR(foreign_key_checks = OFF) */ INTO user_coupon (coupon_id, user_id, position, applied_at, issued_at, expires_at, run_id)
SELECT ?, j.user_id, ? + (j.packed & 32767), TIMESTAMP ? + INTERVAL (j.packed >> 15) MICROSECOND, TIMESTAMP ?, TIMESTAMP ?, ?
FROM JSON_TABLE(?, '$[*]' COLUMNS (
	user_id BIGINT UNSIGNED PATH '$[0]', packed BIGINT UNSIGNED PATH '$[1]'
)) AS j`

// placeBits hold a place in a page. The bits above hold how many µs an application arrived after the first of the page.
const (
	placeBits = 15
	maxLater  = 1<<(63-placeBits) - 1 // nine years
)

// packable reports whether an application fits into one seatRows with those before it. A score written by hand can be any
// number.
func packable(before []coupon.Application, a coupon.Application) bool {
	return len(before) == 0 || a.Arrival-before[0].Arrival <= maxLater
}

// seatRows are applications as insertIssuedSQL reads them.
type seatRows struct {
	n     int
	first coupon.Arrival
	json  string // [[user, packed], …] by user id
}

// packSeats packs place, from 1, and arrival into one number, because the server reads fewer numbers faster.
func packSeats(applications []coupon.Application) *seatRows {
	if len(applications) == 0 {
		return &seatRows{}
	}
	const perApplication = 32 // two numbers, brackets, commas
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
	return &seatRows{len(applications), first, string(append(json, ']'))}
}

// rowsOf returns the rows of a part of the chosen. The rows of all are packed already.
func (s selection) rowsOf(part []coupon.Application) *seatRows {
	if len(part) == len(s.chosen) {
		return s.rows
	}
	return packSeats(part)
}

// insertIssued inserts one user_coupon row for each application, numbering positions from seated + 1.
func insertIssued(ctx context.Context, tx *sql.Tx, run run, c coupon.Coupon, seated int, rows *seatRows) error {
	at := run.settledAt()
	expiresAt := at.AddDate(0, 0, c.ValidityDays)
	stored, err := mysqltx.Affected(tx.ExecContext(ctx, insertIssuedSQL, c.ID, seated, rows.first.Time(), at, expiresAt, run.id, rows.json))
	if err != nil {
		return fmt.Errorf("issue coupon %d to %d users: %w", c.ID, rows.n, err)
	}
	if stored != rows.n {
		return fmt.Errorf("issue coupon %d: %d rows stored, want %d", c.ID, stored, rows.n)
	}
	return nil
}
