package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/calendar"
)

func TestGoldenVerify(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "verify", func(w *world) {
		w.AddUsers(between(1, 4)...)
		w.AddCoupon(2)
		w.AddCoupon(3)
		require.NoError(w.T, w.Audit(audit.Origin{At: w.Now().UTC(), Actor: "park", Reason: "MKT-1"},
			audit.CouponCreated, 1, audit.Entry{}))
		w.Apply(1, 1, 2, 3)
		w.SettleNow()
		w.Apply(2, 4)
		w.Journal(2)
	}, func(s *spoken) {
		s.says("verify")
		s.says("verify", "--coupon=1", "--output=json")
		s.Exec("UPDATE audit_event SET reason = 'for a friend' WHERE coupon_id = 1")
		s.Exec("INSERT INTO audit_event (account, actor, action) VALUES ('', 'eve', 'GAP_ACCEPTED')")
		s.Exec("INSERT INTO audit_event (account, actor, action, coupon_id) VALUES ('', 'eve', 'GAP_ACCEPTED', 9)")
		s.Exec("UPDATE coupon SET issued_count = 1 WHERE id = 1")
		require.NoError(s.T, s.Redis.ZRem(s.T.Context(), s.Queue(2), 4).Err())
		s.AddQueue(1, 5)
		s.Exec("DELETE FROM coupon WHERE id = 3")
		s.says("verify")
		s.saysOnTerminal(nil, "verify", "--coupon=2")
		s.says("verify", "--coupon=8")
		s.says("verify", "--coupon=eight", "--colour")
	})
}

func TestGoldenMigrate(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "migrate", func(w *world) {
		w.Exec("DROP TABLE settled")
		w.Exec("DELETE FROM jajeong_db_version WHERE version_id = 1")
	}, func(s *spoken) {
		s.servers[0] = "--mysql-dsn=" + s.Accounts["jajeong_migrate"]
		s.says("migrate")
		s.says("migrate")
		s.says("migrate", "--now")
		s.Exec("ALTER TABLE jajeong_db_version COMMENT 'of another text'")
		s.says("migrate")
	})
}

// Log lines are the same in both languages.
func TestGoldenServe(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "serve", func(w *world) {
		midnight := calendar.DefaultCutoff(w.Now(), w.atNoon())
		w.AddCouponBetween(2, midnight.Add(-time.Hour), midnight.Add(96*time.Hour))
		w.AddUsers(1)
		w.ApplyAt(1, "1", midnight.Add(-time.Minute))
	}, func(s *spoken) {
		s.saysUntilStopped("waiting for the next night", "serve", "--tasks=nights")
		s.saysUntilStopped("waiting for the next night", "serve", "--settle-schedule=30 4 * * *")
		s.servers = s.Flags(s.Job) // without a time zone
		s.says("serve", "--settle-schedule=at midnight", "--parallel=99")
		s.says("serve", "--tasks=nights,gather,nights", "--journal-rows-per-second=1", "--issue-interval=10ms",
			"--admin-listen=nowhere")
	})
}

func TestOutput_ColoursTerminalsOnly(t *testing.T) {
	t.Parallel()
	s := &spoken{world: newWorld(t), lang: "C.UTF-8", cols: 200}
	s.AddCoupon(2)
	s.Exec("UPDATE coupon SET issued_count = 1")
	const red = "\x1b[31mVIOLATED"
	for environment, coloured := range map[string]bool{"": true, "NO_COLOR=": true, "NO_COLOR=1": false,
		"NO_COLOR=0": false, "TERM=dumb": false} {
		said, code := s.onTerminal([]string{environment}, nil, "verify")
		require.Equal(t, exitInvariant, code)
		require.Contains(t, said, "VIOLATED")
		require.Equal(t, coloured, strings.Contains(said, red), "%q: %q", environment, said)
	}
	code, stdout, _ := s.settle("verify")
	require.Equal(t, exitInvariant, code)
	require.Contains(t, stdout, "VIOLATED")
	require.NotContains(t, stdout, "\x1b", fmt.Sprint("in a pipe: ", stdout))
}
