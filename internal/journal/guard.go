package journal

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
)

const (
	guardedSQL = `
SELECT c.id, c.apply_opens_at, ` + promise.Columns + `
FROM coupon c FORCE INDEX (coupon_due) LEFT JOIN journal j ON j.coupon_id = c.id
    LEFT JOIN settled s ON s.coupon_id = c.id
WHERE c.finalised_at >= UTC_TIMESTAMP(6) - INTERVAL ? SECOND ORDER BY c.id LIMIT ?`
	lockGuardedSQL = `
SELECT NOT EXISTS (SELECT 1 FROM purged_coupon p WHERE p.coupon_id = c.id) FROM coupon c
WHERE c.id = ? AND c.finalised_at IS NOT NULL FOR UPDATE`
	openAgainSQL = "UPDATE coupon SET finalised_at = NULL WHERE id = ?"
)

// ListGuarded lists the coupons that were finalised a short time ago.
func ListGuarded(ctx context.Context, db *mysqltx.DB) (all []Open, err error) {
	err = db.Once(ctx, func(ctx context.Context, q mysqltx.Querier) error {
		all, err = mysqltx.Collect(ctx, q, func(o *Open) []any {
			return append([]any{&o.ID, &o.Known.Opens}, o.Books.Fields()...)
		}, guardedSQL, coupon.EndGuard.Seconds(), MaxOpen)
		return err
	})
	for i := range all {
		all[i].Known.Highest = all[i].Books.Highest()
	}
	return all, mysqltx.Wrap(err, "list the coupons that were just finalised")
}

// Ended reports whether the Redis server that was looked at has swept the finalised coupon, and nobody stands, was
// handed over or is to be restored. More marks than coupons tell that MySQL has lost a settlement, and knows an earlier
// end. A coupon for which nobody ever applied has nothing to lose.
func (o Open) Ended(l coupon.Look) bool {
	b := o.Books
	empty := b.Settled() == 0 && b.UpTo == 0 && l.Accepted == 0
	return l.Waiting+l.DLQ+l.Returned+b.Asked == 0 && l.Issued <= b.Issued && (l.Swept || empty)
}

// OpenAgain takes the end back, and writes an audit event: the coupon is restored, and the next run settles and
// finalises it.
func OpenAgain(ctx context.Context, db *mysqltx.DB, id coupon.CouponID) (opened bool, err error) {
	err = db.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		opened = false
		err := tx.QueryRowContext(ctx, lockGuardedSQL, id).Scan(&opened)
		if errors.Is(err, sql.ErrNoRows) || err == nil && !opened {
			return nil
		}
		if err != nil {
			return err
		}
		at, err := mysqltx.Now(ctx, tx)
		if err != nil {
			return err
		}
		if err := mysqltx.Exec(ctx, tx, 1, openAgainSQL, id); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Origin{At: at}, audit.CouponUnfinalised, id,
			audit.Entry{Payload: audit.Unfinalised{LostEnd: true}})
	})
	return opened, mysqltx.Wrap(err, "take back the end of coupon %d", id)
}
