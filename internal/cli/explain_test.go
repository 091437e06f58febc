package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/testenv"
)

// explain runs the program and returns the answer. On a slow machine a server answers too late: then it runs again.
func (w *world) explain(couponID coupon.CouponID, user coupon.UserID) *explain.Explanation {
	w.T.Helper()
	code, x := w.explainCode(couponID, user)
	for code == exitInfrastructure && testenv.Patient(w.T).Err() == nil {
		code, x = w.explainCode(couponID, user)
	}
	require.Zero(w.T, code)
	return x
}

// printed has the conclusions whose table was compared with the JSON.
var printed sync.Map

// explainCode runs the program. The table must agree, which is read once for each conclusion.
func (w *world) explainCode(couponID coupon.CouponID, user coupon.UserID) (int, *explain.Explanation) {
	w.T.Helper()
	about := []string{"explain", fmt.Sprintf("--coupon=%d", couponID), fmt.Sprintf("--user=%d", user)}
	code, stdout, stderr := w.settle(append(about, "--output=json")...)
	x := new(explain.Explanation)
	require.NoError(w.T, json.Unmarshal([]byte(stdout), x), "%s%s", stdout, stderr)
	if _, known := printed.LoadOrStore(fmt.Sprint(code, x.Conclusion.State, x.Conclusion.Notes), true); known {
		return code, x
	}
	tableCode, table, _ := w.settle(append(about, "--lang=en")...)
	if code != tableCode && (code == exitInfrastructure || tableCode == exitInfrastructure) {
		return exitInfrastructure, x
	}
	require.Equal(w.T, code, tableCode)
	lines := strings.Split(strings.TrimSpace(table), "\n")
	last := lines[len(lines)-1]
	require.Equal(w.T, last, w.phrasing().Sentence(&x.Facts, x.Conclusion))
	return code, x
}

// must demands a state and its notes, and returns the sentence.
func (w *world) must(couponID coupon.CouponID, user coupon.UserID, state explain.State, notes ...explain.Note) string {
	w.T.Helper()
	x := w.explain(couponID, user)
	require.Equal(w.T, state, x.Conclusion.State, "user %d", user)
	require.Equal(w.T, append([]explain.Note{}, notes...), x.Conclusion.Notes, "user %d", user)
	return w.phrasing().Sentence(&x.Facts, x.Conclusion)
}

// happened are the kinds of events of a timeline, in order.
func (w *world) happened(couponID coupon.CouponID, user coupon.UserID) []explain.EventKind {
	w.T.Helper()
	return kindsOf(w.explain(couponID, user))
}

func kindsOf(x *explain.Explanation) (kinds []explain.EventKind) {
	for _, e := range x.Events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestExplain_UserWithoutApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1, 2)
	now := w.Now()
	open := w.AddCoupon(2)
	w.must(open, 1, explain.StateNeverOpen)
	w.must(open, 9, explain.StateNoSuchUser)
	w.must(w.AddCouponBetween(2, now.Add(time.Hour), now.Add(2*time.Hour)), 1, explain.StateNeverNotOpen)
	over := w.AddCouponBetween(2, now.Add(-2*time.Hour), now.Add(-time.Hour))
	w.must(over, 1, explain.StateNeverClosed)
	paused := w.AddCoupon(2)
	_, _, err := w.Store.Publish(t.Context(), coupon.Window{Coupon: paused, Version: 2, Opens: now.Add(-time.Hour),
		Closes: now.Add(time.Hour), Paused: true}, 0)
	require.NoError(t, err)
	w.must(paused, 1, explain.StateNeverPaused)
	sold := w.AddCoupon(1)
	w.Apply(sold, 2)
	w.SettleNow()
	w.must(sold, 1, explain.StateNeverSoldOut)

	// Redis has forgotten both coupons. It should know the open one.
	w.must(over, 1, explain.StateNeverClosed)
	for _, couponID := range []coupon.CouponID{over, open} {
		require.NoError(t, w.Redis.Del(t.Context(), w.Key("state", couponID)).Err())
	}
	w.must(over, 1, explain.StateNeverClosed)
	w.must(open, 1, explain.StateNotSure)

	refused(t, "coupon 99")(w.settle("explain", "--coupon=99", "--user=1"))
	code, _, stderr := w.settle("explain", "--coupon=0", "--user=0")
	require.Equal(t, exitUse, code)
	require.Contains(t, stderr, "--coupon is 0")
	require.Contains(t, stderr, "--user is 0")
}

