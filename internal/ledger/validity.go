package ledger

import (
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// validitiesSQL reads the times of the coupons that runs issued, by run, the most frequent first. If an operator has extended a
// coupon, coupon_log has its expiry, which invariant 9 compares.
const validitiesSQL = `
SELECT u.run_id, COALESCE(` + settledAt + `, u.issued_at), u.issued_at, u.expires_at,
       u.seq > 0 AND EXISTS (SELECT 1 FROM coupon_log l WHERE l.user_coupon_id = u.id AND l.kind = 'EXTENDED') AS extended, COUNT(*)
FROM user_coupon u LEFT JOIN settlement_run r ON r.id = u.run_id
WHERE u.coupon_id = ? AND u.run_id IS NOT NULL
GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 6 DESC`

// checkValidity checks that coupons are issued at the time of their run, and that all coupons of a run expire at the midnight
// that ends their last day.
func (c *check) checkValidity(ctx context.Context) error {
	var wrong int64
	var of coupon.RunID
	var end sql.NullTime // of the run's coupons
	days := c.row.ValidityDays
	err := mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
		var run coupon.RunID
		var settled, issued time.Time
		var expires sql.NullTime
		var extended bool
		var n int64
		err := rows.Scan(&run, &settled, &issued, &expires, &extended, &n)
		right := extended
		if !extended {
			if run != of {
				of, end = run, expires
			}
			right = expires == end && endsDay(issued, expires.Time, days)
		}
		if !right || !issued.Equal(settled) {
			wrong += n
		}
		return err
	}, validitiesSQL, c.Coupon)
	c.findAny(6, ValidityWrong, wrong, "coupons not issued at the time of their run, or not expiring at the end of day %[2]d after it: %[1]d", days)
	return mysqltx.Wrap(err, "read the validity of coupons")
}

// clockSlack is for clocks that change: they move a midnight by an hour.
const clockSlack = time.Hour

// endsDay reports whether a coupon expires at the midnight that ends the days-th day after its issue. It accepts the midnight of
// any time zone, because SETTLE_TIME_ZONE may have changed since. Coupons of earlier versions expire days times 24 h after
// their issue.
func endsDay(issued, expires time.Time, days int) bool {
	after, least := expires.Sub(issued), time.Duration(days)*24*time.Hour
	return after == least ||
		expires.Equal(expires.Truncate(time.Second)) && after > least-clockSlack && after <= least+24*time.Hour+clockSlack
}
