package records

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

const selectCouponSQL = "SELECT " + coupon.ColumnsWithKnown + " FROM coupon c WHERE c.id = ?"

// Coupon reads a coupon. A coupon that does not exist, or whose purge has begun, is a setup error.
func Coupon(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) (coupon.Coupon, error) {
	return readCoupon(ctx, q, selectCouponSQL, id)
}

// Lock reads a coupon and locks its row. If another transaction has locked it, Lock waits for the end of that one.
func Lock(ctx context.Context, tx *sql.Tx, id coupon.CouponID) (coupon.Coupon, error) {
	return readCoupon(ctx, tx, coupon.LockSQL, id)
}

// LockNow does what Lock does, but does not wait: mysqltx.IsLockWait reports its error if the row is locked.
func LockNow(ctx context.Context, tx *sql.Tx, id coupon.CouponID) (coupon.Coupon, error) {
	return readCoupon(ctx, tx, coupon.LockSQL+" NOWAIT", id)
}

func readCoupon(ctx context.Context, q mysqltx.Querier, query string, id coupon.CouponID) (c coupon.Coupon, err error) {
	err = q.QueryRowContext(ctx, query, id).Scan(c.FieldsWithKnown()...)
	if errors.Is(err, sql.ErrNoRows) {
		if err := refusePurged(ctx, q, id); err != nil {
			return coupon.Coupon{}, mysqltx.Wrap(err, "read coupon %d", id)
		}
		return coupon.Coupon{}, &coupon.Error{Class: coupon.Setup, Err: text.MissingErrorf(text.NoSuchCoupon, id)}
	}
	if err == nil && c.Finalised() {
		err = refusePurged(ctx, q, id)
	}
	return c, mysqltx.Wrap(err, "read coupon %d", id)
}

const purgedSQL = "SELECT EXISTS (SELECT 1 FROM purged_coupon WHERE coupon_id = ?)"

// refusePurged is asked about finalised and missing coupons alone: the others are not purged.
func refusePurged(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) error {
	purged := false
	err := q.QueryRowContext(ctx, purgedSQL, id).Scan(&purged)
	if err == nil && purged {
		err = &coupon.Error{Class: coupon.Setup, Err: text.UsageErrorf(text.CouponIsPurged, id)}
	}
	return err
}

// Unfinished reads the ids of the coupons that are not finalised.
func Unfinished(ctx context.Context, q mysqltx.Querier) ([]coupon.CouponID, error) {
	ids, err := mysqltx.Column[coupon.CouponID](ctx, q,
		"SELECT id FROM coupon FORCE INDEX (coupon_due) WHERE finalised_at IS NULL ORDER BY id")
	return ids, mysqltx.Wrap(err, "read coupons")
}

const selectDueSQL = "SELECT " + coupon.ColumnsWithKnown + ` FROM coupon c
WHERE c.finalised_at IS NULL AND c.apply_opens_at < ? ORDER BY c.id`

// Due reads the coupons that opened before the cutoff and are not finalised.
func Due(ctx context.Context, q mysqltx.Querier, cutoff time.Time) ([]coupon.Coupon, error) {
	due, err := mysqltx.Collect(ctx, q, (*coupon.Coupon).FieldsWithKnown, selectDueSQL, cutoff)
	return due, mysqltx.Wrap(err, "read due coupons")
}

const takeSeatsSQL = "UPDATE coupon SET issued_count = issued_count + ? WHERE id = ? AND issued_count + ? <= " +
	"total_quantity"

// TakeSeats adds to issued_count. More seats than are free break an invariant.
func TakeSeats(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, seats int) error {
	n, err := mysqltx.Affected(tx.ExecContext(ctx, takeSeatsSQL, seats, couponID, seats))
	if mysqltx.IsCheck(err) || err == nil && n != 1 {
		return &coupon.Error{Class: coupon.Invariant,
			Err: errors.Join(text.Errorf(text.SeatsGone, couponID, seats), err)}
	}
	return mysqltx.Wrap(err, "count %d seats of coupon %d", seats, couponID)
}

const markFinalisedSQL = "UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6) WHERE id = ? " +
	"AND finalised_at IS NULL"

// MarkFinalised notes the time by MySQL's clock: settle serve compares it with that clock.
func MarkFinalised(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) error {
	return mysqltx.Wrap(mysqltx.Exec(ctx, tx, 1, markFinalisedSQL, couponID), "finalise coupon %d", couponID)
}
