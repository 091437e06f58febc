package verify

import (
	"context"
	"database/sql"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// entry is an application in Redis, and what MySQL has about it.
type entry struct {
	coupon.Application
	active    bool // the user exists and is active
	hasCoupon bool // the user has the coupon, from a run or given by hand
	issued    bool // a run issued a coupon for this application
	later     bool // MySQL has settled the user at a later arrival
	outcome   string
}

// settled reports whether MySQL has decided the application. In the queue, an earlier arrival is that of the same
// application: a restore has moved it forward.
func (e entry) settled() bool {
	return e.issued || e.outcome != "" || e.later && e.Source == coupon.SourceQueue
}

// halfMoved reports whether a run moved the application to the DLQ, but did not commit the change in MySQL.
func (e entry) halfMoved() bool {
	return e.outcome == string(coupon.OutcomeNotSelected) && e.Source != coupon.SourceQueue
}

// entriesSQL has placeholders in braces for the shop's user table. users.Table fills them in.
const entriesSQL = `
SELECT j.n, {active}, EXISTS (SELECT 1 FROM user_coupon h WHERE h.coupon_id = ? AND h.user_id = j.user_id),
       ` + mysqltx.AppliedAt + ` IN (SELECT u.applied_at FROM user_coupon u WHERE u.coupon_id = ?
         AND u.user_id = j.user_id
                                     AND u.run_id IS NOT NULL AND u.applied_at IS NOT NULL),
       COALESCE(o.outcome, ''), COALESCE(o.member, ''),
       j.user_id > 0 AND GREATEST(
         COALESCE((SELECT MAX(a.applied_at) FROM user_coupon a WHERE a.coupon_id = ? AND a.user_id = j.user_id
                   AND a.run_id IS NOT NULL), '1970-01-01'),
         COALESCE((SELECT MAX(b.applied_at) FROM application_outcome b WHERE b.coupon_id = ? AND b.user_id = j.user_id),
                  '1970-01-01')) > ` + mysqltx.AppliedAt + `
FROM ` + mysqltx.ApplicationsTable + `
LEFT JOIN {users} ON {id} = j.user_id AND j.user_id <= {last}
LEFT JOIN application_outcome o FORCE INDEX (PRIMARY) ON o.coupon_id = ? AND o.user_id = j.user_id
     AND o.applied_at = ` + mysqltx.AppliedAt + `
ORDER BY j.n`

// walk visits the applications in Redis up to an arrival.
func (c *check) walk(ctx context.Context, upTo coupon.Arrival, visit func(entry)) error {
	directory, err := c.verifier.Users.Table(ctx, c.tx)
	if err != nil {
		return err
	}
	query, end := directory.SQL(entriesSQL), (upTo + 1).Time()
	for cursor := (coupon.Cursor{}); ; {
		page, next, err := c.verifier.Store.Page(ctx, c.Coupon, cursor, end)
		if err != nil || len(page) == 0 {
			return err
		}
		cursor = next
		err = mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
			var n int
			var member string
			var e entry
			if err := rows.Scan(&n, &e.active, &e.hasCoupon, &e.issued, &e.outcome, &member, &e.later); err != nil {
				return err
			}
			e.Application = page[n-1]
			if e.User() == 0 && member != coupon.StoredMember(e.Member) {
				e.outcome = ""
			}
			visit(e)
			return nil
		}, query, c.Coupon, c.Coupon, c.Coupon, c.Coupon, mysqltx.ApplicationsJSON(page), c.Coupon)
		if err != nil {
			return mysqltx.Wrap(err, "compare applications")
		}
	}
}
