package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/privacy"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/testenv/prometheus"
	"github.com/jajeong/jajeong/internal/wallet"
)

// later is the clock of a purge in tests: everything of today has expired, and 31 days have gone since.
func later() time.Time { return time.Now().AddDate(0, 0, 100) }

// purgeDate is after the expiry of every coupon that is issued today.
func purgeDate() string { return time.Now().AddDate(0, 0, 60).Format(time.DateOnly) }

// purgeAs runs settle purge with the clock of later.
func (w *world) purgeAs(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	all := append([]string{"purge", "--before=" + purgeDate(), "--operator=kim", "--reason=P-2"}, args...)
	code = Run(ctx, Process{Args: append(all, w.asPrivacy().servers...), Stdin: strings.NewReader(""), Stdout: &out,
		Stderr: &errs, Version: "test", Now: later,
		HandOverTime: jajeongtest.HandOverTime})
	return code, out.String(), errs.String()
}

func (w *world) purge(args ...string) (done purged) {
	w.T.Helper()
	code, stdout, stderr := w.purgeAs(w.T.Context(), append(args, "--output=json")...)
	require.Zero(w.T, code, "%s%s", stdout, stderr)
	require.NoError(w.T, json.Unmarshal([]byte(stdout), &done), stdout)
	return done
}

// ended is a coupon of 3,000 won with every kind of row: users 1 to 4 have it, 1 used it, 2 got it back, 3 has a
// reservation, 4 lost it to an operator; 5 was not selected, 6 was rejected, 7 was not selected, too. The users exist.
func (w *world) ended() coupon.CouponID {
	w.T.Helper()
	id := w.AddCoupon(4)
	w.Exec("UPDATE coupon SET discount_won = 3000 WHERE id = ?", id)
	w.Apply(id, 1, 2, 3, 4, 5, 7, 6)
	w.MoveToReview(id, "6", coupon.Failure{Cause: coupon.CauseBadRow, Note: "test"})
	succeeds(w.T)(w.settle("dlq", "drop", "--coupon="+id.String(), "--user=6", "--operator=kim", "--reason=test"))
	w.finalise(id)
	require.Equal(w.T, wallet.Done, w.checkout(id, 1, id.String()+"-1", wallet.Reserve, wallet.Confirm))
	require.Equal(w.T, wallet.Done, w.checkout(id, 2, id.String()+"-2", wallet.Reserve, wallet.Confirm, wallet.Refund))
	require.Equal(w.T, wallet.Done, w.checkout(id, 3, id.String()+"-3", wallet.Reserve))
	succeeds(w.T)(w.settle("coupon", "revoke", id.String(), "--user=4", "--operator=kim", "--reason=test"))
	return id
}

// tablesOf are the tables with rows of a coupon.
var tablesOf = []string{"user_coupon", "application_outcome", "line_journal", "journal", "settled", "settlement",
	"run_coupon", "audit_event", "audit_head", "purged_coupon"}

// rows counts the rows of a coupon. Orders and changes are counted for all coupons.
func (w *world) rows(couponID coupon.CouponID) map[string]int64 {
	w.T.Helper()
	n := map[string]int64{"coupon": w.Number("SELECT COUNT(*) FROM coupon WHERE id = ?", couponID)}
	for _, table := range tablesOf {
		n[table] = w.Number("SELECT COUNT(*) FROM "+table+" WHERE coupon_id = ?", couponID)
	}
	for _, table := range []string{"coupon_order", "coupon_log"} {
		n[table] =
			w.Number(
				"SELECT COUNT(*) FROM "+table+" t JOIN user_coupon u ON u.id = t.user_coupon_id WHERE u.coupon_id = ?",
				couponID)
	}
	return n
}

// recorded are the runs with a record of one of the coupons, in order.
func (w *world) recorded(coupons ...coupon.CouponID) []uint64 {
	w.T.Helper()
	all := strings.Trim(strings.ReplaceAll(fmt.Sprint(coupons), " ", ", "), "[]")
	return w.IDs("SELECT run_id FROM settlement WHERE coupon_id IN (" + all + `) UNION
		SELECT run_id FROM run_coupon WHERE coupon_id IN (` + all + ") ORDER BY run_id")
}

