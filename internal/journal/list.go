package journal

import (
	"context"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/missing"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Open is a coupon whose line is journalled: it opens within a minute or has opened, and is not finalised.
type Open struct {
	ID    coupon.CouponID
	Begun bool           // it has a row of table journal
	UpTo  coupon.Arrival // journal.up_to
	Books missing.Books
}

// MaxOpen bounds the coupons of a list, as the catalog is bounded.
const MaxOpen = 10_000

const openSQL = `
SELECT c.id, j.coupon_id IS NOT NULL, COALESCE(j.up_to, 0), COALESCE(p.accepted, 0), COALESCE(p.twice, 0),
    COALESCE(p.written_off, 0), COALESCE(p.erased, 0),
       COALESCE(s.issued, 0), COALESCE(s.concluded, 0)
FROM coupon c LEFT JOIN journal j ON j.coupon_id = c.id LEFT JOIN promise p ON p.coupon_id = c.id LEFT JOIN settled s
    ON s.coupon_id = c.id
WHERE c.finalised_at IS NULL AND (c.apply_opens_at <= UTC_TIMESTAMP(6) + INTERVAL 1 MINUTE OR j.coupon_id IS NOT NULL)
ORDER BY c.apply_closes_at DESC, c.id LIMIT ?`

// ListOpen lists the coupons whose lines are journalled.
func ListOpen(ctx context.Context, db *mysqltx.DB) (all []Open, err error) {
	err = db.Once(ctx, func(ctx context.Context, q mysqltx.Querier) error {
		all, err = mysqltx.Collect(ctx, q, func(o *Open) []any {
			return []any{&o.ID, &o.Begun, &o.UpTo, &o.Books.Accepted, &o.Books.Twice, &o.Books.WrittenOff,
				&o.Books.Erased, &o.Books.Issued, &o.Books.Concluded}
		}, openSQL, MaxOpen)
		return err
	})
	return all, mysqltx.Wrap(err, "list the coupons whose lines are journalled")
}

// Behind reports whether the journal may lack an application. up_to is the lower number if MySQL was restored from a
// backup.
func (o Open) Behind(line candidates.Line) bool {
	return line.Window && line.Last > min(line.Journalled, o.UpTo)
}

// Uncompared reports whether the coupon's Redis server has not been compared with the journal since it may have lost
// somebody: it has lost the coupon's state, or it took over promises of another server or of itself before a restart.
func (o Open) Uncompared(line candidates.Line) bool {
	if !line.Window {
		return o.Books.Accepted > 0 || o.UpTo > 0
	}
	return missing.IsUncompared(line)
}

// Older reports whether the coupon's state in Redis is older than the journal, and was not compared with it. For a
// moment this is so after each COMMIT of the journal.
func (o Open) Older(line candidates.Line) bool {
	return line.Window && o.UpTo > line.Journalled && line.Restored != line.Since
}

// Unmarked reports whether Redis has forgotten users who have the coupon. A clean-up may be about to mark them.
func (o Open) Unmarked(line candidates.Line) bool { return line.Window && line.Issued < o.Books.Issued }
