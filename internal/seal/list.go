package seal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// MarkFinalised is the row of verify_mark with the time (µs since 1970) before which every coupon that was finalised has
// a row of table seal and is listed.
const MarkFinalised = "finalised"

// Listed is the time before which finalised coupons are listed: table user_application names their users with outcomes.
func Listed(ctx context.Context, q mysqltx.Querier) (time.Time, error) {
	var micros int64
	err := q.QueryRowContext(ctx, "SELECT COALESCE(MAX(value), 0) FROM verify_mark WHERE name = ?",
		MarkFinalised).Scan(&micros)
	return time.UnixMicro(micros).UTC(), mysqltx.Wrap(err, "read the mark of finalised coupons")
}

const (
	// listableSQL holds the coupon's row: no outcome is deleted meanwhile.
	listableSQL = `
SELECT c.finalised_at IS NOT NULL AND p.coupon_id IS NULL FROM coupon c
LEFT JOIN purged_coupon p ON p.coupon_id = c.id WHERE c.id = ? LOCK IN SHARE MODE`
	pageEndSQL = `
SELECT DISTINCT user_id FROM application_outcome WHERE coupon_id = ? AND user_id >= ? ORDER BY user_id
    LIMIT 1 OFFSET ?`
	listSQL = `
INSERT IGNORE INTO user_application (user_id, coupon_id)
SELECT DISTINCT user_id, coupon_id FROM application_outcome
WHERE coupon_id = ? AND user_id >= ? AND (? = 0 OR user_id < ?) ORDER BY user_id`
)

// listedTogether bounds the users of a transaction.
const listedTogether = 10_000

// List adds the users with outcomes of a finalised coupon to user_application. It is safe to repeat.
func List(ctx context.Context, db *sql.DB, id coupon.CouponID) error {
	for from := coupon.UserID(0); ; {
		var next coupon.UserID // 0: this is the last page
		err := mysqltx.NewBrief(db).Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
			var may bool
			err := tx.QueryRowContext(ctx, listableSQL, id).Scan(&may)
			if next = 0; errors.Is(err, sql.ErrNoRows) || err == nil && !may {
				return nil
			}
			if err == nil {
				err = tx.QueryRowContext(ctx, pageEndSQL, id, from, listedTogether).Scan(&next)
			}
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			_, err = tx.ExecContext(ctx, listSQL, id, from, next, next)
			return err
		})
		if from = next; err != nil || next == 0 {
			return mysqltx.Wrap(err, "list the users with outcomes of coupon %d", id)
		}
	}
}