func TestPurge_TakesWholeCoupons(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(between(1, 7)...)
	first := w.ended()
	w.Exec("UPDATE coupon SET campaign_id = 7 WHERE id = ?", first)
	immediate := w.AddImmediate(2, 8, 9)
	w.IssueNow(immediate)
	w.finalise(immediate)
	waited := w.AddQueue(1, 11)
	w.finalise(waited)
	stays := w.ended()
	w.Exec("UPDATE user_coupon SET expires_at = '2038-01-01' WHERE coupon_id = ? AND user_id = 3", stays)
	open := w.AddQueue(1, 10)
	for _, user := range []string{"6", "7"} { // rejected, and not selected
		done := w.forgets(user)
		require.Equal(t, 2, done.Applications)
	}
	w.ApplyAt(waited, "9", time.Now())
	before := w.rows(stays)
	runs, alone := "SELECT id FROM settlement_run ORDER BY id", w.recorded(first, immediate)
	others := slices.DeleteFunc(w.IDs(runs), func(run uint64) bool {
		return slices.Contains(alone, run) && !slices.Contains(w.recorded(stays, waited, open), run)
	})
	require.NotEmpty(t, alone)
	require.NotEmpty(t, others)

	preview := w.purge("--dry-run")
	require.Len(t, preview.Taken, 2)
	require.Empty(t, preview.Purged)
	require.Len(t, preview.Left, 3)
	require.Equal(t, []privacy.WhyLeft{privacy.InRedis, privacy.StillValid, privacy.NotFinalised},
		[]privacy.WhyLeft{preview.Left[0].Why, preview.Left[1].Why, preview.Left[2].Why})
	require.EqualValues(t, 4, w.rows(first)["user_coupon"])

	refused(t, "confirm with --yes")(w.purgeAs(t.Context(), "--lang=en"))
	require.EqualValues(t, 4, w.rows(first)["user_coupon"])

	_, printed, _ := w.purgeAs(t.Context(), "--dry-run")
	require.Contains(t, printed, "  "+preview.Digest+"\n")
	refused(t, "its digest is "+preview.Digest+" now")(
		w.purgeAs(t.Context(), "--yes", "--expect-digest=sha256:"+strings.Repeat("0", 64), "--lang=en"))
	require.EqualValues(t, 4, w.rows(first)["user_coupon"], "other coupons than the preview showed")

	done := w.purge("--yes", "--expect-digest="+preview.Digest)
	require.Equal(t, []coupon.CouponID{first, immediate}, done.Purged)
	for _, id := range done.Purged {
		for table, n := range w.rows(id) {
			require.Equal(t, table == "purged_coupon", n == 1, "%s of coupon %d: %d rows", table, id, n)
		}
	}
	require.Equal(t, before, w.rows(stays))
	require.Equal(t, before["coupon_order"], w.Number("SELECT COUNT(*) FROM coupon_order"), "no row without an owner")
	require.Equal(t, before["coupon_log"], w.Number("SELECT COUNT(*) FROM coupon_log"))
	require.Equal(t, others, w.IDs(runs), "runs go with their last coupon")
	require.Equal(t, []string{"10"}, w.Waiting(open))

	summary, err := privacy.ReadPurged(t.Context(), w.DB, first)
	require.NoError(t, err)
	require.NotNil(t, summary.RowsDeletedAt)
	require.Regexp(t, "^sha256:", summary.AuditHash)
	require.Positive(t, summary.AuditSeq)
	require.Equal(t, []any{"심야 쿠폰", 4, int64(7), 4, 1, int64(3000), 1, int64(2), int64(1), "kim", "P-2"},
		[]any{summary.Name, summary.TotalQuantity, summary.Accepted, summary.Issued, summary.Used, summary.UsedWon,
			summary.Revoked, summary.NotSelected, summary.Rejected, summary.Actor, summary.Reason})
	require.Equal(t, wallet.OrderNotFound, w.checkout(first, 3, first.String()+"-3", wallet.Confirm))
	require.Equal(t, wallet.NotOwned, w.checkout(first, 3, "new", wallet.Reserve))
	require.Empty(t, w.purge("--yes").Purged)
	w.requireSaidOfPurged(first)

	// Forgotten applications are in no figure of a report. The report says so.
	says := fmt.Sprintf("coupon %d: 2 applications of the whole coupon", stays)
	for output, want := range map[string]string{"table": says, "html": says, "json": `"erased": 2`, "csv": ",2\n"} {
		_, stdout, _ := w.settle("report", w.month(), "--lang=en", "--output="+output)
		require.Contains(t, strings.ReplaceAll(stdout, "\r\n", "\n"), want)
	}
}