// mustRetryNextNight marks an entry as tried by the coming nightly run, and requires that explain names the run after
// it.
func (w *world) mustRetryNextNight(couponID coupon.CouponID, user coupon.UserID) {
	w.T.Helper()
	zone := w.atNoon()
	reason := w.Reason(couponID, fmt.Sprint(user))
	reason.Night = calendar.NextCutoff(w.Now(), zone).UTC()
	text, err := json.Marshal(reason)
	require.NoError(w.T, err)
	require.NoError(w.T, w.Redis.HSet(w.T.Context(), w.Key("dlq:reason", couponID), user.Member(), text).Err())
	next := calendar.NextCutoff(reason.Night, zone)
	x := w.explain(couponID, user)
	require.True(w.T, next.Equal(*x.Conclusion.Application.SettlesAt))
	_, printed, _ := w.settle("explain", fmt.Sprintf("--coupon=%d", couponID), fmt.Sprintf("--user=%d", user),
		"--lang=en")
	require.Contains(w.T, printed, "retried by every nightly run")
	require.Regexp(w.T, regexp.QuoteMeta((output.Locale{Zone: zone}).Instant(next))+` +│ settlement \(planned\)`,
		printed)
}

func TestExplain_Outcomes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.atNoon() // after a midnight, who waits is overdue
	w.RefuseOddUsers()
	w.AddUsers(between(1, 12)...)
	w.Exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = 2")
	w.Exec("INSERT INTO odd_user (id) VALUES (3)")
	couponID := w.AddCoupon(3)
	w.Apply(couponID, 1, 2, 3, 99, 4, 5)
	require.Contains(t, w.must(couponID, 4, explain.StateWaiting),
		"number 5 of 6 that are waiting. Coupons left at present: 3.")
	w.must(couponID, 2, explain.StateWaiting, explain.NoteAccountInactive)
	w.must(couponID, 99, explain.StateWaiting, explain.NoteAccountUnknown)
	underWay :=
		"INSERT INTO settlement_run (trigger_kind, nonce, cutoff, started_at, heartbeat_at) VALUES (?, " +
			"HEX(UUID_SHORT()), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))"
	w.Exec(underWay, "MANUAL")
	w.must(couponID, 4, explain.StateWaiting) // it may settle another coupon
	w.Exec(underWay, "CRON")
	w.must(couponID, 4, explain.StateWaitingSettling)
	w.Exec("UPDATE settlement_run SET heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 61 SECOND")
	w.must(couponID, 4, explain.StateWaiting) // both are abandoned
	failed := func(with coupon.CouponID) {
		w.Exec("INSERT INTO settlement_run (trigger_kind, nonce, cutoff, started_at, heartbeat_at, finished_at, " +
			"status) VALUES ('CRON', HEX(UUID_SHORT()), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), " +
			"UTC_TIMESTAMP(6), 'FAILED')")
		w.Exec("INSERT INTO run_coupon (run_id, coupon_id, status, gap, duration_ms, error) SELECT MAX(id), ?, "+
			"'FAILED', 0, 1, 'x' FROM settlement_run", with)
	}
	failed(couponID)
	failed(couponID + 1)
	var runs []string
	for _, r := range w.explain(couponID, 4).Facts.Runs {
		runs = append(runs, string(r.Status))
	}
	require.Equal(t, []string{"ABANDONED", "ABANDONED", "FAILED"}, runs, "failures of another coupon are omitted")
	w.Exec("DELETE FROM run_coupon")
	w.Exec("DELETE FROM settlement_run")

	w.SettleNow()
	require.Contains(t, w.must(couponID, 1, explain.StateIssued, explain.NoteUsable),
		"as number 1; the coupon was issued at")
	require.Contains(t, w.must(couponID, 5, explain.StateIssued, explain.NoteUsable),
		"as number 6; the coupon was issued at")
	w.must(couponID, 2, explain.StateReviewInactiveUser, explain.NotePersonDecides, explain.NoteNoSeatLeft)
	w.mustRetryNextNight(couponID, 3)
	w.must(couponID, 3, explain.StateReviewBadRow, explain.NoteTriedAgain, explain.NoteNoSeatLeft)
	w.must(couponID, 99, explain.StateReviewUnknownUser, explain.NotePersonDecides, explain.NoteNoSeatLeft)
	require.Equal(t, []explain.EventKind{explain.EventOpens, explain.EventApplied, explain.EventLastSeated,
		explain.EventRun, explain.EventReview, explain.EventAudit, explain.EventCloses}, w.happened(couponID, 2))

	// 2 is active again, but no seat is free.
	w.Exec("UPDATE `user` SET status = 'ACTIVE' WHERE id = 2")
	w.must(couponID, 2, explain.StateReviewInactiveUser, explain.NotePersonDecides, explain.NoteNoSeatLeft,
		explain.NoteAccountActive)
	succeeds(t)(w.dlq("retry", couponID, "--user=99", "--cutoff=now"))
	require.Contains(t, w.must(couponID, 99, explain.StateReviewUnknownUser, explain.NotePersonDecides,
		explain.NoteNoSeatLeft), "tried 2 times")
	require.Contains(t, w.happened(couponID, 99), explain.EventAudit)
	succeeds(t)(w.dlq("drop", couponID, "--user=99"))
	w.must(couponID, 99, explain.StateRejectedByPerson)
}

