package cli

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Free seats go by issued_count: where it is not the number of coupons there are, nobody is issued one until somebody has
// looked, and whoever comes first still gets the seats that are really free.
func TestACountThatIsNotTheCouponsHoldsTheCoupon(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		do             string // to a coupon of 10 seats of which 4 are issued
		counted, found int
		seats          int // to add before the count can be made right
		free           int
	}{
		"count set to 0":                      {"UPDATE coupon SET issued_count = 0 WHERE id = ?", 0, 4, 0, 6},
		"counted too high":                    {"UPDATE coupon SET issued_count = 9 WHERE id = ?", 9, 4, 0, 6},
		"a coupon given by hand, uncounted":   {"INSERT INTO user_coupon (coupon_id, user_id) VALUES (?, 50)", 4, 5, 0, 5},
		"coupons taken away, still counted":   {"DELETE FROM user_coupon WHERE coupon_id = ? AND run_id IS NULL", 5, 4, 0, 6},
		"more coupons by hand than seats":     {"INSERT INTO user_coupon (coupon_id, user_id) SELECT ?, id FROM `user` WHERE id BETWEEN 41 AND 50", 4, 14, 5, 1},
		"fewer seats than coupons, uncounted": {"UPDATE coupon SET issued_count = 0, total_quantity = 2 WHERE id = ?", 0, 4, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			couponID := w.coupon(10)
			w.users(between(1, 60)...)
			w.apply(couponID, between(1, 4)...)
			w.settleNow()
			if test.counted == 5 {
				w.exec("INSERT INTO user_coupon (coupon_id, user_id) VALUES (?, 50)", couponID)
				w.exec("UPDATE coupon SET issued_count = 5")
			}
			w.exec(test.do, couponID)
			held := w.issued(couponID)
			w.apply(couponID, between(11, 25)...)

			code, report := w.settleNowCode("--accept-gap")
			require.Equal(t, 3, code)
			require.Equal(t, coupon.HeldBack, report.Coupons[0].Status)
			for _, said := range []string{fmt.Sprintf(" is %d,", test.counted), fmt.Sprintf("there are %d", test.found), fmt.Sprintf("settle coupon recount %d ", couponID)} {
				require.Contains(t, report.Coupons[0].Error, said)
			}
			code, _ = w.verifyCode()
			require.Equal(t, 3, code)
			code, _, korean := w.settle("run", "--coupon="+fmt.Sprint(couponID), "--cutoff=now", "--dry-run", "--lang=ko", "--output=json")
			require.Equal(t, 3, code, "a preview says so, too")
			require.NotContains(t, korean, "%!")
			require.Equal(t, held, w.issued(couponID), "nothing was issued")
			require.EqualValues(t, 15, len(w.waiting(couponID)))
			require.EqualValues(t, 1, w.ids("SELECT COUNT(*) FROM audit_event WHERE action = 'COUNT_HELD' AND actor = 'kim'")[0])

			asKim := []string{"--operator=kim", "--reason=INC-3"}
			recount := append([]string{"coupon", "recount", fmt.Sprint(couponID)}, asKim...)
			if test.seats > 0 {
				code, _, stderr := w.settle(recount...)
				require.Equal(t, 2, code)
				require.Contains(t, stderr, "add-seats")
				code, _, stderr = w.settle(append([]string{"coupon", "add-seats", fmt.Sprint(couponID), fmt.Sprintf("--seats=%d", test.seats)}, asKim...)...)
				require.Zero(t, code, stderr)
			}
			code, stdout, stderr := w.settle(recount...)
			require.Zero(t, code, stderr)
			require.Contains(t, stdout, fmt.Sprintf("%d issued (before: %d)", test.found, test.counted))
			code, stdout, stderr = w.settle(recount...)
			require.Zero(t, code, stderr)
			require.Contains(t, stdout, "nothing was changed")

			w.settleNow()
			want := between(11, uint64(10+test.free))
			require.Subset(t, w.issued(couponID), want, "whoever came first")
			require.Len(t, w.issued(couponID), len(held)+test.free)
			w.verify()
		})
	}
}
