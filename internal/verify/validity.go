package verify

import (
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// validitiesSQL reads the times of the coupons that runs issued and nobody has changed, by run, the most frequent
// first. It joins groups: a join of a million rows takes longer.
const validitiesSQL = `
SELECT u.run_id, COALESCE(` + settledAt + `, u.issued_at), u.issued_at, u.expires_at, u.n
FROM (SELECT run_id, issued_at, expires_at, COUNT(*) AS n
      FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL AND seq = 0 GROUP BY 1, 2, 3) u
LEFT JOIN settlement_run r ON r.id = u.run_id ORDER BY u.run_id, u.n DESC`

// checkValidity checks that coupons are issued at the time of their run, and that all coupons of a run expire at the
// end of their last day. checkLogs has counted the wrong ones among those that were changed: it knows which of them an
// operator has extended.
func (c *check) checkValidity(ctx context.Context) error {
	wrong, days := c.invalid, c.row.ValidityDays
	var of coupon.RunID
	var end time.Time // end of validity of the run's coupons
	err := mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
		var run coupon.RunID
		var settled, issued, expires time.Time
		var n int64
		err := rows.Scan(&run, &settled, &issued, &expires, &n)
		if run != of {
			of, end = run, expires
		}
		if !expires.Equal(end) || !issued.Equal(settled) || !endsDay(issued, expires, days) {
			wrong += n
		}
		return err
	}, validitiesSQL, c.Coupon)
	c.findAny(6, ValidityWrong, wrong,
		"coupons not issued at the time of their run, or not expiring at the end of day %[2]d after it: %[1]d", days)
	return mysqltx.Wrap(err, "read the validity of coupons")
}

// clockSlack is for clocks that change: they move a midnight by an hour.
const clockSlack = time.Hour

// endsDay reports whether a coupon expires at the midnight that ends the days-th day after its issue. It accepts the
// midnight of any time zone, because that of the nights may have changed since.
func endsDay(issued, expires time.Time, days int) bool {
	after, least := expires.Sub(issued), time.Duration(days)*24*time.Hour
	return expires.Equal(expires.Truncate(time.Second)) && after > least-clockSlack &&
		after <= least+24*time.Hour+clockSlack
}