// requireSaidOfPurged requires that every command about a purged coupon of campaign 7, which was ended, says that it
// was purged.
func (w *world) requireSaidOfPurged(couponID coupon.CouponID) {
	w.T.Helper()
	id := couponID.String()
	const summary = `by kim, reason "P-2": 7 applications, 4 issued, 1 used (3000 won), 1 revoked, 2 not selected, ` +
		`1 rejected`
	for _, c := range []struct {
		says string
		args []string
	}{
		{summary, []string{"verify", "--coupon=" + id}},
		{summary, []string{"explain", "--coupon=" + id, "--user=1"}},
		{summary, []string{"coupon", "winners", id}},
		{"was purged at 2", []string{"report", "--coupon=" + id, w.month()}},
		{"every coupon of campaign 7 was purged", []string{"report", "--campaign=7"}},
		{"was purged, or its purge has begun", []string{"run", "--coupon=" + id, "--operator=kim", "--reason=test"}},
		{"was purged, or its purge has begun", []string{"run", "--coupon=" + id, "--dry-run"}},
		{"no coupon belongs to campaign 8", []string{"report", "--campaign=8"}},
	} {
		code, _, stderr := w.settle(append(c.args, "--lang=en")...)
		require.Equal(w.T, exitUse, code, c.args)
		require.Contains(w.T, stderr, c.says, c.args)
		require.NotContains(w.T, stderr, "does not exist")
	}
}

// Each purge is stopped as its n-th transaction is committed, and the next one goes on.
func TestPurge_GoesOnAfterEveryStop(t *testing.T) {
	t.Parallel()
	w := newWorldBehindProxies(t)
	w.AddUsers(between(1, 5100)...)
	large := w.AddCoupon(1100)
	w.ApplyLine(large, between(1, 5100)...)
	w.finalise(large)
	other := w.ended()
	stays := w.AddCoupon(2)
	w.Apply(stays, 1, 2, 3)
	w.SettleNow()
	w.verify()
	report := w.monthReport()
	sums := w.sumsOf(stays)
	rounds := 0
	for {
		ctx, stop := context.WithCancel(t.Context())
		through := w.proxiedPrivacy(func(turn faultproxy.Turn) faultproxy.Action {
			if bytes.HasSuffix(turn.Request, []byte("\x03COMMIT")) {
				return faultproxy.DropReply(stop)
			}
			return faultproxy.Pass()
		})
		code, stdout, stderr := through.purgeAs(ctx, "--yes", "--lang=en")
		stop()
		w.verify()
		for _, begun := range w.IDs("SELECT c.id FROM coupon c JOIN purged_coupon p ON p.coupon_id = c.id") {
			for _, change := range [][]string{{"add-seats", "--seats=1"}, {"revoke", "--user=1", "--free-seat"},
				{"extend", "--closes=2030-01-01 00:00"}} {
				refused, _,
					why := w.settle(append([]string{"coupon", change[0], fmt.Sprint(begun), "--operator=kim",
					"--reason=test", "--lang=en"}, change[1:]...)...)
				require.Equal(t, exitUse, refused)
				require.Contains(t, why, "its purge has begun")
			}
			refused, _, why := w.settle("verify", fmt.Sprintf("--coupon=%d", begun), "--lang=en")
			require.Equal(t, exitUse, refused)
			require.Contains(t, why, "has not ended: run settle purge again")
		}
		require.Equal(t, sums, w.sumsOf(stays))
		for _, begun := range w.IDs("SELECT coupon_id FROM purged_coupon") {
			require.Empty(t, w.reported(coupon.CouponID(begun)))
		}
		forgotten := w.forgets("5099") // not selected
		require.Zero(t, w.Number("SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND user_id = 5099",
			large), "%v", forgotten.Coupons)
		if code == exitDone {
			require.Contains(t, stdout, "no coupon to purge")
			break
		}
		require.Equal(t, exitInfrastructure, code, stderr)
		require.Contains(t, stderr, "The next run goes on")
		rounds++
		require.Less(t, rounds, 20)
	}
	require.Equal(t, 5, rounds, "two coupons, one with two transactions of rows")
	require.Len(t, w.IDs("SELECT coupon_id FROM purged_coupon WHERE rows_deleted_at IS NOT NULL"), 2)
	require.Equal(t, []uint64{uint64(stays)}, w.IDs("SELECT id FROM coupon"))
	require.NotEqual(t, report, w.monthReport(), "this month had the purged coupons")
	_, _, stderr := w.settle("report", w.month(), "--lang=en")
	require.Contains(t, stderr, "does not count the applications of 2 purged coupons")
	_, _, stderr = w.settle("report", "--month=2026-01", "--lang=en")
	require.Empty(t, stderr)
	require.EqualValues(t, 5100, w.Number("SELECT accepted FROM purged_coupon WHERE coupon_id = ?", large))
	require.EqualValues(t, 4000, w.Number("SELECT not_selected_count FROM purged_coupon WHERE coupon_id = ?", large))
	require.Zero(t, w.rows(other)["user_coupon"])
}

