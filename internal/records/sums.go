package records

import (
	"context"
	"database/sql"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const keepSumsSQL = `
INSERT INTO settled (coupon_id, issued, concluded, settled_up_to, last_issued) VALUES (?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE issued = VALUES(issued), concluded = VALUES(concluded), settled_up_to = VALUES(settled_up_to),
    last_issued = VALUES(last_issued)`

// KeepSums writes the sums of a coupon. Table settled takes no higher arrival, which a row may have by hand.
func KeepSums(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, s ledger.Sums) error {
	err := mysqltx.Upsert(ctx, tx, keepSumsSQL, couponID, s.Issued, s.Concluded,
		min(s.SettledUpTo, coupon.MaxArrival), min(s.LastIssued, coupon.MaxArrival))
	return mysqltx.Wrap(err, "keep sums of coupon %d", couponID)
}

const addToSumsSQL = `
INSERT INTO settled (coupon_id, concluded, settled_up_to) VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE concluded = concluded + VALUES(concluded), settled_up_to = GREATEST(settled_up_to,
    VALUES(settled_up_to))`

// AddToSums counts outcomes that were recorded without a seat.
func AddToSums(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, recorded ...coupon.Application) error {
	if len(recorded) == 0 {
		return nil
	}
	upTo := coupon.Arrival(0)
	for _, a := range recorded {
		upTo = max(upTo, a.Arrival)
	}
	err := mysqltx.Upsert(ctx, tx, addToSumsSQL, couponID, len(recorded), upTo)
	return mysqltx.Wrap(err, "add to sums of coupon %d", couponID)
}

const selectLastIssuedSQL = "SELECT COALESCE(MAX(last_issued), 0) FROM settled WHERE coupon_id = ?"

// LastIssued returns the highest arrival of the coupon that ever got a seat.
func LastIssued(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (last coupon.Arrival, err error) {
	err = tx.QueryRowContext(ctx, selectLastIssuedSQL, couponID).Scan(&last)
	return last, mysqltx.Wrap(err, "read last arrival issued of coupon %d", couponID)
}
