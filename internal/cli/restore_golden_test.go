package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGoldenRestore(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "restore", func(w *world) {
		w.AddQueue(2, 1, 2, 3)
		w.Journal(1)
		w.AddUsers(4)
		w.Apply(1, 4) // after the journal
		w.PodsDie()
		require.NoError(w.T, w.Redis.Del(w.T.Context(), w.Queue(1)).Err())
		w.AddCoupon(2)
		w.Exec("UPDATE coupon SET finalised_at = '2026-01-01' WHERE id = 2")
		w.servers[0] = "--mysql-dsn=" + w.Operator.MySQLDSN
	}, func(s *spoken) {
		person := []string{"--operator=lee", "--reason=INC-9"}
		restores := func(args ...string) []string { return append(append([]string{"restore"}, args...), person...) }
		s.says("restore", "--coupon=1", "--dry-run")
		s.says("restore", "--coupon=1")
		s.says(restores()...)
		s.says(restores("--coupon=1")...)
		s.says(restores("--coupon=1", "--output=json")...)
		s.says("restore", "--coupon=1", "--dry-run", "--output=json")
		s.Exec("UPDATE journal SET accepted = 9 WHERE coupon_id = 1")
		s.AddUsers(5)
		s.Exec("INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (1, 5, 5)") // before the opening
		s.LoseRedis(1)
		s.says(restores("--coupon=1")...)
		s.says("coupon", "show", "1")
		s.says(restores("--coupon=2")...)
		s.says(restores("--coupon=9")...)
		s.says("verify", "--coupon=1")
		s.says("explain", "--coupon=1", "--user=4")
	})
}
