package journal

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
)

// guarded is how long a finalised coupon can lose its end again. Until then another Redis server can take over that
// lacks the last seconds: the window may be open there, and who was settled may stand. The journal is kept meanwhile.
// candidates.FinishedTTL is longer: the server that has swept the coupon still has its state.
const guarded = "INTERVAL 5 MINUTE"

const (
	guardedSQL = `
SELECT c.id, c.apply_opens_at, ` + promise.Columns + `
FROM coupon c FORCE INDEX (coupon_due) LEFT JOIN journal j ON j.coupon_id = c.id
    LEFT JOIN settled s ON s.coupon_id = c.id
WHERE c.finalised_at >= UTC_TIMESTAMP(6) - ` + guarded + ` ORDER BY c.id LIMIT ?`
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
		}, guardedSQL, MaxOpen)
		return err
	})
	for i := range all {
		all[i].Known.Highest = all[i].Books.Highest()
	}
	return all, mysqltx.Wrap(err, "list the coupons that were just finalised")
}

// Ended reports whether a coupon that was finalised has its end on the Redis server that was looked at: nobody stands,
// nobody was handed over or is to be restored, and the server is the one that was compared. Who was never applied for
// has nothing to lose.
func (o Open) Ended(l coupon.Look) bool {
	b := o.Books
	empty := b.Settled() == 0 && b.UpTo == 0 && l.Accepted+l.Returned == 0
	same := l.Since > 0 && l.Restored && (b.Epoch == "" || b.Epoch == l.Epoch)
	return l.Waiting+l.DLQ == 0 && (empty || same && l.Returned == 0 && b.Asked == 0)
}

// OpenAgain takes the end back: the coupon is restored, and the next run settles and finalises it.
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
		return mysqltx.Exec(ctx, tx, 1, openAgainSQL, id)
	})
	return opened, mysqltx.Wrap(err, "take back the end of coupon %d", id)
}