func (w *world) sumsOf(id coupon.CouponID) []json.RawMessage {
	w.T.Helper()
	sums := w.reported(id)
	require.Len(w.T, sums, 1)
	return sums
}

// reported are the counts of one coupon in the report of this month; none if it is not there.
func (w *world) reported(id coupon.CouponID) (coupons []json.RawMessage) {
	w.T.Helper()
	stdout := succeeds(w.T)(w.settle("report", w.month(), "--output=json"))
	var found struct{ Coupons []json.RawMessage }
	require.NoError(w.T, json.Unmarshal([]byte(stdout), &found))
	for _, c := range found.Coupons {
		if bytes.Contains(c, []byte(`"coupon": `+id.String()+",")) {
			coupons = append(coupons, c)
		}
	}
	return coupons
}

// monthReport is the table of this month.
func (w *world) monthReport() string {
	w.T.Helper()
	stdout := succeeds(w.T)(w.settle("report", w.month(), "--output=csv"))
	return stdout
}

// The reply to each COMMIT is lost once. The counts are those of one purge.
func TestPurge_SurvivesLostCommits(t *testing.T) {
	t.Parallel()
	w := newWorldBehindProxies(t)
	w.AddUsers(between(1, 7)...)
	for lost, commits := 1, 1; lost <= commits; lost++ {
		id := w.ended()
		n := 0
		through := w.proxiedPrivacy(func(turn faultproxy.Turn) faultproxy.Action {
			if !bytes.HasSuffix(turn.Request, []byte("\x03COMMIT")) {
				return faultproxy.Pass()
			}
			if n++; n == lost {
				return faultproxy.DropReply(nil)
			}
			return faultproxy.Pass()
		})
		require.Equal(t, []coupon.CouponID{id}, through.purge("--yes").Purged)
		commits = n - 1
		require.EqualValues(t, 1,
			w.Number("SELECT used_count FROM purged_coupon WHERE coupon_id = ? AND rows_deleted_at IS NOT NULL", id))
		w.verify()
	}
}

// One issued coupon alone has more rows than a transaction deletes.
func TestPurge_TakesACouponWithALongHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(between(1, 7)...)
	id := w.ended()
	const changes = 5_200
	numbers := make([]int, changes)
	for i := range numbers {
		numbers[i] = i + 10
	}
	list, err := json.Marshal(numbers)
	require.NoError(t, err)
	w.Exec(`INSERT INTO coupon_log (user_coupon_id, seq, kind, actor, at)
SELECT u.id, j.n, 'RESERVED', 'shop', UTC_TIMESTAMP(6) FROM user_coupon u, JSON_TABLE(?,
    '$[*]' COLUMNS (n INT PATH '$')) j WHERE u.coupon_id = ? AND u.user_id = 3`, string(list), id)
	w.Exec("UPDATE user_coupon SET seq = ? WHERE coupon_id = ? AND user_id = 3", changes, id)
	require.Equal(t, []coupon.CouponID{id}, w.purge("--yes").Purged)
	require.Zero(t, w.Number("SELECT COUNT(*) FROM coupon_log"))
	require.Zero(t, w.Number("SELECT COUNT(*) FROM coupon_order"))
	w.verify()
}

