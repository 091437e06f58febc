package seal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// ProgressFinalised is the row of verify_progress with the time (µs since 1970) before which every coupon that was
// finalised has a row of table seal and is listed.
const ProgressFinalised = "finalised"

// Listed is the time before which finalised coupons are listed: table user_application names their users with outcomes.
func Listed(ctx context.Context, q mysqltx.Querier) (time.Time, error) {
	var micros int64
	err := q.QueryRowContext(ctx, "SELECT COALESCE(MAX(value), 0) FROM verify_progress WHERE name = ?",
		ProgressFinalised).Scan(&micros)
	return time.UnixMicro(micros).UTC(), mysqltx.Wrap(err, "read how far finalised coupons are listed")
}

const (
	// lockSQL holds the coupon's row. The lock is shared, because a read-only server refuses FOR UPDATE.
	lockSQL     = "SELECT finalised_at IS NOT NULL FROM coupon WHERE id = ? LOCK IN SHARE MODE"
	isPurgedSQL = "SELECT EXISTS (SELECT 1 FROM purged_coupon WHERE coupon_id = ?)"
)

// Locked runs work in a transaction that keeps runs, changes and forget away from a coupon, unless its purge has begun.
func Locked(ctx context.Context, db *sql.DB, id coupon.CouponID,
	work func(ctx context.Context, tx *sql.Tx, finalised bool) error) error {
	return mysqltx.NewBrief(db).Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		var finalised, purged bool
		err := tx.QueryRowContext(ctx, lockSQL, id).Scan(&finalised)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil {
			err = tx.QueryRowContext(ctx, isPurgedSQL, id).Scan(&purged)
		}
		if err != nil || purged {
			return mysqltx.Wrap(err, "lock coupon %d", id)
		}
		return work(ctx, tx, finalised)
	})
}

const (
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

// List adds the users with outcomes of a finalised coupon to user_application. It is safe to repeat, and adds who was
// lost there.
func List(ctx context.Context, db *sql.DB, id coupon.CouponID) error {
	for from := coupon.UserID(0); ; {
		var next coupon.UserID // 0: this is the last page
		err := Locked(ctx, db, id, func(ctx context.Context, tx *sql.Tx, finalised bool) error {
			if next = 0; !finalised {
				return nil
			}
			err := tx.QueryRowContext(ctx, pageEndSQL, id, from, listedTogether).Scan(&next)
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
