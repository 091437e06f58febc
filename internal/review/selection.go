package review

import (
	"slices"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
)

// Selection chooses DLQ entries. An empty field does not restrict.
type Selection struct {
	Coupons []coupon.CouponID
	Users   []string // as the DLQ has them
	Causes  []string
}

// Has reports whether an entry of one of the coupons is chosen.
func (s Selection) Has(e history.DLQEntry) bool {
	return (len(s.Users) == 0 || slices.Contains(s.Users, e.User)) && (len(s.Causes) == 0 || slices.Contains(s.Causes, e.Cause))
}

// Users are the users of entries.
func Users(entries []history.DLQEntry) []string {
	users := make([]string, len(entries))
	for i, e := range entries {
		users[i] = e.User
	}
	return users
}
