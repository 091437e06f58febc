package ledger

import (
	"context"
	"strconv"

	"github.com/jajeong/jajeong/internal/coupon"
)

// markedUsers counts the users of one page of marks for which a condition does not hold.
const markedUsers = "SELECT COUNT(*) FROM JSON_TABLE(?, '$[*]' COLUMNS (user_id BIGINT UNSIGNED PATH '$')) AS j WHERE NOT EXISTS "

const (
	issuedMarksSQL   = markedUsers + "(SELECT 1 FROM user_coupon c WHERE c.coupon_id = ? AND c.user_id = j.user_id)"
	rejectedMarksSQL = markedUsers + "(SELECT 1 FROM application_outcome o WHERE o.coupon_id = ? AND o.user_id = j.user_id AND o.outcome = 'REJECTED')"
)

// checkMarks: invariant 6. Every mark in Redis has its row in MySQL. Marks are set after the commit.
func (c *check) checkMarks(ctx context.Context) error {
	n, err := c.countUnfounded(ctx, c.ledger.Store.MarkedIssued, issuedMarksSQL)
	if err != nil {
		return err
	}
	if n > 0 {
		c.find(6, MarkedWithoutCoupon, n, "%d users are answered ALREADY_ISSUED without holding the coupon", n)
	}
	if n, err = c.countUnfounded(ctx, c.ledger.Store.MarkedRejected, rejectedMarksSQL); err != nil {
		return err
	}
	if n > 0 {
		c.find(6, MarkedWithoutRejection, n, "%d users are answered REJECTED though nobody has rejected them", n)
	}
	return nil
}

// countUnfounded counts the marks without a row in MySQL. Redis may return a mark twice, which counts twice.
func (c *check) countUnfounded(ctx context.Context, marked func(ctx context.Context, couponID coupon.CouponID, after uint64) ([]string, uint64, error), query string) (unfounded int64, err error) {
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		members, next, err := marked(ctx, c.Coupon, cursor)
		if err != nil {
			return 0, err
		}
		cursor = next
		users := []byte{'['}
		for _, member := range members {
			user, err := strconv.ParseUint(member, 10, 64)
			if err != nil {
				unfounded++
				continue
			}
			users = append(strconv.AppendUint(users, user, 10), ',')
		}
		if len(users) == 1 {
			continue
		}
		users[len(users)-1] = ']'
		n, err := c.number(ctx, query, string(users), c.Coupon)
		if err != nil {
			return 0, err
		}
		unfounded += n
	}
	return unfounded, nil
}
