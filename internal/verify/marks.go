package verify

import (
	"context"
	"database/sql"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const (
	// issuedMarksSQL says of each mark whether the user has the coupon, and one from a run; and whether the mark names
	// the arrival of such a coupon, which is 0 if it was given by hand.
	issuedMarksSQL = `
SELECT j.user_id, COUNT(u.id) > 0, COUNT(u.run_id) > 0,
    COALESCE(SUM(j.arrival = IF(u.run_id IS NULL, 0, ` + appliedAtMicros + `)), 0) > 0
FROM ` + mysqltx.ApplicationsTable + ` LEFT JOIN user_coupon u ON u.coupon_id = ? AND u.user_id = j.user_id
GROUP BY j.n, j.user_id`

	appliedAtMicros = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', u.applied_at)"

	rejectedMarksSQL = "SELECT COUNT(*) FROM " + mysqltx.ApplicationsTable + `
WHERE NOT EXISTS (SELECT 1 FROM application_outcome o
    WHERE o.coupon_id = ? AND o.user_id = j.user_id AND o.outcome = 'REJECTED')`

	holdersSQL = `
SELECT user_id FROM user_coupon WHERE coupon_id = ? AND user_id > ? AND run_id IS NOT NULL ORDER BY user_id LIMIT ?`
)

// checkMarks checks invariant 6. Redis marks a user as issued or rejected after the commit: MySQL must have the row. A
// mark has the arrival of the coupon: if MySQL loses the settlement, the user is entered at it again.
func (c *check) checkMarks(ctx context.Context) error {
	var wrong, unmarked named
	var unfounded, rejected, holders int64
	err := c.eachMark(ctx, coupon.MarkIssued, func(marks []coupon.Application) error {
		return mysqltx.Each(ctx, c.tx, func(rows *sql.Rows) error {
			var user coupon.UserID
			var has, fromRun, right bool
			err := rows.Scan(&user, &has, &fromRun, &right)
			if fromRun {
				holders++
			}
			switch {
			case !has:
				unfounded++
			case !right:
				wrong.add(user)
			}
			return err
		}, issuedMarksSQL, mysqltx.ApplicationsJSON(marks), c.Coupon)
	})
	if err == nil {
		err = c.eachMark(ctx, coupon.MarkRejected, func(marks []coupon.Application) error {
			n, err := c.number(ctx, rejectedMarksSQL, mysqltx.ApplicationsJSON(marks), c.Coupon)
			rejected += n
			return err
		})
	}
	if err == nil && holders != c.byRuns && c.marksAll() {
		err = c.eachUnmarked(ctx, unmarked.add)
	}
	if err != nil {
		return mysqltx.Wrap(err, "compare marks")
	}
	c.findAny(6, MarkedWithoutCoupon, unfounded,
		"users without the coupon whose applications Redis answers with ALREADY_ISSUED: %d")
	c.findAny(6, MarkedWithoutRejection, rejected,
		"users without a REJECTED outcome whose applications Redis answers with REJECTED: %d")
	c.findUsers(6, MarkWrong, wrong, "users marked in Redis with another arrival than that of their coupon: %d")
	c.findUsers(6, MarkWrong, unmarked, "users with the coupon from a run who are not marked in Redis as issued: %d")
	return nil
}

// eachMark visits pages of the marks. A mark that Redis returns twice is visited twice.
func (c *check) eachMark(ctx context.Context, mark coupon.Mark, visit func([]coupon.Application) error) error {
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		marks, next, err := c.verifier.Store.Marked(ctx, c.Coupon, mark, cursor)
		if err == nil && len(marks) > 0 {
			err = visit(marks)
		}
		if err != nil {
			return err
		}
		cursor = next
	}
	return nil
}

// marksAll reports whether Redis must mark every user with a coupon from a run: it was compared with MySQL, no restore
// that was asked for and no clean-up is still to come, and the coupon is not finalised.
func (c *check) marksAll() bool {
	return !c.row.Finalised() && c.pending == 0 && c.books.compared(c.look) && c.look.Returned == 0 &&
		c.books.asked == 0
}

// eachUnmarked visits the users with a coupon from a run whom Redis does not mark as issued.
func (c *check) eachUnmarked(ctx context.Context, visit func(coupon.UserID)) error {
	for after := coupon.UserID(0); ; {
		holders, err := mysqltx.Column[coupon.UserID](ctx, c.tx, holdersSQL, c.Coupon, after, candidates.MaxWatched)
		if err != nil || len(holders) == 0 {
			return err
		}
		after = holders[len(holders)-1]
		found, err := c.verifier.Store.Watch(ctx, c.Coupon, 0, holders...)
		if err != nil {
			return err
		}
		for i, user := range holders {
			if !found.Users[i].MarkedIssued {
				visit(user)
			}
		}
	}
}
