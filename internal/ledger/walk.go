package ledger

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

type Entry struct {
	coupon.Application
	active    bool // the user exists and is active
	hasCoupon bool // the user has the coupon, from a run or given by hand
	issued    bool // a run issued a coupon for this application
	recorded  bool // application_outcome has a row for this application

	notSelected bool // the outcome in that row is NOT_SELECTED
}

func (e Entry) Settled() bool { return e.issued || e.recorded }

// halfMoved reports whether a run moved the application to the DLQ, but did not commit the change in MySQL.
func (e Entry) halfMoved() bool { return e.notSelected && e.Source != coupon.SourceQueue }

// entriesSQL has placeholders in braces for the shop's user table. users.Table fills them in.
const entriesSQL = `
SELECT j.n, {active},
       EXISTS (SELECT 1 FROM user_coupon h WHERE h.coupon_id = ? AND h.user_id = j.user_id),
       EXISTS (SELECT 1 FROM user_coupon c WHERE c.coupon_id = ? AND c.user_id = j.user_id AND c.run_id IS NOT NULL
               AND c.applied_at = ` + mysqltx.AppliedAt + `),
       o.outcome IS NOT NULL, COALESCE(o.outcome = 'NOT_SELECTED', FALSE), COALESCE(o.member, '')
FROM ` + mysqltx.ApplicationsTable + `
LEFT JOIN {users} ON {id} = j.user_id AND j.user_id <= {last}
LEFT JOIN application_outcome o FORCE INDEX (PRIMARY) ON o.coupon_id = ? AND o.user_id = j.user_id
     AND o.applied_at = ` + mysqltx.AppliedAt + `
ORDER BY j.n`

func (l *Ledger) walk(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, upTo coupon.Arrival, visit func(Entry)) error {
	directory, err := l.Users.Table(ctx, tx)
	if err != nil {
		return fmt.Errorf("walk the applications of coupon %d: %w", couponID, err)
	}
	query, end := directory.SQL(entriesSQL), (upTo + 1).Time()
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
			if err := rows.Scan(&n, &e.active, &e.hasCoupon, &e.issued, &e.recorded, &e.notSelected, &member); err != nil {
				return err
			}
			e.Application = page[n-1]
			if e.User() == 0 {
				e.recorded = e.recorded && member == coupon.StoredMember(e.Member)
			}
			visit(e)
			return nil
		}, query, couponID, couponID, mysqltx.ApplicationsJSON(page), couponID)
		if err != nil {
			return fmt.Errorf("walk the applications of coupon %d: %w", couponID, err)
		}
	}
}