func TestExplain_NotSelected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.atNoon() // after a midnight, who waits is overdue
	w.AddUsers(between(1, 8)...)
	couponID := w.AddCoupon(1)
	w.Apply(couponID, 1, 2, 3, 4, 5)
	w.SettleNow()
	x := w.explain(couponID, 3)
	require.Equal(t, explain.StateNotSelected, x.Conclusion.State)
	require.EqualValues(t, 2, x.Facts.Missed.Rank)
	require.EqualValues(t, 3, x.Conclusion.Application.Order)
	arrivals :=
		w.IDs("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', applied_at) FROM user_coupon UNION ALL SELECT " +
			"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', applied_at) FROM application_outcome WHERE user_id = 3")
	require.EqualValues(t, arrivals[1]-arrivals[0], x.Facts.Missed.Micros)
	require.Contains(t, w.must(couponID, 3, explain.StateNotSelected),
		"all coupons (1) went to those who applied earlier")

	// An earlier application appears after the settlement.
	w.ApplyAt(couponID, "8", time.UnixMicro(int64(arrivals[0])-1))
	w.SettleNow()
	w.must(couponID, 8, explain.StateReviewPassedOver, explain.NoteTriedAgain, explain.NoteNoSeatLeft)
	succeeds(t)(w.dlq("drop", couponID, "--user=8"))

	// 2 gets a coupon by hand, 3 is blocked, and one more seat is free.
	w.InsertGranted(couponID, 2)
	w.SetSeats(couponID, 3)
	w.Exec("UPDATE coupon SET issued_count = 2 WHERE id = ?", couponID)
	w.Exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = 3")
	w.must(couponID, 2, explain.StateIssuedByHand, explain.NoteUsable, explain.NoteEarlierNotSelected)
	w.must(couponID, 3, explain.StateSeatsFree, explain.NoteAccountInactive)
	require.Contains(t, w.must(couponID, 4, explain.StateSeatsFree),
		"number 3 of those not selected; the next settlement will issue the coupons that are left now (1)")
	w.SettleNow()
	w.must(couponID, 2, explain.StateIssuedByHand, explain.NoteUsable, explain.NoteAppliedAgain)
	w.must(couponID, 3, explain.StateRejectedInactive)
	w.must(couponID, 4, explain.StateIssued, explain.NoteSeatLater, explain.NoteUsable)
	require.NotContains(t, w.must(couponID, 5, explain.StateNotSelected), "those who applied earlier",
		"one was given by hand")

	// Redis has lost its set of rejected users, and 3 applies again.
	w.Exec("UPDATE `user` SET status = 'ACTIVE' WHERE id = 3")
	require.NoError(t, w.Redis.Del(t.Context(), w.Key("rejected", couponID)).Err())
	require.NoError(t, w.Store.SetSold(t.Context(), couponID, false))
	w.Apply(couponID, 3)
	w.must(couponID, 3, explain.StateWaiting, explain.NoteEarlierRejected)
	w.SettleNow()
	w.must(couponID, 3, explain.StateNotSelected, explain.NoteEarlierRejected)

	// The conclusions stay after the coupon is finalised and swept from Redis.
	w.Exec("UPDATE coupon SET apply_closes_at = UTC_TIMESTAMP(6) WHERE id = ?", couponID)
	_, _, err := w.Store.Publish(t.Context(),
		coupon.Window{Coupon: couponID, Version: 2, Opens: w.Now().Add(-time.Hour), Closes: w.Now()}, 0)
	require.NoError(t, err)
	w.SettleNow()
	require.NoError(t, w.Redis.Del(t.Context(), w.Key("state", couponID)).Err())
	w.must(couponID, 5, explain.StateNotSelected)
	w.must(couponID, 4, explain.StateIssued, explain.NoteSeatLater, explain.NoteUsable)
	w.must(couponID, 7, explain.StateNeverClosed)
	require.Contains(t, w.happened(couponID, 5), explain.EventFinalised)
	w.Exec("UPDATE coupon SET total_quantity = 4 WHERE id = ?", couponID)
	w.must(couponID, 5, explain.StateSeatsFreeOver)
}

