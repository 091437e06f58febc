package catalog

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/jajeong/jajeong/internal/coupon"
	"go.uber.org/zap"
)

// selectCoupons takes one more than are kept, to know that there are more.
const selectCoupons = `
SELECT ` + coupon.Columns + ", " + coupon.PromiseColumns + `
  FROM coupon c LEFT JOIN promise p ON p.coupon_id = c.id
 WHERE c.apply_opens_at <= UTC_TIMESTAMP(6) + INTERVAL 1 DAY
   AND c.apply_closes_at >= UTC_TIMESTAMP(6) - INTERVAL 30 DAY
 ORDER BY c.apply_closes_at < UTC_TIMESTAMP(6),
          ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), c.apply_closes_at)), c.id
 LIMIT ?`

// read returns the coupons as MySQL has them. A row that cannot be read is left out and told in the error; without a
// reading nothing could be read.
func (c *Catalog) read(ctx context.Context) (*reading, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	conn, err := c.DB.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("reach mysql for the catalog: %w", err)
	}
	defer conn.Close()

	// The clock first: what is read a moment later is at least as new as it says.
	r := new(reading)
	if err := conn.QueryRowContext(ctx, "SELECT UTC_TIMESTAMP(6)").Scan(&r.At); err != nil {
		return nil, fmt.Errorf("read mysql clock: %w", err)
	}
	rows, err := conn.QueryContext(ctx, selectCoupons, MaxCoupons+1)
	if err != nil {
		return nil, fmt.Errorf("read coupons: %w", err)
	}
	defer rows.Close()
	var failed failures
	for rows.Next() {
		one, err := scanCoupon(rows)
		if err != nil {
			failed.add(fmt.Errorf("read a coupon: %w", err))
			continue
		}
		r.Coupons = append(r.Coupons, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read coupons: %w", err)
	}
	if len(r.Coupons) > MaxCoupons {
		c.Logger.Error("more coupons than the catalog holds: those closed longest ago are not found",
			zap.Int("kept", MaxCoupons))
		r.Coupons = r.Coupons[:MaxCoupons]
	}
	return r, failed.join()
}

func scanCoupon(rows *sql.Rows) (one coupon.Coupon, err error) {
	if err := rows.Scan(append(one.Fields(), one.Promise.Fields()...)...); err != nil {
		return coupon.Coupon{}, fmt.Errorf("coupon %d: %w", one.ID, err)
	}
	return one, nil
}

// raised is a promise that is higher in Redis than in MySQL.
type raised struct {
	coupon  coupon.CouponID
	promise coupon.Promise
}

// promiseBatch keeps a statement's locks and length small.
const promiseBatch = 500

// VALUES() in place of a row alias: MariaDB knows no other way. GREATEST, since another process may have raised more.
const (
	insertPromise   = "INSERT INTO promise (coupon_id, accepted, last_arrival, twice, counted_since, seen_at) VALUES "
	promiseRow      = "(?, ?, ?, ?, ?, UTC_TIMESTAMP(6))"
	onHigherPromise = ` ON DUPLICATE KEY UPDATE accepted = GREATEST(accepted, VALUES(accepted)),
 last_arrival = GREATEST(last_arrival, VALUES(last_arrival)), twice = GREATEST(twice, VALUES(twice)),
 counted_since = GREATEST(counted_since, VALUES(counted_since)), seen_at = VALUES(seen_at)`
)

// raisePromises writes back what is higher in Redis. It works in the order of ids: two processes cannot block each
// other crosswise.
func (c *Catalog) raisePromises(ctx context.Context, risen []raised) error {
	slices.SortFunc(risen, func(a, b raised) int { return cmp.Compare(a.coupon, b.coupon) })
	var failed failures
	for batch := range slices.Chunk(risen, promiseBatch) {
		args := make([]any, 0, 5*len(batch))
		for _, r := range batch {
			args = append(args, r.coupon, r.promise.Accepted, r.promise.LastArrival, r.promise.Twice, r.promise.Since)
		}
		statement := insertPromise + strings.Repeat(promiseRow+", ", len(batch)-1) + promiseRow + onHigherPromise
		result, err := c.DB.ExecContext(ctx, statement, args...)
		if err == nil {
			err = touched(result, len(batch))
		}
		if err != nil {
			failed.add(fmt.Errorf("raise promises of %d coupons from %d on: %w", len(batch), batch[0].coupon, err))
		}
	}
	return failed.join()
}

// touched wants at least one for each row: with clientFoundRows a row that was there counts, changed or not.
func touched(result sql.Result, rows int) error {
	n, err := result.RowsAffected()
	if err == nil && n < int64(rows) {
		err = fmt.Errorf("only %d of %d rows were written", n, rows)
	}
	return err
}
