package settle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// Other applications are not tried, even with few seats, and each keeps a seat.
func TestRetry_TriesOnlyCanaries(t *testing.T) {
	t.Parallel()
	const refused = 7
	shared, line := jajeongtest.New(t), between(1, refused)
	shared.RefuseOddUsers()
	shared.AddUsers(append(between(1, refused), 60, 61)...)
	for name, c := range map[string]struct {
		seats     int
		unknown   coupon.UserID // number of held entries of unknown users
		newcomers []coupon.UserID
		late      []string        // of the newcomers: still waiting after the canary
		issued    []coupon.UserID // in the end, when the rows of the first three are accepted
	}{
		"held entries take no seat": {seats: 10, unknown: 5, issued: between(1, 3)},
		"a seat for each of them": {seats: 6, newcomers: []coupon.UserID{60}, late: []string{"60"},
			issued: append(between(1, 3), 60)},
		"fewer seats than of them": {seats: 2, newcomers: []coupon.UserID{60}, late: []string{"60"},
			issued: between(1, 2)},
		"the canary's for newcomers": {seats: 7, newcomers: []coupon.UserID{60, 61}, late: []string{"61"},
			issued: []coupon.UserID{60, 1, 2, 3, 61}},
	} {
		t.Run(name, func(t *testing.T) {
			d := shared.For(t)
			d.Exec("REPLACE INTO odd_user (id) SELECT id FROM `user` WHERE id <= ?", refused)
			couponID := d.AddCoupon(c.seats)
			d.Apply(couponID, line...)
			d.Apply(couponID, between(1000, 999+c.unknown)...)
			d.SettleNow(couponID)
			d.Apply(couponID, c.newcomers...)
			attempts := func() (all []int) {
				for _, user := range line {
					all = append(all, d.Reason(couponID, fmt.Sprint(user)).Attempts)
				}
				return all
			}
			want := make([]int, refused)
			for i := range want {
				want[i] = 1
			}
			require.Equal(t, want, attempts())

			order := jajeongtest.Manual()
			order.Canaries = []string{"1"}
			d.RetryAs(order, couponID, "1")
			want[0] = 2
			require.Equal(t, want, attempts())
			require.Equal(t, append([]string{}, c.late...), d.Waiting(couponID), "the seats before them are kept")
			d.Verify(couponID)

			d.Exec("DELETE FROM odd_user WHERE id < 4")
			d.RetryAs(order, couponID, "1")
			d.Retry(couponID, strings.Fields(strings.Trim(fmt.Sprint(line[1:]), "[]"))...)
			require.Equal(t, c.issued, d.Issued(couponID))
			d.Verify(couponID)
		})
	}
}
