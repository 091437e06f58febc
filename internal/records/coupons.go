package records

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

const selectCouponSQL = "SELECT " + coupon.ColumnsWithPromise + " FROM coupon c WHERE c.id = ?"

// Coupon reads a coupon. A coupon that does not exist, or whose purge has begun, is a setup error.
func Coupon(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) (coupon.Coupon, error) {
	return mysqltx.Together(ctx, q, "read coupon", id, func(ctx context.Context, q mysqltx.Querier, ids []coupon.CouponID) ([]coupon.Coupon, error) {
		return readCoupons(ctx, q, selectCouponSQL, "", ids)
	})
}

// Lock reads a coupon and locks its row. If another transaction has locked it, Lock waits for the end of that one. In a group
// it does not wait: a coupon that is locked must not delay the others.
func Lock(ctx context.Context, tx *sql.Tx, id coupon.CouponID) (coupon.Coupon, error) {
	return mysqltx.Together(ctx, tx, "lock coupon", id, func(ctx context.Context, q mysqltx.Querier, ids []coupon.CouponID) ([]coupon.Coupon, error) {
		return readCoupons(ctx, q, coupon.LockSQL, lockingSQL, ids)
	})
}

// LockNow does what Lock does, but does not wait: mysqltx.IsLockWait reports its error if the row is locked.
func LockNow(ctx context.Context, tx *sql.Tx, id coupon.CouponID) (coupon.Coupon, error) {
	return readCoupon(ctx, tx, coupon.LockSQL+" NOWAIT", id)
}

// Several coupons are read by one statement.
const (
	selectCouponsSQL = "SELECT " + coupon.ColumnsWithPromise + " FROM coupon c WHERE c.id IN %s ORDER BY c.id"
	lockingSQL       = " FOR UPDATE NOWAIT"
)

// readCoupons reads one coupon with oneSQL. Several coupons are read if they all exist and none is finalised.
func readCoupons(ctx context.Context, q mysqltx.Querier, oneSQL, locking string, ids []coupon.CouponID) ([]coupon.Coupon, error) {
	if len(ids) == 1 {
		c, err := readCoupon(ctx, q, oneSQL, ids[0])
		return []coupon.Coupon{c}, err
	}
	found, err := mysqltx.Collect(ctx, q, (*coupon.Coupon).FieldsWithPromise, fmt.Sprintf(selectCouponsSQL, mysqltx.In(len(ids)))+locking, mysqltx.Args(ids)...)
	if err != nil {
		return nil, mysqltx.Wrap(err, "read %d coupons", len(ids))
	}
	return mysqltx.InOrder(ids, found, func(c coupon.Coupon) coupon.CouponID {
		if c.Finalised() {
			return 0
		}
		return c.ID
	})
}

// readSQL is coupon.LockSQL without the lock.
const readSQL = "SELECT " + coupon.ColumnsWithPromise + " FROM coupon c WHERE c.id = ?"

// Read reads a coupon, and locks nothing.
func Read(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) (coupon.Coupon, error) {
	return readCoupon(ctx, q, readSQL, id)
}

func readCoupon(ctx context.Context, q mysqltx.Querier, query string, id coupon.CouponID) (c coupon.Coupon, err error) {
	err = q.QueryRowContext(ctx, query, id).Scan(c.FieldsWithPromise()...)
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

const selectDueSQL = "SELECT " + coupon.ColumnsWithPromise + ` FROM coupon c
WHERE c.finalised_at IS NULL AND c.apply_opens_at < ? ORDER BY c.id`

// Due reads the coupons that opened before the cutoff and are not finalised.
func Due(ctx context.Context, q mysqltx.Querier, cutoff time.Time) ([]coupon.Coupon, error) {
	due, err := mysqltx.Collect(ctx, q, (*coupon.Coupon).FieldsWithPromise, selectDueSQL, cutoff)
	return due, mysqltx.Wrap(err, "read due coupons")
}

const takeSeatsSQL = "UPDATE coupon SET issued_count = issued_count + ? WHERE id = ? AND issued_count + ? <= total_quantity"

// TakeSeats adds to issued_count. More seats than are free break an invariant.
func TakeSeats(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, seats int) error {
	_, err := mysqltx.Together(ctx, tx, "take seats", taken{couponID, seats}, takeAll)
	return err
}

type taken struct {
	coupon coupon.CouponID
	seats  int
}

// takeManySQL finds each coupon by its id. A scan, which a small table invites, would wait for the locks of other groups.
const takeManySQL = `
UPDATE (SELECT ? AS id, ? AS seats%s) t STRAIGHT_JOIN coupon c FORCE INDEX (PRIMARY) ON c.id = t.id
SET c.issued_count = c.issued_count + t.seats WHERE c.issued_count + t.seats <= c.total_quantity`

func takeAll(ctx context.Context, q mysqltx.Querier, all []taken) ([]struct{}, error) {
	none := make([]struct{}, len(all))
	if len(all) == 1 {
		return none, take(ctx, q, all[0].coupon, all[0].seats)
	}
	var pairs []any
	for _, t := range all {
		pairs = append(pairs, t.coupon, t.seats)
	}
	query := fmt.Sprintf(takeManySQL, strings.Repeat(" UNION ALL SELECT ?, ?", len(all)-1))
	return none, mysqltx.Wrap(mysqltx.Exec(ctx, q, len(all), query, pairs...), "count the seats of %d coupons", len(all))
}

func take(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID, seats int) error {
	n, err := mysqltx.Affected(q.ExecContext(ctx, takeSeatsSQL, seats, couponID, seats))
	if mysqltx.IsCheck(err) || err == nil && n != 1 {
		return &coupon.Error{Class: coupon.Invariant, Err: errors.Join(text.Errorf(text.SeatsGone, couponID, seats), err)}
	}
	return mysqltx.Wrap(err, "count %d seats of coupon %d", seats, couponID)
}

const markFinalisedSQL = "UPDATE coupon SET finalised_at = ? WHERE id = ? AND finalised_at IS NULL"

func MarkFinalised(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, at time.Time) error {
	return mysqltx.Wrap(mysqltx.ExecSingly(ctx, tx, 1, markFinalisedSQL, at, couponID), "finalise coupon %d", couponID)
}
