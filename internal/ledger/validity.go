package ledger

import (
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// validitiesSQL reads the times of the coupons that runs issued. If an operator has extended a coupon, coupon_log has its
// expiry, which invariant 9 compares.
const validitiesSQL = `
SELECT COALESCE(` + settledAt + `, u.issued_at), u.issued_at, u.expires_at,
       u.seq > 0 AND EXISTS (SELECT 1 FROM coupon_log l WHERE l.user_coupon_id = u.id AND l.kind = 'EXTENDED') AS extended, COUNT(*)
FROM user_coupon u LEFT JOIN settlement_run r ON r.id = u.run_id
WHERE u.coupon_id = ? AND u.run_id IS NOT NULL
GROUP BY 1, 2, 3, 4`

// checkValidity checks that coupons are issued at the time of their run and expire at the midnight that ends their last day.
// Coupons of earlier versions expire validity_days times 24 h after their issue.
func (c *check) checkValidity(ctx context.Context) error {
	var wrong int64
	days := c.row.ValidityDays
	err := mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
		var settled, issued time.Time
		var expires sql.NullTime
		var extended bool
		var n int64
		err := rows.Scan(&settled, &issued, &expires, &extended, &n)
		right := expires.Time.Equal(calendar.ExpiresAt(issued, days, c.ledger.Zone)) || expires.Time.Equal(issued.AddDate(0, 0, days))
		if !issued.Equal(settled) || !right && !extended {
			wrong += n
		}
		return err
	}, validitiesSQL, c.Coupon)
	c.findAny(6, ValidityWrong, wrong, "coupons not issued at the time of their run, or not expiring at the end of day %[2]d after it: %[1]d", days)
	return mysqltx.Wrap(err, "read the validity of coupons")
}
