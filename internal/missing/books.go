package missing

import (
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Books are what MySQL has of a coupon's promises.
type Books struct {
	Accepted, Twice   int64 // of the promise
	WrittenOff        int64 // likewise
	Erased            int64 // likewise
	Issued, Concluded int64 // of table settled
	SettledUpTo       coupon.Arrival
}

// settled returns how many promises MySQL accounts for.
func (b Books) settled() int64 { return b.WrittenOff + b.Erased + b.Issued + b.Concluded }

// Missing returns how many promises are missing; negative: more applications are found than were promised. before must
// have been read before the line, and after must have been read after it.
func Missing(before Books, line candidates.Line, after Books) int64 {
	accepted, twice := max(before.Accepted, line.Accepted), max(before.Twice, line.Twice)
	return accepted - twice - line.Waiting - line.DLQ - after.settled()
}

// IsUncompared reports whether the coupon's Redis server has not been compared with the journal, though earlier servers
// counted applications that it may lack.
func IsUncompared(line candidates.Line) bool { return line.Base > 0 && line.Restored != line.Since }

// IsDue reports whether a restore may find some of the missing promises: not as many are missing as when the last one
// ended.
func IsDue(line candidates.Line, missing int64) bool {
	return missing > 0 && (line.Restored != line.Since || missing != line.Missing)
}

const (
	// readTimeout bounds one statement.
	readTimeout = 2 * time.Second
	// MaxRead is how many coupons one statement reads.
	MaxRead = 500
)

const booksSQL = `
SELECT p.coupon_id, p.accepted, p.twice, p.written_off, p.erased, COALESCE(s.issued, 0), COALESCE(s.concluded, 0),
    COALESCE(s.settled_up_to, 0)
FROM promise p LEFT JOIN settled s ON s.coupon_id = p.coupon_id WHERE p.coupon_id IN `

// ReadBooks reads the books of up to MaxRead coupons. Coupons without a promise have no books.
func ReadBooks(ctx context.Context, db *sql.DB, coupons ...coupon.CouponID) (map[coupon.CouponID]Books, error) {
	type row struct {
		id coupon.CouponID
		Books
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	args := make([]any, len(coupons))
	for i, id := range coupons {
		args[i] = id
	}
	rows, err := mysqltx.Collect(ctx, db, func(r *row) []any {
		return []any{&r.id, &r.Accepted, &r.Twice, &r.WrittenOff, &r.Erased, &r.Issued, &r.Concluded, &r.SettledUpTo}
	}, booksSQL+mysqltx.In(len(coupons)), args...)
	books := make(map[coupon.CouponID]Books, len(rows))
	for _, r := range rows {
		books[r.id] = r.Books
	}
	return books, mysqltx.Wrap(err, "read promises and sums of %d coupons", len(coupons))
}
