package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/wallet"
)

func TestGoldenHolders(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "holders", func(w *world) {
		w.AddUsers(between(1, 4)...)
		w.SetStatus("BLOCKED", 4)
		w.AddCoupon(1)
		w.Apply(1, 1, 2)
		w.SettleNow()
	}, func(s *spoken) {
		person := func(args ...string) []string {
			return append(append([]string{"coupon"}, args...), "--operator=lee", "--reason=CS-1")
		}
		s.says(person("grant", "1", "--user=3")...)
		s.says(person("grant", "1", "--user=3")...)
		s.says(person("grant", "1", "--user=4")...)
		s.says(person("grant", "1", "--user=9")...)
		s.says(person("extend-user", "1", "--user=1", "--until=2099-12-31")...)
		s.says(person("extend-user", "1", "--user=1", "--until=2099-12-31")...)
		s.says(person("extend-user", "1", "--user=1", "--until=2098-12-31")...)
		s.says(person("extend-user", "1", "--user=1", "--until=tomorrow")...)
		require.Equal(s.T, wallet.Done, s.checkout(1, 1, "A-1", wallet.Reserve, wallet.Confirm))
		s.says(person("grant", "1", "--user=1", "--dry-run")...)
		s.says(person("unuse", "1", "--user=1", "--dry-run")...)
		s.says(person("unuse", "1", "--user=1")...)
		s.says(person("unuse", "1", "--user=1")...)
		s.says(person("revoke", "1", "--user=1")...)
		s.says(person("unuse", "1", "--user=1")...)
		s.says(person("revoke", "1", "--user=1")...)
		s.says(person("revoke", "1", "--user=1", "--free-seat")...)
		s.says(person("reissue", "1", "--user=1")...)
		s.says(person("reissue", "1", "--user=1")...)
		s.says(person("revoke", "1", "--user=1", "--free-seat", "--output=json")...)
		s.says(person("revoke", "1", "--user=8")...)
		s.says(person("revoke", "7", "--user=1")...)
		s.says(person("revoke", "1", "--user=0")...)
		s.says("coupon", "revoke", "1")
		s.says("coupon", "winners", "1")
		s.says("coupon", "winners", "1", "--output=csv")
		s.says("coupon", "winners", "1", "--output=json")
		s.says("coupon", "winners", "7")
		for _, wrong := range [][]string{
			{"--discount-percent=10"}, {"--discount-max-won=500"}, {"--discount-percent=101", "--discount-max-won=500"},
			{"--discount-percent=10", "--discount-max-won=500", "--discount-won=1"}, {"--minimum-won=-1"},
		} {
			s.says(person(append([]string{"create", "--name=x", "--seats=1", "--opens=2099-01-01 00:00",
				"--closes=2099-01-02 00:00"}, wrong...)...)...)
		}
		s.says(person("create", "--name=x", "--seats=1", "--opens=2099-01-01 00:00", "--closes=2099-01-02 00:00",
			"--discount-percent=10",
			"--discount-max-won=5000", "--minimum-won=20000")...)
		s.says("coupon", "show", "2")
		s.says("coupon", "show", "2", "--output=json")
	})
}
