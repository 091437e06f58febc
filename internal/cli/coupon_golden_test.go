package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
)

func TestGoldenCoupon(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "coupon", func(w *world) {
		w.AddUsers(between(1, 4)...)
	}, func(s *spoken) {
		person := []string{"--operator=park", "--reason=TICKET-9"}
		at := func(d time.Duration) string { return s.Now().Add(d).UTC().Format(time.RFC3339) }
		does := func(args ...string) { s.says(append(append([]string{"coupon"}, args...), person...)...) }
		s.says("coupon", "list")
		does("create", "--name=블랙 프라이데이", "--seats=2", "--opens="+at(-time.Hour), "--closes="+at(time.Hour),
			"--discount-won=5000")
		does("create", "--name=다음 회차", "--seats=100", "--opens="+at(24*time.Hour), "--closes="+at(48*time.Hour),
			"--output=json")
		does("create", "--name=지난 회차", "--seats=1", "--opens="+at(-time.Hour), "--closes="+at(-time.Minute))
		does("create", "--name=", "--seats=0", "--opens=noon", "--closes="+at(time.Hour), "--validity-days=40000")
		s.says("coupon", "list")
		s.Refresh()
		s.Apply(1, 1, 2, 3, 99, 4)
		does("pause", "1")
		does("pause", "1")
		does("resume", "1")
		does("extend", "1", "--closes="+at(2*time.Hour))
		does("extend", "1", "--closes="+at(time.Minute))
		does("change", "2", "--name=2차", "--seats=120", "--discount-percent=10", "--discount-max-won=3000", "--dry-run")
		does("change", "2", "--name=2차", "--seats=120", "--discount-percent=10", "--discount-max-won=3000")
		does("change", "2", "--name=2차", "--seats=120")
		does("change", "2", "--name=", "--opens="+at(time.Minute))
		does("change", "1", "--seats=5")
		does("change", "1")
		does("close", "2")
		does("pause", "2")
		does("resume", "2")
		does("close", "1")
		does("close", "1")
		s.says(append([]string{"run", "--coupon=1", "--cutoff=now"}, person...)...)
		does("add-seats", "1", "--total=1")
		does("add-seats", "1", "--seats=1")
		s.says("coupon", "show", "1")
		s.says(append([]string{"run", "--coupon=1", "--cutoff=now"}, person...)...)
		does("add-seats", "1", "--seats=1", "--output=json")
		s.says("coupon", "list", "--status=closed")
		s.says("coupon", "show", "7")
		s.says("coupon", "close", "1")
	})
}

// Each change says what new applications are answered.
func TestGoldenAnswers(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "answers", func(w *world) {
		w.AddQueue(1, 1)
		w.SettleNow()
		w.AddCoupon(1)
	}, func(s *spoken) {
		does := func(verb string, more ...string) {
			s.says(append([]string{"coupon", verb, "1", "--operator=park", "--reason=TICKET-9"}, more...)...)
		}
		later := func(d time.Duration) string { return "--closes=" + s.Now().Add(d).UTC().Format(time.RFC3339) }
		does("pause")
		does("resume")
		does("close")
		does("extend", later(time.Hour))
		does("add-seats", "--seats=1")
		require.Equal(t, candidates.SoldOut, s.Answer(1, 2))
		does("pause")
		does("extend", later(2*time.Hour))
		does("resume")
		does("resume", "--output=json")
		s.SettleNow()
		require.Equal(t, candidates.Accepted, s.Answer(1, 2))
		does("add-seats", "--seats=1")
		does("pause")
		does("resume")
		does("pause")
		does("close")
		does("resume")
		s.servers[1] = "--redis-addrs=" + nowhere // what MySQL has recorded, Redis may not know
		does("pause")
		does("close")
		does("add-seats", "--seats=1")
		s.says("coupon", "show", "2")
		s.says("dlq", "list")
	})
}

func TestGoldenDLQ(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "dlq", func(w *world) {
		w.AddUsers(between(1, 5)...)
		w.Exec("UPDATE `user` SET status = 'BLOCKED' WHERE id < 4")
		w.AddCoupon(2)
		w.Apply(1, 1, 2, 98, 4, 5, 3, 99)
	}, func(s *spoken) {
		person := []string{"--operator=lee", "--reason=TICKET-7"}
		decides := func(args ...string) { s.says(append(append([]string{"dlq"}, args...), person...)...) }
		s.says("dlq", "list")
		s.SettleNow()
		s.says("dlq", "list")
		s.says("dlq", "list", "--user=98")
		s.says("dlq", "list", "--output=csv")
		s.says("dlq", "list", "--list", "--output=csv", "--cause=UNKNOWN_USER")
		s.Exec("UPDATE `user` SET status = 'ACTIVE' WHERE id <> 2")
		decides("retry", "--coupon=1", "--cause=INACTIVE_USER", "--canary=1", "--cutoff=now")
		s.Exec("UPDATE coupon SET total_quantity = 3")
		decides("retry", "--coupon=1", "--cause=INACTIVE_USER", "--canary=1", "--cutoff=now")
		decides("drop", "--coupon=1", "--cause=UNKNOWN_USER")
		s.saysOnTerminal([]string{"n"}, append([]string{"dlq", "drop", "--coupon=1", "--cause=UNKNOWN_USER"},
			person...)...)
		s.saysOnTerminal([]string{"y"}, append([]string{"dlq", "drop", "--coupon=1", "--cause=UNKNOWN_USER"},
			person...)...)
		decides("drop", "--coupon=1", "--cause=UNKNOWN_USER")
		decides("retry", "--coupon=1", "--user=77")
		s.says("dlq", "drop", "--coupon=1")
		s.says("dlq", "list", "--list")
	})
}

// On a terminal of 80 columns, a table that does not fit has a line for each value.
func TestGoldenNarrow(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "narrow", func(w *world) {
		w.AddQueue(1, 1)
		w.SettleNow()
	}, func(s *spoken) {
		s.cols = 80
		s.saysOnTerminal(nil, "coupon", "list")
		s.saysOnTerminal(nil, "coupon", "show", "1")
		s.saysOnTerminal(nil, "coupon", "winners", "1")
		s.saysOnTerminal(nil, "user", "show", "--user=1")
	})
}
