package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Entry is one application in Redis with its state in MySQL.
type Entry struct {
	coupon.Application
	active    bool // the user exists and is active
	hasCoupon bool // the user has the coupon, by a run or by hand
	issued    bool // a run issued a coupon for this application
	recorded  bool // this application has another outcome

	notSelected bool // the outcome is NOT_SELECTED
}

// Settled reports whether MySQL has an outcome of the application.
func (e Entry) Settled() bool { return e.issued || e.recorded }

// halfMoved reports an application in the DLQ that still has its NOT_SELECTED, because the run's transaction did not commit.
func (e Entry) halfMoved() bool { return e.notSelected && e.Source != coupon.SourceQueue }

// entriesSQL has placeholders for the shop's user table, which users.Table fills in.
const entriesSQL = `
SELECT j.n, {active},
       EXISTS (SELECT 1 FROM user_coupon h WHERE h.coupon_id = ? AND h.user_id = j.user_id),
       EXISTS (SELECT 1 FROM user_coupon c WHERE c.coupon_id = ? AND c.user_id = j.user_id AND c.run_id IS NOT NULL
               AND c.applied_at = ` + mysqltx.AppliedAt + `),
       o.outcome IS NOT NULL, COALESCE(o.outcome = 'NOT_SELECTED', FALSE), COALESCE(o.reason, '')
FROM ` + mysqltx.ApplicationsTable + `
LEFT JOIN {users} ON {id} = j.user_id AND j.user_id <= {last}
LEFT JOIN application_outcome o FORCE INDEX (PRIMARY) ON o.coupon_id = ? AND o.user_id = j.user_id
     AND o.applied_at = ` + mysqltx.AppliedAt + `
ORDER BY j.n`

// Malformed is the beginning of the reason for a member that is no user id. All such outcomes have user 0 and differ by it.
func Malformed(member string) string {
	const maxLetters = 400 // of the 500 of a reason
	return mysqltx.Shorten(strconv.Quote(strings.ToValidUTF8(member, "\uFFFD")), maxLetters)
}

// walk visits every application in Redis up to an arrival.
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
			var reason string
			var e Entry
			if err := rows.Scan(&n, &e.active, &e.hasCoupon, &e.issued, &e.recorded, &e.notSelected, &reason); err != nil {
				return err
			}
			e.Application = page[n-1]
			if e.User() == 0 {
				e.recorded = e.recorded && strings.HasPrefix(reason, Malformed(e.Member))
			}
			visit(e)
			return nil
		}, query, couponID, couponID, mysqltx.ApplicationsJSON(page), couponID)
		if err != nil {
			return fmt.Errorf("walk the applications of coupon %d: %w", couponID, err)
		}
	}
}
