package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/wallet"
)

// A coupon goes through everything that can happen to it. The story tells each step once, in order.
func TestGoldenStory(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "story", func(w *world) {
		now := w.Now()
		w.AddUsers(between(1, 9)...)
		w.AddCouponBetween(2, now.Add(-time.Hour), now.Add(48*time.Hour))
		w.Exec("UPDATE coupon SET discount_won = 5000")
		w.Apply(1, 1, 2, 3)
		w.SettleNow()
	}, func(s *spoken) {
		says := func(user string, more ...string) {
			s.says(append([]string{"explain", "--coupon=1", "--user=" + user}, more...)...)
		}
		calls := func(order string, verbs ...wallet.Verb) {
			require.Equal(s.T, wallet.Done, s.checkout(1, 1, order, verbs...))
		}
		acts := func(verb, user, reason string, more ...string) {
			args := append([]string{"coupon", verb, "1", "--user=" + user, "--operator=kim", "--reason=" + reason},
				more...)
			succeeds(s.T)(s.settle(args...))
		}
		expires := func(user int) {
			s.Exec("UPDATE user_coupon SET expires_at = UTC_TIMESTAMP(6) WHERE user_id = ?",
				user)
		}
		later := "--until=" + s.Now().AddDate(0, 2, 0).Format(time.DateOnly)

		calls("A-1", wallet.Reserve)
		says("1")
		s.Exec("UPDATE coupon_order SET reserved_until = UTC_TIMESTAMP(6)")
		says("1") // it ran out
		calls("A-2", wallet.Reserve)
		s.Exec("UPDATE coupon_order SET reserved_until = UTC_TIMESTAMP(6) WHERE order_id = 'A-2'")
		calls("A-2", wallet.Confirm) // the price was promised
		says("1")
		calls("A-2", wallet.Refund)
		says("1")
		calls("A-3", wallet.Reserve, wallet.Release, wallet.Reserve, wallet.Release)
		expires(1)
		says("1")
		says("1", "--output=json")
		acts("extend-user", "1", "C-11: our shop was away", later)
		says("1")
		calls("A-4", wallet.Reserve, wallet.Confirm)
		acts("unuse", "1", "C-16: the order was cancelled")
		says("1")

		acts("revoke", "2", "C-12: bought by a robot")
		acts("reissue", "2", "C-13: it was a person")
		says("2")
		expires(2)
		says("2")

		says("3")
		acts("revoke", "2", "C-14: left the shop", "--free-seat")
		says("2")
		says("3")
		s.SettleNow()
		says("3")
		acts("grant", "4", "C-15: asked for by a manager")
		says("4")
	})
}
