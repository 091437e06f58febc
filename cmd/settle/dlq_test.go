package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/settle"
)

// dlq runs `settle dlq VERB` for a coupon.
func (w *world) dlq(verb string, coupon uint64, extra ...string) (code int, stdout, stderr string) {
	w.t.Helper()
	return w.settle(append([]string{"dlq", verb, fmt.Sprintf("--coupon=%d", coupon), "--operator=lee", "--reason=TICKET-7"}, extra...)...)
}

func (w *world) answer(coupon, user uint64) candidates.Code {
	w.t.Helper()
	receipt, err := w.store.Apply(w.t.Context(), coupon, user)
	require.NoError(w.t, err)
	return receipt.Code
}

func TestARetriedApplicationGetsTheNextFreeSeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(3)
	w.users(1, 2, 3, 4, 5)
	w.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id IN (1, 2, 3)")
	w.apply(coupon, 1, 2, 3, 4)
	w.settleNow()
	require.Equal(t, []uint64{4}, w.issued(coupon))

	w.exec("UPDATE `user` SET status = 'ACTIVE' WHERE id IN (1, 2)")
	w.apply(coupon, 5)
	w.settleNow()
	require.Equal(t, []uint64{4, 5}, w.issued(coupon), "held entries are not in the line")
	require.Len(t, w.underReview(coupon), 3)

	code, stdout, stderr := w.dlq("retry", coupon, "--cutoff=now", "--output=json")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, string(settle.DLQRetry))
	require.Equal(t, []uint64{4, 5, 1}, w.issued(coupon), "of those that can be issued, the first in line")
	left := w.underReview(coupon)
	require.Len(t, left, 2)
	require.True(t, w.reason(coupon, "2").Retryable)
	require.False(t, w.reason(coupon, "3").Retryable, "still blocked: a person must look again")
	require.Equal(t, 2, w.reason(coupon, "3").Attempts)
	require.Equal(t, []uint64{0}, w.ids("SELECT COALESCE(user_id, 0) FROM audit_event WHERE action = 'DLQ_RETRIED' AND actor = 'lee' AND reason = 'TICKET-7'"))
	w.verify()

	w.exec("UPDATE coupon SET total_quantity = 4 WHERE id = ?", coupon)
	code, _, stderr = w.dlq("retry", coupon, "--user=2", "--cutoff=now")
	require.Zero(t, code, stderr)
	require.Equal(t, []uint64{4, 5, 1, 2}, w.issued(coupon))
	require.Contains(t, w.ids("SELECT COALESCE(user_id, 0) FROM audit_event WHERE action = 'DLQ_RETRIED'"), uint64(2))
	w.verify()
}

func TestADroppedApplicationIsRejectedForGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(3)
	w.users(1, 2)
	w.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id IN (1, 2)")
	w.apply(coupon, 1, 2)
	w.stand(coupon, "kim", w.now())
	w.settleNow()

	code, _, stderr := w.dlq("drop", coupon, "--user=2", "--user=kim")
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "2 applications")
	require.Len(t, w.underReview(coupon), 1)
	require.Equal(t, candidates.Rejected, w.answer(coupon, 2))
	require.Equal(t, candidates.UnderReview, w.answer(coupon, 1))
	var reasons []string
	rows, err := w.db.Query("SELECT reason FROM application_outcome WHERE coupon_id = ? AND outcome = 'REJECTED' ORDER BY user_id", coupon)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var reason string
		require.NoError(t, rows.Scan(&reason))
		reasons = append(reasons, reason)
	}
	require.Equal(t, []string{`"kim": TICKET-7`, "TICKET-7"}, reasons)
	require.Len(t, w.ids("SELECT id FROM audit_event WHERE action = 'DLQ_DROPPED' AND actor = 'lee'"), 2)
	w.verify()

	code, _, stderr = w.dlq("drop", coupon, "--user=2")
	require.Equal(t, 2, code, "it is not under review any more")
	require.Contains(t, stderr, `user "2" is not under review`)
	w.exec("UPDATE `user` SET status = 'ACTIVE'")
	code, _, stderr = w.dlq("retry", coupon, "--user=1", "--user=2")
	require.Equal(t, 2, code, stderr)
	require.False(t, w.reason(coupon, "1").Retryable, "nothing is done when one of them is wrong")
	w.verify()
}

