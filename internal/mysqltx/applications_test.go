package mysqltx

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"
)

func TestByUserSortsByUserID(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		users := rapid.OneOf(rapid.Uint64Range(0, 10), rapid.Uint64Range(2000, 2100), rapid.Uint64())
		page := make([]coupon.Application, rapid.IntRange(0, 50).Draw(t, "n"))
		want := make([]int, len(page))
		for i := range page {
			page[i].Member, want[i] = coupon.UserID(users.Draw(t, "user")).Member(), i
		}
		if len(page) > 0 {
			page[0].Member = "no user" // sorted as user 0
		}
		slices.SortStableFunc(want, func(a, b int) int { return cmp.Compare(page[a].User(), page[b].User()) })
		require.Equal(t, want, ByUser(page))
	})
}
