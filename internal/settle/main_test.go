package settle_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// between are the users from first to last.
func between(first, last coupon.UserID) []coupon.UserID { return jajeongtest.Between(first, last) }

// results are all that became of a coupon's applications: users by outcome, and members in Redis.
type results struct {
	issued, notSelected, alreadyIssued, rejected []coupon.UserID
	waiting, review                              []string
}

// requireResults demands these results and no others.
func requireResults(d *jajeongtest.Deployment, id coupon.CouponID, want results, message ...any) {
	d.T.Helper()
	found := results{
		d.Issued(id), d.Outcome(id, "NOT_SELECTED"), d.Outcome(id, "ALREADY_ISSUED"), d.Outcome(id, "REJECTED"),
		d.Waiting(id), slices.Sorted(maps.Keys(d.UnderReview(id))),
	}
	require.Equal(d.T, fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", found), message...)
}

// requireSettled demands these results, and every invariant of the coupon.
func requireSettled(d *jajeongtest.Deployment, id coupon.CouponID, want results, message ...any) {
	d.T.Helper()
	requireResults(d, id, want, message...)
	d.Verify(id)
}