// A drop that dies between the record and Redis is mended by the next run.
func TestADropThatRedisHasNotHeardOfIsMended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.now()
	coupon := w.couponBetween(3, now.Add(-72*time.Hour), now.Add(72*time.Hour))
	w.users(1)
	w.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = 1")
	w.apply(coupon, 1)
	w.stand(coupon, "kim", now)
	w.settleNow()
	dlq, reasons := "dlq:{"+w.queue(coupon)+"}", "dlq:reason:{"+w.queue(coupon)+"}"
	entries, err := w.rdb.ZRangeWithScores(t.Context(), dlq, 0, -1).Result()
	require.NoError(t, err)
	why, err := w.rdb.HGetAll(t.Context(), reasons).Result()
	require.NoError(t, err)
	code, _, stderr := w.dlq("drop", coupon, "--user=1", "--user=kim")
	require.Zero(t, code, stderr)

	// As it was between the commit and Redis.
	require.NoError(t, w.rdb.ZAdd(t.Context(), dlq, entries...).Err())
	require.NoError(t, w.rdb.HSet(t.Context(), reasons, why).Err())
	require.NoError(t, w.rdb.Del(t.Context(), "rejected:{"+w.queue(coupon)+"}").Err())
	w.exec("UPDATE settlement SET cleaned_at = NULL")
	require.Equal(t, candidates.UnderReview, w.answer(coupon, 1))

	w.settleNow()
	require.Empty(t, w.underReview(coupon))
	require.Equal(t, candidates.Rejected, w.answer(coupon, 1))
	w.verify()
}

func TestManyAreRetriedAndDroppedPageByPage(t *testing.T) {
	t.Parallel()
	const many = 700 // several pages of the DLQ
	w := newWorld(t)
	coupon := w.coupon(many)
	w.apply(coupon, between(1, many)...) // there are no such users
	w.settleNow()
	require.Len(t, w.underReview(coupon), many)
	w.users(between(1, many-1)...)
	code, _, stderr := w.dlq("retry", coupon, "--cutoff=now")
	require.Zero(t, code, stderr)
	require.Equal(t, between(1, many-1), w.issued(coupon))
	require.Len(t, w.underReview(coupon), 1)
	w.verify()
}

// Each of them has an audit event of its own, in one chain.
func TestManyAreDroppedAtOnce(t *testing.T) {
	t.Parallel()
	const many = 450 // several batches of events
	w := newWorld(t)
	coupon := w.coupon(1)
	users := append(between(1, many), 1<<63+7) // as far as ids go
	w.apply(coupon, users...)                  // there are no such users
	w.settleNow()
	var named []string
	for _, user := range users {
		named = append(named, fmt.Sprintf("--user=%d", user))
	}
	for _, half := range [][]string{named[:10], named[10:]} {
		code, _, stderr := w.dlq("drop", coupon, half...)
		require.Zero(t, code, stderr)
	}
	require.Empty(t, w.underReview(coupon))
	require.Equal(t, users, w.ids("SELECT user_id FROM audit_event WHERE coupon_id = ? AND action = 'DLQ_DROPPED' ORDER BY seq", coupon))
	w.verify()
}

func TestAnEntryWithoutAReasonCanBeRetriedToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(1)
	w.users(1)
	w.apply(coupon, 1)
	arrival, err := w.rdb.ZScore(t.Context(), w.queue(coupon), "1").Result()
	require.NoError(t, err)
	require.NoError(t, w.rdb.ZRem(t.Context(), w.queue(coupon), "1").Err())
	require.NoError(t, w.rdb.ZAdd(t.Context(), "dlq:{"+w.queue(coupon)+"}", redis.Z{Score: arrival, Member: "1"}).Err())
	w.settleNow()
	require.Empty(t, w.issued(coupon))
	code, _, stderr := w.dlq("retry", coupon, "--cutoff=now")
	require.Zero(t, code, stderr)
	require.Equal(t, []uint64{1}, w.issued(coupon))
	w.verify()
}

// The settlement comes with the midnight; that somebody wants it tried again is kept until then.
func TestARetryBeforeTheFirstMidnightIsKeptForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	noon := fmt.Sprintf("--settle-time-zone=Etc/GMT%+d", w.now().UTC().Hour()-12) // where midnight is far; the sign is POSIX's
	coupon := w.coupon(1)
	w.apply(coupon, 1) // there is no such user
	w.settleNow()
	w.users(1)
	code, stdout, stderr := w.dlq("retry", coupon, noon)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, string(settle.NotDue))
	require.True(t, w.reason(coupon, "1").Retryable)
	w.settleNow()
	require.Equal(t, []uint64{1}, w.issued(coupon))
	w.verify()
}