func TestExplain_LostApplications(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(between(1, 4)...)
	couponID, intact := w.AddCoupon(3), w.AddCoupon(3)
	w.Apply(couponID, 1, 2, 3)
	w.Apply(intact, 1)
	require.NoError(t, w.Redis.ZRem(t.Context(), w.Queue(couponID), "1").Err())
	require.Contains(t, w.must(couponID, 1, explain.StateMaybeLost), "records of 1 application were lost")
	w.must(couponID, 4, explain.StateMaybeLost)
	w.Exec("INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (?, 1795150800000000, 4)", couponID)
	require.Contains(t, w.must(couponID, 4, explain.StateLost), "It is being put back")
	w.Exec("DELETE FROM line_journal")
	w.must(intact, 4, explain.StateNeverOpen)
	w.must(couponID, 2, explain.StateWaitingHeld)
	code, _ := w.settleNowCode()
	require.Equal(t, exitInvariant, code)
	w.must(couponID, 2, explain.StateWaitingHeld)
	require.Contains(t, w.happened(couponID, 2), explain.EventAudit, "the hold")
	require.Contains(t, w.happened(couponID, 2), explain.EventRun)
	w.Exec("INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (?, ?, 4)", couponID,
		w.Arrivals(couponID)["2"])
	w.must(couponID, 4, explain.StateLost)
	require.Contains(t, w.happened(couponID, 4), explain.EventRun, "the hold concerns who is to be put back, too")
	w.Exec("DELETE FROM line_journal")
	w.settleNow("--accept-gap")
	w.must(couponID, 1, explain.StateMaybeLost)
	require.Contains(t, w.must(couponID, 2, explain.StateIssued, explain.NoteUsable), "KST; the coupon",
		"the number of earlier applications is unknown")

	// 4 is marked as issued, without a coupon.
	require.NoError(t, w.Redis.ZAdd(t.Context(), w.Key("issued", intact), redis.Z{Member: 4}).Err())
	w.must(intact, 4, explain.StateContradiction)
	// The coupon of a holder was deleted.
	w.Exec("INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, run_id, recorded_at) VALUES "+
		"(?, 3, UTC_TIMESTAMP(6), 'ALREADY_ISSUED', 1, UTC_TIMESTAMP(6))", intact)
	w.must(intact, 3, explain.StateHolderNoMore)
}

func TestExplain_FailedNight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1)
	now := w.Now()
	couponID := w.AddCouponBetween(1, now.Add(-72*time.Hour), now.Add(time.Hour))
	w.ApplyAt(couponID, "1", now.Add(-48*time.Hour))
	w.must(couponID, 1, explain.StateWaitingOverdue)
	w.Exec("CREATE TRIGGER refuses BEFORE INSERT ON settlement FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT " +
		"= 'no records today'")
	code, _, _ := w.settle("run")
	require.NotZero(t, code)
	w.must(couponID, 1, explain.StateWaitingRunFailed)
}

func TestExplain_ServerAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1, 2, 3)
	couponID := w.couponFor(1, 1, 2)
	w.SettleNow()
	require.NoError(t, w.Store.SetSold(t.Context(), couponID, false))
	w.Apply(couponID, 3)
	w.Refresh() // the catalog in Redis has the zone of the nights
	const nowhere = "127.0.0.1:1"
	without := func(mysql, redis bool) *world {
		away := *w
		away.servers = append([]string{}, w.servers...)
		if mysql {
			away.servers[0] = "--mysql-dsn=root@tcp(" + nowhere + ")/jajeong"
		}
		if redis {
			away.servers[1] = "--redis-addrs=" + nowhere
		}
		return &away
	}
	for _, c := range []struct {
		mysql, redis bool
		user         coupon.UserID
		state        explain.State
		notes        []explain.Note
	}{
		{true, false, 1, explain.StateIssuedUnseen, nil},
		{true, false, 3, explain.StateAppliedUnseen, nil},
		{false, true, 2, explain.StateNotSelected, []explain.Note{explain.NoteLaterUnknown}},
		{true, true, 1, explain.StateUnknown, nil},
	} {
		code, x := without(c.mysql, c.redis).explainCode(couponID, c.user)
		require.Equal(t, exitInfrastructure, code)
		require.Equal(t, c.state, x.Conclusion.State, "%+v", c)
		require.Equal(t, append([]explain.Note{}, c.notes...), x.Conclusion.Notes, "%+v", c)
		require.Equal(t, c.mysql, x.Facts.NoMySQL != "")
		require.Equal(t, c.redis, x.Facts.NoRedis != "")
	}
	_, stdout, _ := without(true, false).settle("explain", fmt.Sprintf("--coupon=%d", couponID), "--user=3",
		"--lang=ko")
	require.Contains(t, stdout, "MySQL을 읽지 못해")
}

