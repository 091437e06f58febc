package journal

import (
	"context"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
)

// Open is a coupon whose line is journalled: it opens within a minute or has opened, and is not finalised.
type Open struct {
	ID    coupon.CouponID
	Begun bool // it has a row of table journal
	Books promise.Books
	Known coupon.Known
	// A clean-up in Redis is pending, of a run that is not at work any more.
	Abandoned bool
	Pending   bool // a clean-up is pending
}

// MaxOpen bounds the coupons of a list, as the catalog is bounded.
const MaxOpen = 10_000

const openSQL = `
SELECT c.id, j.coupon_id IS NOT NULL, c.apply_opens_at,
       EXISTS (SELECT 1 FROM settlement p WHERE p.coupon_id = c.id AND p.cleaned_at IS NULL),
       EXISTS (SELECT 1 FROM settlement p JOIN settlement_run r ON r.id = p.run_id
               WHERE p.coupon_id = c.id AND p.cleaned_at IS NULL
                 AND (r.status <> 'RUNNING' OR r.heartbeat_at < UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE)
                 AND p.settled_at < UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE),
       ` + promise.Columns + `
FROM coupon c LEFT JOIN journal j ON j.coupon_id = c.id LEFT JOIN settled s ON s.coupon_id = c.id
WHERE c.finalised_at IS NULL AND (c.apply_opens_at <= UTC_TIMESTAMP(6) + INTERVAL 1 MINUTE OR j.epoch <> '')
ORDER BY c.apply_closes_at DESC, c.id LIMIT ?`

// ListOpen lists the coupons whose lines are journalled.
func ListOpen(ctx context.Context, db *mysqltx.DB) (all []Open, err error) {
	err = db.Once(ctx, func(ctx context.Context, q mysqltx.Querier) error {
		all, err = mysqltx.Collect(ctx, q, func(o *Open) []any {
			return append([]any{&o.ID, &o.Begun, &o.Known.Opens, &o.Pending, &o.Abandoned}, o.Books.Fields()...)
		}, openSQL, MaxOpen)
		return err
	})
	for i := range all {
		all[i].Known.Highest, all[i].Known.Settled = all[i].Books.Highest(), all[i].Books.Settled()
	}
	return all, mysqltx.Wrap(err, "list the coupons whose lines are journalled")
}

// Behind reports whether the journal may lack an application.
func (o Open) Behind(l coupon.Look) bool {
	to := max(o.Books.UpTo, min(l.Last, l.Latest()))
	return to > o.Books.UpTo || to > 0 && o.Books.Epoch != l.Epoch || ahead(o.Books.Mark, l)
}
