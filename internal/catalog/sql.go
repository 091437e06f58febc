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

// selectCoupons reads one coupon more than the catalog keeps, to detect that there are more.
const selectCoupons = `
SELECT ` + coupon.Columns + ", " + coupon.PromiseColumns + `
  FROM coupon c LEFT JOIN promise p ON p.coupon_id = c.id
 WHERE c.apply_opens_at <= UTC_TIMESTAMP(6) + INTERVAL 1 DAY
   AND c.apply_closes_at >= UTC_TIMESTAMP(6) - INTERVAL 30 DAY
 ORDER BY c.apply_closes_at < UTC_TIMESTAMP(6),
          ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), c.apply_closes_at)), c.id
 LIMIT ?`

// read reads the coupons from MySQL. It leaves out unreadable rows and names them in the error. The reading is nil if nothing
// could be read.
func (c *Catalog) read(ctx context.Context) (*reading, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	conn, err := c.DB.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("reach mysql for the catalog: %w", err)
	}
	defer conn.Close()

	// The clock first: the coupons are at least as new as that.
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
		c.Logger.Error("more coupons than the catalog keeps; the coupons that closed first are left out",
			zap.Int("kept", MaxCoupons))
		r.Coupons = r.Coupons[:MaxCoupons]
	}
	return r, failed.join()
}

func scanCoupon(rows *sql.Rows) (one coupon.Coupon, err error) {
	if err := rows.Scan(one.FieldsWithPromise()...); err != nil {
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

// VALUES(): MariaDB has no row alias. GREATEST: another process may have written higher values.
const (
	insertPromise   = "INSERT INTO promise (coupon_id, accepted, last_arrival, twice, counted_since, seen_at) VALUES "
	promiseRow      = "(?, ?, ?, ?, ?, UTC_TIMESTAMP(6))"
	onHigherPromise = ` ON DUPLICATE KEY UPDATE accepted = GREATEST(accepted, VALUES(accepted)),
 last_arrival = GREATEST(last_arrival, VALUES(last_arrival)), twice = GREATEST(twice, VALUES(twice)),
 counted_since = GREATEST(counted_since, VALUES(counted_since)), seen_at = VALUES(seen_at)`
)

// raisePromises writes the promises that are higher in Redis. It goes by id, so that two processes cannot deadlock.
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
			err = allWritten(result, len(batch))
		}
		if err != nil {
			failed.add(fmt.Errorf("raise promises of %d coupons from %d on: %w", len(batch), batch[0].coupon, err))
		}
	}
	return failed.join()
}

// allWritten expects at least one affected row each: with clientFoundRows an unchanged row counts too.
func allWritten(result sql.Result, rows int) error {
	n, err := result.RowsAffected()
	if err == nil && n < int64(rows) {
		err = fmt.Errorf("only %d of %d rows were written", n, rows)
	}
	return err
}