func TestGoldenExplain(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "explain", func(w *world) {
		w.AddUsers(between(1, 6)...)
		w.Exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = 2")
		now := w.Now()
		w.AddCouponBetween(2, now.Add(-time.Hour), now.Add(48*time.Hour)) // closes after the next midnight
		w.Apply(1, 1, 2, 3, 4, 5)
	}, func(s *spoken) {
		explain := func(user string, more ...string) {
			s.says(append([]string{"explain", "--coupon=1", "--user=" + user}, more...)...)
		}
		explain("4")
		s.SettleNow()
		explain("1")
		explain("2")
		explain("4")
		explain("4", "--output=json")
		explain("6")
		explain("77")
		code, _, _ := s.dlq("drop", 1, "--user=2")
		require.Zero(t, code)
		explain("2")
		s.Exec("UPDATE coupon SET total_quantity = 3")
		explain("5")
		s.servers[1] = "--redis-addrs=127.0.0.1:1" // the program logs what its Redis client says
		s.saysAsProgram("explain", "--coupon=1", "--user=4")
		s.saysAsProgram("explain", "--coupon=8", "--user=1")
	})
}

// Audit events outside the hash chain are no facts for explain.
func TestExplain_IgnoresInsertedAuditEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.AddQueue(1, 1)
	succeeds(t)(w.settle("coupon", "pause", fmt.Sprint(couponID), "--operator=park", "--reason=INC-10"))
	w.Exec("INSERT INTO audit_event (account, actor, action, coupon_id, user_id) VALUES ('', 'eve', 'DLQ_DROPPED', "+
		"NULL, 1), ('', 'eve', 'DLQ_DROPPED', ?, 1), ('', 'eve', 'COUPON_CLOSED', ?, NULL)", couponID, couponID)
	w.Exec("INSERT INTO audit_event (account, seq, actor, action, coupon_id, user_id) VALUES ('', 2, 'eve', "+
		"'DLQ_DROPPED', ?, 1)", couponID)
	var actors []string
	for _, e := range w.explain(couponID, 1).Events {
		if e.Kind == explain.EventAudit {
			actors = append(actors, e.Actor)
		}
	}
	require.Equal(t, []string{"park"}, actors)
	_, stdout, _ := w.settle("coupon", "show", fmt.Sprint(couponID))
	require.Contains(t, stdout, "park")
	require.NotContains(t, stdout, "eve")
}

func TestExplain_BoundsTimeline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.AddQueue(1, 1)
	for n := range 70 {
		w.Exec("INSERT INTO settlement_run (nonce, cutoff, started_at, heartbeat_at, status) VALUES (?, "+
			"UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), 'FAILED')", n)
		w.Exec("INSERT INTO audit_event (account, seq, actor, action, coupon_id) VALUES ('', ?, 'kim', 'LOOKED', ?)",
			2*n+1, couponID)
		w.Exec("INSERT INTO audit_event (account, seq, actor, action, coupon_id, user_id, user_hash) VALUES ('', ?, "+
			"'kim', 'ELSE', ?, 2, REPEAT('x', 32))", 2*n+2, couponID)
	}
	w.Exec("INSERT INTO audit_head (coupon_id, seq, hash) VALUES (?, 140, '')", couponID)
	x := w.explain(couponID, 1)
	require.LessOrEqual(t, len(x.Events), explain.MaxEvents)
	require.Equal(t, 2, x.LeftOut)
	for i, e := range x.Events {
		require.True(t, i == 0 || !e.At.Before(x.Events[i-1].At))
	}
}
