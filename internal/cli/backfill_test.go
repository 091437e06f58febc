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
func TestMissedNightsAreSettledInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users(1, 2, 3)
	day := func(n int) time.Time { // noon of so many days ago
		y, m, d := w.now().In(jajeongtest.Zone).Date()
		return time.Date(y, m, d-n, 12, 0, 0, 0, jajeongtest.Zone)
	}
	held := w.couponBetween(5, day(9), day(-1))
	couponID := w.couponBetween(5, day(9), day(-1))
	w.stand(held, "1", day(4))
	w.stand(couponID, "1", day(4))
	w.stand(couponID, "2", day(3))
	w.stand(couponID, "3", day(2))
	w.d().AddPromises(held, 1) // one application is lost

	date := func(n int) string { return day(n).Format(time.DateOnly) }
	code, stdout, stderr := w.settle("run", "--from="+date(4), "--to="+date(2), "--operator=kim", "--reason=missed", "--output=json")
	require.Equal(t, 3, code, stderr)
	var done struct{ Nights []settle.Report }
	require.NoError(t, json.Unmarshal([]byte(stdout), &done), "one document")
	require.Len(t, done.Nights, 3)
	for n, night := range done.Nights {
		require.True(t, calendar.NextCutoff(day(4-n), jajeongtest.Zone).Equal(night.Cutoff))
		require.Equal(t, coupon.HeldBack, night.Coupons[0].Status)
		require.Equal(t, 1, night.Coupons[1].Issued)
	}
	require.Equal(t, []coupon.UserID{1, 2, 3}, w.issued(couponID))
	require.Empty(t, w.issued(held))

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

func TestABackfillEndsWhereMySQLIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users(1)
	day := func(n int) time.Time { return w.now().In(jajeongtest.Zone).AddDate(0, 0, -n) }
	w.couponBetween(5, day(9), day(1))
	w.refresh() // so that the catalog knows it, and there is a report
	w.servers[0] = "--mysql-dsn=root@tcp(127.0.0.1:1)/x"
	code, stdout, stderr := w.settle("run", "--from="+day(4).Format(time.DateOnly), "--to="+day(2).Format(time.DateOnly), "--operator=kim", "--reason=missed", "--output=json")
	require.Equal(t, exitInfrastructure, code)
	var done struct{ Nights []settle.Report }
	require.NoError(t, json.Unmarshal([]byte(stdout), &done), "%s%s", stdout, stderr)
	require.Len(t, done.Nights, 1)
	require.Contains(t, stderr, "connect to mysql")
	require.Contains(t, stderr, text.AdviseRunAgain.In(text.English))
}

func TestANightThatIsNotOverIsRefusedBeforeTheFirstIsSettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users(1)
	today := w.now().In(jajeongtest.Zone)
	couponID := w.couponBetween(5, today.AddDate(0, 0, -9), today.AddDate(0, 0, 3))
	w.stand(couponID, "1", today.AddDate(0, 0, -2))
	to := today.AddDate(0, 0, 1).Format(time.DateOnly) // also when midnight strikes meanwhile
	for _, output := range []string{"table", "json"} {
		code, stdout, stderr := w.settle("run", "--from="+today.AddDate(0, 0, -2).Format(time.DateOnly), "--to="+to, "--operator=kim", "--reason=x", "--output="+output)
		require.Equal(t, exitUse, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "--to="+to+" is not over")
	}
	require.Empty(t, w.issued(couponID))
	require.Empty(t, w.ids("SELECT id FROM settlement_run"))
}

func TestAManualRunIsAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users(1, 2)
	couponID := w.coupon(1)
	w.apply(couponID, 1, 2)
	report := w.settleNow()
	require.Equal(t, 1, report.Total.Issued)
	w.settleNow() // nothing is left to do
	var actor, reason, detail string
	require.NoError(t, w.db.QueryRow("SELECT actor, reason, detail FROM audit_event WHERE coupon_id = ? AND action = 'SETTLED_BY_HAND'", couponID).Scan(&actor, &reason, &detail))
	require.Equal(t, []string{"kim", "test"}, []string{actor, reason})
	require.Contains(t, detail, "issued 1, "+report.Coupons[0].WinnersDigest)
	require.Equal(t, []uint64{1}, w.ids("SELECT COUNT(*) FROM audit_event WHERE coupon_id = ?", couponID))
	w.verify()
}

func TestAManualRunThatIssuesNothingIsAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users(1, 2)
	for name, c := range map[string]struct {
		member string
		seats  int
		want   settle.Result
	}{
		"not selected": {"2", 1, settle.Result{Counts: settle.Counts{NotSelected: 1}}},
		"under review": {"99", 2, settle.Result{Counts: settle.Counts{UnderReview: 1}}}, // there is no such user
	} {
		couponID := w.coupon(c.seats)
		w.apply(couponID, 1)
		only := fmt.Sprintf("--coupon=%d", couponID)
		w.settleNow(only)
		w.stand(couponID, c.member, w.now())
		report := w.settleNow(only, "--operator=lee", "--reason=TICKET-7")
		done := report.Coupons[0]
		require.Equal(t, c.want, settle.Result{Counts: settle.Counts{Issued: done.Issued, NotSelected: done.NotSelected, UnderReview: done.UnderReview}}, name)
		var detail string
		require.NoError(t, w.db.QueryRow("SELECT detail FROM audit_event WHERE coupon_id = ? AND action = 'SETTLED_BY_HAND' AND actor = 'lee' AND reason = 'TICKET-7' AND run_id = ?",
			couponID, report.Run).Scan(&detail), name)
		require.Contains(t, detail, "nothing issued")
		require.Equal(t, []uint64{2}, w.ids("SELECT COUNT(*) FROM audit_event WHERE coupon_id = ?", couponID), "once for each run")
	}
}

func TestAnEmptyListOfWinnersCanBeApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users(1)
	w.exec("UPDATE `user` SET status = 'BLOCKED'")
	couponID := w.coupon(1)
	w.apply(couponID, 1)
	cutoff := "--cutoff=" + w.now().Format(time.RFC3339Nano)
	preview := w.settleNow("--dry-run", "--coupon=1", cutoff)
	const nobody = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	require.Equal(t, nobody, preview.Coupons[0].Preview.Digest)

	w.exec("UPDATE `user` SET status = 'ACTIVE'")
	approved := []string{"run", "--coupon=1", cutoff, "--operator=kim", "--reason=x", "--expect-digest=" + nobody}
	code, _, stderr := w.settle(approved...)
	require.Equal(t, 3, code)
	require.Contains(t, stderr, "not the approved "+nobody)
	require.Empty(t, w.issued(couponID))
	w.exec("UPDATE `user` SET status = 'BLOCKED'")
	code, _, stderr = w.settle(approved...)
	require.Zero(t, code, stderr)
}

// The DLQ has the application when the run walks the rest.
func TestAnUnselectedApplicationWithARefusedRowIsReadOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuseOddUsers()
	w.users(1, 2, 3)
	couponID := w.coupon(1)
	w.apply(couponID, 1, 2, 3)
	w.settleNow()
	require.Equal(t, []coupon.UserID{2, 3}, w.outcome(couponID, "NOT_SELECTED"))
	w.exec("INSERT INTO odd_user (id) VALUES (2)")
	w.exec("UPDATE coupon SET total_quantity = 3")
	preview, run := w.settleNow("--dry-run").Coupons[0], w.settleNow().Coupons[0]
	require.Equal(t, []int{1, 1, 2}, []int{run.Issued, run.UnderReview, run.Read})
	require.Equal(t, preview.Read, run.Read)
	require.Contains(t, w.underReview(couponID), "2")
	w.verify()
}

func TestCanariesOfARetryableCauseAreTriedAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuseOddUsers()
	w.users(1, 3, 5)
	w.exec("INSERT INTO odd_user (id) VALUES (1), (3), (5)")
	couponID := w.coupon(10)
	w.apply(couponID, 1, 3, 5)
	w.settleNow()
	require.Empty(t, w.issued(couponID))
	retry := []string{"dlq", "retry", "--coupon=1", "--cause=BAD_ROW", "--canary=1", "--cutoff=now", "--operator=kim", "--reason=x", "--output=json"}
	runs := func(stdout string) int {
		var done retried
		require.NoError(t, json.Unmarshal([]byte(stdout), &done), "one document: %s", stdout)
		return len(done.Runs)
	}
	code, stdout, stderr := w.settle(retry...)
	require.Equal(t, 1, code, stderr)
	require.Equal(t, 1, runs(stdout))
	require.Equal(t, []int{2, 1, 1}, []int{w.reason(couponID, "1").Attempts, w.reason(couponID, "3").Attempts, w.reason(couponID, "5").Attempts}, "the others were not tried")
	w.exec("DELETE FROM odd_user")
	code, stdout, stderr = w.settle(retry...)
	require.Zero(t, code, stderr)
	require.Equal(t, 2, runs(stdout))
	require.Equal(t, []coupon.UserID{1, 3, 5}, w.issued(couponID))
	w.verify()
}