// The coupon changes between the plan and the lock.
func TestPurge_LeavesACouponThatChangedAfterThePlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(between(1, 7)...)
	first, second := w.ended(), w.ended()
	before, err := time.Parse(time.DateOnly, purgeDate())
	require.NoError(t, err)
	db := mysqltx.New(w.as("jajeong_privacy"))
	plan, err := privacy.PlanPurge(t.Context(), db, w.Store, before, later())
	require.NoError(t, err)
	require.Len(t, plan.Taken, 2)
	// No longer finalised.
	code, _, stderr := w.settle("coupon", "add-seats", first.String(), "--seats=1", "--operator=kim", "--reason=test")
	require.Zero(t, code, stderr)
	w.Exec("UPDATE settlement SET cleaned_at = NULL WHERE coupon_id = ?", second)
	purger := privacy.Purger{DB: db, Queue: w.Store, Origin: audit.Origin{At: later(), Actor: "kim", Reason: "P-3"}}
	done, err := purger.Purge(t.Context(), plan)
	require.NoError(t, err)
	require.Empty(t, done.Purged)
	require.Len(t, done.Left, 2)
	require.Equal(t, []privacy.WhyLeft{privacy.NotFinalised, privacy.CleanUpPending},
		[]privacy.WhyLeft{done.Left[0].Why, done.Left[1].Why})
	require.Zero(t, w.Number("SELECT COUNT(*) FROM purged_coupon"))
}

// From the begin of a purge on, no run settles the coupon. A run that chose it before leaves no row of it.
func TestPurge_RunsLeaveTheCouponAlone(t *testing.T) {
	t.Parallel()
	w := newWorldBehindProxies(t)
	w.AddUsers(between(1, 7)...)
	id := w.ended()
	run := []string{"run", "--coupon=" + id.String(), "--cutoff=now", "--operator=kim", "--reason=test", "--lang=en"}
	purged := func() bool { return w.rows(id)["coupon"] == 0 }

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	through := w.proxiedPrivacy(func(turn faultproxy.Turn) faultproxy.Action {
		if bytes.HasSuffix(turn.Request, []byte("\x03COMMIT")) {
			return faultproxy.DropReply(stop)
		}
		return faultproxy.Pass()
	})
	code, _, stderr := through.purgeAs(ctx, "--yes")
	require.Equal(t, exitInfrastructure, code, stderr)
	begun := w.rows(id)
	require.EqualValues(t, 1, begun["purged_coupon"])
	require.False(t, purged())
	code, _, stderr = w.settle(run...)
	require.Equal(t, exitUse, code)
	require.Contains(t, stderr, "was purged, or its purge has begun")
	require.Equal(t, begun, w.rows(id))

	// A person can be forgotten in a coupon whose purge was interrupted.
	w.Exec("DELETE FROM settled WHERE coupon_id = ?", id)
	done := w.forgets("6") // rejected, and named by the audit event of the drop
	require.Equal(t, privacy.Forgotten{Coupons: []coupon.CouponID{id}, Applications: 1, AuditEvents: 1}, done)
	require.Zero(t, w.rows(id)["settled"])
	_, stdout, _ := w.settle("coupon", "list", "--lang=en")
	require.Contains(t, stdout, "finalised, being purged")

	require.Equal(t, []coupon.CouponID{id}, w.purge("--yes").Purged)
	require.True(t, purged())
	require.Zero(t, w.rows(id)["audit_event"])
	w.verify()
	id = w.ended()
	run[1] = "--coupon=" + id.String()
	direct := *w
	_, w.servers = w.proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if bytes.Contains(turn.Request, []byte("FROM coupon c WHERE c.id = ")) &&
			bytes.HasSuffix(turn.Request, []byte("FOR UPDATE")) && !purged() {
			direct.purge("--yes")
		}
		return faultproxy.Pass()
	})
	code, _, stderr = w.settle(run...)
	require.Equal(t, exitUse, code, stderr)
	require.True(t, purged())
	for table, n := range w.rows(id) {
		require.Equal(t, table == "purged_coupon", n == 1, "%s: %d rows", table, n)
	}
	w.verify()
}

