package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
)

// readOut is the last sentence of explain in both languages.
func (w *world) readOut(couponID coupon.CouponID, user coupon.UserID) (ko, en string) {
	w.T.Helper()
	x := w.explain(couponID, user)
	return phrasing(text.Korean).Sentence(&x.Facts, x.Conclusion), phrasing(text.English).Sentence(&x.Facts, x.Conclusion)
}

func TestExplain_ReviewWithoutFreeSeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1, 2, 3)
	w.Exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = 1")
	couponID := w.AddCoupon(1)
	w.Apply(couponID, 1, 2)
	w.SettleNow() // 2 has the seat
	w.Exec("UPDATE `user` SET status = 'ACTIVE' WHERE id = 1")
	code, _, stderr := w.dlq("retry", couponID, "--user=1", "--cutoff=now")
	require.Zero(t, code, stderr)
	w.must(couponID, 1, explain.StateReviewInactiveUser, explain.NoteTriedAgain, explain.NoteNoSeatLeft, explain.NoteAccountActive)
	ko, en := w.readOut(couponID, 1)
	require.Contains(t, ko, "지금은 남은 수량이 없습니다.")
	require.Contains(t, en, "No coupons are left at present.")
	require.NotRegexp(t, "다시 처리됩니다|tries again|is tried again", ko+en)

	w.Exec("UPDATE coupon SET total_quantity = 2 WHERE id = ?", couponID)
	w.must(couponID, 1, explain.StateReviewInactiveUser, explain.NoteTriedAgain, explain.NoteAccountActive)
	w.SettleNow()
	require.Equal(t, []coupon.UserID{2, 1}, w.Issued(couponID))
}

// The sentence has the place of an application, and not the microseconds to the last winner.
func TestExplain_HidesMissedMicroseconds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1, 2)
	couponID := w.AddCoupon(1)
	now := w.Now()
	w.ApplyAt(couponID, "1", now)
	w.ApplyAt(couponID, "2", now.Add(time.Microsecond))
	w.SettleNow()
	require.EqualValues(t, 1, w.explain(couponID, 2).Facts.Missed.Micros)
	ko, en := w.readOut(couponID, 2)
	require.Contains(t, ko, "2번째로 신청하셨고")
	require.Contains(t, ko, "먼저 신청하신 분들께 발급되어")
	require.Contains(t, en, "went to those who applied earlier")
	require.NotRegexp(t, "초 늦으|seconds after", ko+en)
	w.Exec("UPDATE coupon SET total_quantity = 2 WHERE id = ?", couponID)
	ko, en = w.readOut(couponID, 2)
	require.Contains(t, ko, "마지막으로 쿠폰을 받으신 분은 고객님보다 먼저 신청하셨습니다.")
	require.Contains(t, en, "The last customer who got a coupon had applied earlier.")
	require.NotRegexp(t, "초 늦으|seconds after", ko+en)
}

// An earlier retryable application gets an added seat before a NOT_SELECTED one.
func TestAddSeats_PromisesNoSeatToNotSelected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1, 2, 3)
	w.Exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = 1")
	couponID := w.AddCoupon(1)
	w.Apply(couponID, 1, 2, 3)
	w.SettleNow() // 2 is issued, 3 not selected
	w.Exec("UPDATE `user` SET status = 'ACTIVE' WHERE id = 1")
	code, _, stderr := w.dlq("retry", couponID, "--user=1", "--cutoff=now")
	require.Zero(t, code, stderr)
	en := w.mustChange("add-seats", couponID, "--seats=1")
	require.Contains(t, en, "considers 1 NOT_SELECTED user and")
	require.NotRegexp(t, "came first get them", en)
	_, ko, _ := w.changes("add-seats", couponID, "--total=2", "--lang=ko")
	require.NotContains(t, ko, "받습니다")
	w.SettleNow()
	require.Equal(t, []coupon.UserID{2, 1}, w.Issued(couponID))
	require.Equal(t, []coupon.UserID{3}, w.Outcome(couponID, "NOT_SELECTED"))
}

// 정산 기준 시각 is the cutoff of a run, 마감 시각 the end of applying.
func TestSentences_DistinguishCutoffAndEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1)
	w.Exec("UPDATE `user` SET status = 'BLOCKED'")
	couponID := w.AddCoupon(1)
	w.Apply(couponID, 1)
	w.SettleNow()
	code, _, late := w.dlq("retry", couponID, "--lang=ko") // the application is after the last midnight
	require.Zero(t, code)
	require.Contains(t, late, "1건은 정산 기준 시각 이후에 접수되어 시도하지 않았습니다")
	for _, args := range [][]string{{"runs"}, {"runs", "--output=csv"}, {"show", "1"}, {"run", "--dry-run"}, {"explain", fmt.Sprintf("--coupon=%d", couponID), "--user=1"}} {
		_, stdout, stderr := w.settle(append(args, "--lang=ko")...)
		require.Contains(t, stdout, "정산 기준 시각", "%v %s", args, stderr)
		require.NotContains(t, stdout, "마감 시각", "%v", args)
	}
	require.NotContains(t, late, "마감")
}

// The pause is recorded in MySQL. The output does not claim that Redis has it.
func TestPause_WhileRedisIsAway(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})
	w := newWorldWith(t, jajeongtest.Options{Redis: jajeongtest.RedisAt(t, server.Addr())})
	couponID := w.AddCoupon(1)
	w.Refresh()
	paused := func() bool {
		return len(w.IDs("SELECT id FROM coupon WHERE status = 'PAUSED'")) == 1
	}
	for _, c := range []struct {
		verb, lang, done, never, hears string
		paused                         bool
	}{
		{"pause", "en", "the change is recorded", "answered PAUSED", "Until then, Redis may take applications", true},
		{"resume", "en", "the change is recorded", "It takes applications", "Until then, Redis may take applications", false},
		{"pause", "ko", "변경을 기록했습니다", "새 신청은 PAUSED", "확인하지 못했습니다", true},
	} {
		require.NoError(t, server.Kill())
		code, stdout, stderr := w.changes(c.verb, couponID, "--lang="+c.lang)
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, c.done)
		require.NotContains(t, stdout, c.never)
		require.Contains(t, stderr, c.hears)
		require.Equal(t, c.paused, paused())
		require.NoError(t, server.Restart(t.Context()))
	}
	testenv.Eventually(t, "Redis is back", func() bool { return w.Redis.Ping(t.Context()).Err() == nil })
	require.Len(t, w.audited(couponID, "COUPON_PAUSED"), 2)
	require.EqualValues(t, "ACCEPTED", w.Answer(couponID, 1), "Redis still has the old window")
	w.Refresh()
	require.EqualValues(t, "PAUSED", w.Answer(couponID, 2))

	require.NoError(t, server.Kill())
	code, stdout, stderr := w.changes("close", couponID)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "the change is recorded")
	require.Contains(t, stderr, "apply-api")
	require.Len(t, w.audited(couponID, "COUPON_CLOSED"), 1)
}
