package ledger

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/jajeong/jajeong/internal/coupon"
)

// markedUsers counts the users of one page of marks without a row.
const markedUsers = "SELECT COUNT(*) FROM JSON_TABLE(?, '$[*]' COLUMNS (user_id BIGINT UNSIGNED PATH '$')) AS j WHERE NOT EXISTS "

const (
	issuedMarksSQL   = markedUsers + "(SELECT 1 FROM user_coupon c WHERE c.coupon_id = ? AND c.user_id = j.user_id)"
	rejectedMarksSQL = markedUsers + "(SELECT 1 FROM application_outcome o WHERE o.coupon_id = ? AND o.user_id = j.user_id AND o.outcome = 'REJECTED')"
)

// checkMarks: invariant 6. Every mark in Redis has its row in MySQL, because marks are set after the commit.
func (c *check) checkMarks(ctx context.Context) error {
	n, err := c.countUnfounded(ctx, c.ledger.Store.MarkedIssued, issuedMarksSQL)
	if err != nil {
		return err
	}
	c.findAny(6, MarkedWithoutCoupon, n, "Redis answers ALREADY_ISSUED to %d user{|s} without the coupon")
	n, err = c.countUnfounded(ctx, c.ledger.Store.MarkedRejected, rejectedMarksSQL)
	c.findAny(6, MarkedWithoutRejection, n, "Redis answers REJECTED to %d user{|s} without a REJECTED outcome")
	return err
}

// countUnfounded counts the marks without a row in MySQL. A mark that Redis returns twice counts twice.
func (c *check) countUnfounded(ctx context.Context, marked func(ctx context.Context, couponID coupon.CouponID, after uint64) ([]string, uint64, error), query string) (unfounded int64, err error) {
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		members, next, err := marked(ctx, c.Coupon, cursor)
		if err != nil {
			return 0, err
		}
		cursor = next
		users := []coupon.UserID{}
		for _, member := range members {
			user, err := strconv.ParseUint(member, 10, 64)
			if err != nil {
				unfounded++
				continue
			}
			users = append(users, coupon.UserID(user))
		}
		n, err := c.number(ctx, query, jsonArray(users), c.Coupon)
		if err != nil {
			return 0, err
		}
		unfounded += n
	}
	return unfounded, nil
}

// jsonArray is ids for a JSON_TABLE.
func jsonArray[ID coupon.CouponID | coupon.UserID](ids []ID) string {
	text, _ := json.Marshal(ids) // never fails
	return string(text)
}
