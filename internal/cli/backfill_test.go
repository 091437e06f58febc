package cli

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/text"
)

// Each missed night has a run of its own. A coupon that is held back delays no other coupon and no other night.
func TestBackfill_SettlesNightsInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1, 2, 3)
	zone := w.atNoon()
	y, m, d := w.Now().In(zone).Date()
	day := func(n int) time.Time { return time.Date(y, m, d-n, 12, 0, 0, 0, zone) } // noon of so many days ago
	held := w.AddCouponBetween(5, day(9), day(-1))
	couponID := w.AddCouponBetween(5, day(9), day(-1))
	w.ApplyAt(held, "1", day(4))
	w.ApplyAt(couponID, "1", day(4))
	w.ApplyAt(couponID, "2", day(3))
	w.ApplyAt(couponID, "3", day(2))
	w.AddPromises(held, 1) // one application is lost

	date := func(n int) string { return day(n).Format(time.DateOnly) }
	code, stdout, stderr := w.settle("run", "--from="+date(4), "--to="+date(2), "--operator=kim", "--reason=missed", "--output=json")
	require.Equal(t, 3, code, stderr)
	var done struct{ Nights []settle.Report }
	require.NoError(t, json.Unmarshal([]byte(stdout), &done), "one document")
	require.Len(t, done.Nights, 3)
	for n, night := range done.Nights {
		require.True(t, calendar.NextCutoff(day(4-n), zone).Equal(night.Cutoff))
		require.Equal(t, coupon.HeldBack, night.Coupons[0].Status)
		require.Equal(t, 1, night.Coupons[1].Issued)
	}
	require.Equal(t, []coupon.UserID{1, 2, 3}, w.Issued(couponID))
	require.Empty(t, w.Issued(held))

	for want, args := range map[string][]string{
		"--from and --to belong together": {"--from=2026-11-20"},
		"is after":                        {"--from=2026-11-20", "--to=2026-11-19"},
		"more than 366 nights":            {"--from=2020-01-01", "--to=2026-11-19"},
		"--dry-run shows one night":       {"--from=2026-11-18", "--to=2026-11-19", "--dry-run"},
	} {
		code, _, stderr := w.settle(append([]string{"run", "--operator=kim", "--reason=x"}, args...)...)
		require.Equal(t, 2, code)
		require.Contains(t, stderr, want)
	}
}

func TestBackfill_StopsWhenMySQLIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1)
	now := w.Now().In(jajeongtest.Zone)
	day := func(n int) time.Time { return now.AddDate(0, 0, -n) }
	w.AddCouponBetween(5, day(9), day(1))
	w.Refresh() // so that the catalog knows it, and there is a report
	w.servers[0] = "--mysql-dsn=root@tcp(127.0.0.1:1)/x"
	code, stdout, stderr := w.settle("run", "--from="+day(4).Format(time.DateOnly), "--to="+day(2).Format(time.DateOnly), "--operator=kim", "--reason=missed", "--output=json")
	require.Equal(t, exitInfrastructure, code)
	var done struct{ Nights []settle.Report }
	require.NoError(t, json.Unmarshal([]byte(stdout), &done), "%s%s", stdout, stderr)
	require.Len(t, done.Nights, 1)
	require.Contains(t, stderr, "connect to mysql")
	require.Contains(t, stderr, text.AdviseRunAgain.In(text.English))
}

func TestBackfill_RefusesNightThatIsNotOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1)
	today := w.Now().In(jajeongtest.Zone)
	couponID := w.AddCouponBetween(5, today.AddDate(0, 0, -9), today.AddDate(0, 0, 3))
	w.ApplyAt(couponID, "1", today.AddDate(0, 0, -2))
	to := today.AddDate(0, 0, 1).Format(time.DateOnly) // also when midnight strikes meanwhile
	code, stdout, stderr := w.settle("run", "--from="+today.AddDate(0, 0, -2).Format(time.DateOnly), "--to="+to, "--operator=kim", "--reason=x", "--output=json")
	require.Equal(t, exitUse, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "--to="+to+" is not over")
	require.Empty(t, w.Issued(couponID))
	require.Empty(t, w.IDs("SELECT id FROM settlement_run"))
}

func TestRun_AuditsManualRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1, 2)
	for _, member := range []string{"2", "99"} { // NOT_SELECTED and unknown
		couponID := w.AddCoupon(1)
		w.Apply(couponID, 1)
		only := fmt.Sprintf("--coupon=%d", couponID)
		digest := w.settleNow(only).Coupons[0].WinnersDigest
		w.settleNow(only) // changes nothing
		w.ApplyAt(couponID, member, w.Now())
		w.settleNow(only, "--operator=lee", "--reason=TICKET-7")
		events := jajeongtest.Column[string](w.Deployment,
			"SELECT CONCAT_WS('; ', actor, reason, detail) FROM audit_event WHERE coupon_id = ? AND action = 'SETTLED_BY_HAND' ORDER BY id", couponID)
		require.Len(t, events, 2)
		require.Regexp(t, "^kim; test; .*\"issued\":1,\"digest\":\""+digest, events[0])
		require.Regexp(t, "^lee; TICKET-7; .*\"issued\":0,\"digest\":\"sha256:[0-9a-f]+\"}$", events[1])
	}
	w.verify()
}

func TestRun_AcceptsDigestOfNoWinners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1)
	w.Exec("UPDATE `user` SET status = 'BLOCKED'")
	couponID := w.AddCoupon(1)
	w.Apply(couponID, 1)
	cutoff := "--cutoff=" + w.Now().Format(time.RFC3339Nano)
	preview := w.settleNow("--dry-run", "--coupon=1", cutoff)
	const nobody = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	require.Equal(t, nobody, preview.Coupons[0].Preview.Digest)

	w.Exec("UPDATE `user` SET status = 'ACTIVE'")
	approved := []string{"run", "--coupon=1", cutoff, "--operator=kim", "--reason=x", "--expect-digest=" + nobody}
	code, _, stderr := w.settle(approved...)
	require.Equal(t, 3, code)
	require.Contains(t, stderr, "not the approved "+nobody)
	require.Empty(t, w.Issued(couponID))
	w.Exec("UPDATE `user` SET status = 'BLOCKED'")
	code, _, stderr = w.settle(approved...)
	require.Zero(t, code, stderr)
}

// The DLQ has the application when the run walks the rest.
func TestRun_ReadsUnselectedApplicationWithRefusedRowOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.RefuseOddUsers()
	couponID := w.AddQueue(1, 1, 2, 3)
	w.SettleNow()
	require.Equal(t, []coupon.UserID{2, 3}, w.Outcome(couponID, "NOT_SELECTED"))
	w.Exec("INSERT INTO odd_user (id) VALUES (2)")
	w.SetSeats(couponID, 3)
	preview, run := w.settleNow("--dry-run").Coupons[0], w.SettleNow().Coupons[0]
	require.Equal(t, []int{1, 1, 2}, []int{run.Issued, run.UnderReview, run.Read})
	require.Equal(t, preview.Read, run.Read)
	require.Contains(t, w.UnderReview(couponID), "2")
	w.verify()
}