// Records of runs also count each move to the DLQ, which says nothing about outcomes.
func TestPurge_TellsForgottenOutcomesApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(between(1, 6)...)
	w.Exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = 3")
	id := w.AddCoupon(2)
	w.Apply(id, 1, 2, 3, 4, 5)
	w.SettleNow() // 3 goes under review
	w.Exec("UPDATE `user` SET status = 'ACTIVE' WHERE id = 3")
	do := func(args ...string) {
		t.Helper()
		code, stdout, stderr := w.settle(append(args, "--operator=kim", "--reason=test")...)
		require.Zero(t, code, stdout+stderr)
	}
	do("coupon", "add-seats", id.String(), "--seats=1")
	do("dlq", "retry", "--coupon="+id.String(), "--user=3")
	w.finalise(id)
	require.EqualValues(t, 3, w.Number("SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ?", id))
	done := w.forgets("4")
	require.Equal(t, 1, done.Applications)
	w.verify()
	w.purge("--yes")
	summary, err := privacy.ReadPurged(t.Context(), w.DB, id)
	require.NoError(t, err)
	require.Equal(t, []int64{2, 0}, []int64{summary.NotSelected, summary.Rejected})
}

// A scheduled job purges by the age that a setting says, in the name of the program, and pushes what it has left. With
// --before, a person says what goes.
func TestPurge_ByAge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1, 2, 3, 4, 5, 6, 7)
	gone := w.ended()
	waiting := w.AddQueue(1, 8)
	w.SetWindow(waiting, w.Now().Add(-2*time.Hour), w.Now().Add(-time.Hour))
	gateway := "http://" + prometheus.StartPushgateway(t).Addr()
	run := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = Run(t.Context(), Process{Args: append(append([]string{"purge", "--lang=en", "--push-gateway=" + gateway},
			args...), w.asPrivacy().servers...), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
			Version: "test", Now: later, HandOverTime: jajeongtest.HandOverTime})
		return code, out.String(), errs.String()
	}
	refused(t, "PURGE_AFTER_DAYS for a scheduled job")(run("--yes"))
	refused(t, "must be between 31 and 36500")(run("--after-days=30", "--yes"))
	refused(t, "--reason is missing")(run("--after-days=40", "--operator=kim", "--yes"))
	refused(t, "confirm with --yes")(run("--after-days=40"))
	require.Empty(t, pushed(t, gateway, "settle-purge", ""))

	w.Exec("UPDATE user_coupon SET expires_at = UTC_TIMESTAMP(6) + INTERVAL 59 DAY WHERE coupon_id = ?", gone)
	code, stdout, stderr := run("--after-days=41", "--yes") // 100 days from now, the coupon has expired for 41
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "an issued coupon is valid")
	require.EqualValues(t, 1, w.Number("SELECT COUNT(*) FROM coupon WHERE id = ?", gone))
	evening := w.AddQueue(1, 9) // closed before the date, and finalised after it
	w.SetWindow(evening, w.Now().Add(-2*time.Hour), w.Now().AddDate(0, 0, 59))
	code, _, stderr = run("--after-days=40", "--yes")
	require.Zero(t, code, stderr)
	summary, err := privacy.ReadPurged(t.Context(), w.DB, gone)
	require.NoError(t, err)
	require.Equal(t, []string{"settle", "PURGE_AFTER_DAYS=40"}, []string{summary.Actor, summary.Reason})

	metrics := pushed(t, gateway, "settle-purge", "")
	require.Equal(t, "1", metrics["jajeong_purge_left_coupons NOT_FINALISED"], "not the one of the evening before")
	require.Equal(t, "0", metrics["jajeong_purge_left_coupons STILL_VALID"])
	require.NotEmpty(t, metrics["jajeong_purge_last_success_timestamp_seconds"])
}
