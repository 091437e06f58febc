// Package records reads and writes the rows of settlements in MySQL: one function a statement, beside its SQL text.
//
// Package settle decides which rows are written, in which order, and in which transaction. A function that takes a
// *sql.Tx relies on the lock of the coupon's row, which Lock and LockNow take. The others take a mysqltx.Querier.
//
// Every write but an upsert checks how many rows it changed. Errors name the operation and the coupon, and keep their
// cause, which package mysqltx classifies. No function repeats its statement: that is left to mysqltx.DB.
package records

import (
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Run has the columns of a run that its rows share.
type Run struct {
	ID coupon.RunID
	At time.Time // UTC; the time of every row of the run
}
