package ledger

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Entry is an application in Redis.
type Entry struct {
	coupon.Application
	issued   bool // a run issued a coupon for this application
	recorded bool // application_outcome has a row for this application
	later    bool // MySQL has settled the same application at a later arrival, before a restore moved it forward
}

func (e Entry) Settled() bool {
	return e.issued || e.recorded || e.later && e.Source == coupon.SourceQueue
}

const entriesSQL = `
SELECT j.n, EXISTS (SELECT 1 FROM user_coupon c WHERE c.coupon_id = ? AND c.user_id = j.user_id AND c.run_id IS NOT NULL
               AND c.applied_at = ` + mysqltx.AppliedAt + `),
       o.outcome IS NOT NULL, COALESCE(o.member, ''),
       j.user_id > 0 AND (
         EXISTS (SELECT 1 FROM user_coupon c WHERE c.coupon_id = ? AND c.user_id = j.user_id AND c.run_id IS NOT NULL
                 AND c.applied_at > ` + mysqltx.AppliedAt + `)
         OR EXISTS (SELECT 1 FROM application_outcome p WHERE p.coupon_id = ? AND p.user_id = j.user_id
                    AND p.applied_at > ` + mysqltx.AppliedAt + `))
FROM ` + mysqltx.ApplicationsTable + `
LEFT JOIN application_outcome o FORCE INDEX (PRIMARY) ON o.coupon_id = ? AND o.user_id = j.user_id
     AND o.applied_at = ` + mysqltx.AppliedAt + `
ORDER BY j.n`

func (l *Ledger) walk(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, upTo coupon.Arrival,
	visit func(Entry)) error {
	end := (upTo + 1).Time()
	for cursor := (coupon.Cursor{}); ; {
		page, next, err := l.Store.Page(ctx, couponID, cursor, end)
		if err != nil || len(page) == 0 {
			return err
		}
		cursor = next
		err = mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
			var n int
			var member string
			var e Entry
			if err := rows.Scan(&n, &e.issued, &e.recorded, &member, &e.later); err != nil {
				return err
			}
			e.Application = page[n-1]
			if e.User() == 0 {
				e.recorded = e.recorded && member == coupon.StoredMember(e.Member)
			}
			visit(e)
			return nil
		}, entriesSQL, couponID, couponID, couponID, mysqltx.ApplicationsJSON(page), couponID)
		if err != nil {
			return fmt.Errorf("walk the applications of coupon %d: %w", couponID, err)
		}
	}
}
