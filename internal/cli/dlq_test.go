package cli

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// dlq runs `settle dlq VERB` for a coupon.
func (w *world) dlq(verb string, couponID uint64, extra ...string) (code int, stdout, stderr string) {
	w.t.Helper()
	return w.settle(append([]string{"dlq", verb, fmt.Sprintf("--coupon=%d", couponID), "--operator=lee", "--reason=TICKET-7"}, extra...)...)
}

func TestARetriedApplicationGetsTheNextFreeSeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(3)
	w.users(1, 2, 3, 4, 5)
	w.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id IN (1, 2, 3)")
	w.apply(couponID, 1, 2, 3, 4)
	w.settleNow()
	require.Equal(t, []uint64{4}, w.issued(couponID))

	w.exec("UPDATE `user` SET status = 'ACTIVE' WHERE id IN (1, 2)")
	w.apply(couponID, 5)
	w.settleNow()
	require.Equal(t, []uint64{4, 5}, w.issued(couponID), "held entries are not in the line")
	require.Len(t, w.underReview(couponID), 3)

	code, stdout, stderr := w.dlq("retry", couponID, "--cutoff=now", "--output=json")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, string(coupon.DLQRetry))
	require.Equal(t, []uint64{4, 5, 1}, w.issued(couponID), "of those that can be issued, the first in line")
	left := w.underReview(couponID)
	require.Len(t, left, 2)
	require.True(t, w.reason(couponID, "2").Retryable)
	require.False(t, w.reason(couponID, "3").Retryable, "still blocked: a person must look again")
	require.Equal(t, 2, w.reason(couponID, "3").Attempts)
	require.Equal(t, []uint64{0}, w.ids("SELECT COALESCE(user_id, 0) FROM audit_event WHERE action = 'DLQ_RETRIED' AND actor = 'lee' AND reason = 'TICKET-7'"))
	w.verify()

	w.exec("UPDATE coupon SET total_quantity = 4 WHERE id = ?", couponID)
	code, _, stderr = w.dlq("retry", couponID, "--user=2", "--cutoff=now")
	require.Zero(t, code, stderr)
	require.Equal(t, []uint64{4, 5, 1, 2}, w.issued(couponID))
	require.Contains(t, w.ids("SELECT COALESCE(user_id, 0) FROM audit_event WHERE action = 'DLQ_RETRIED'"), uint64(2))
	w.verify()
}

func TestADroppedApplicationIsRejectedForGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(3)
	w.users(1, 2)
	w.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id IN (1, 2)")
	w.apply(couponID, 1, 2)
	w.stand(couponID, "kim", w.now())
	w.settleNow()

	code, _, stderr := w.dlq("drop", couponID, "--user=2", "--user=kim")
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "2 applications")
	require.Len(t, w.underReview(couponID), 1)
	require.Equal(t, candidates.Rejected, w.answer(couponID, 2))
	require.Equal(t, candidates.UnderReview, w.answer(couponID, 1))
	var reasons []string
	rows, err := w.db.Query("SELECT reason FROM application_outcome WHERE coupon_id = ? AND outcome = 'REJECTED' ORDER BY user_id", couponID)
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

	code, _, stderr = w.dlq("drop", couponID, "--user=2")
	require.Equal(t, 2, code, "it is not under review any more")
	require.Contains(t, stderr, `user "2" is not under review`)
	w.exec("UPDATE `user` SET status = 'ACTIVE'")
	code, _, stderr = w.dlq("retry", couponID, "--user=1", "--user=2")
	require.Equal(t, 2, code, stderr)
	require.False(t, w.reason(couponID, "1").Retryable, "nothing is done when one of them is wrong")
	w.verify()
}

// A drop that dies between the record and Redis is mended by the next run.
func TestADropThatRedisHasNotHeardOfIsMended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.now()
	couponID := w.couponBetween(3, now.Add(-72*time.Hour), now.Add(72*time.Hour))
	w.users(1)
	w.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = 1")
	w.apply(couponID, 1)
	w.stand(couponID, "kim", now)
	w.settleNow()
	dlq, reasons := "dlq:{"+w.queue(couponID)+"}", "dlq:reason:{"+w.queue(couponID)+"}"
	entries, err := w.rdb.ZRangeWithScores(t.Context(), dlq, 0, -1).Result()
	require.NoError(t, err)
	why, err := w.rdb.HGetAll(t.Context(), reasons).Result()
	require.NoError(t, err)
	code, _, stderr := w.dlq("drop", couponID, "--user=1", "--user=kim")
	require.Zero(t, code, stderr)

	// As it was between the commit and Redis.
	require.NoError(t, w.rdb.ZAdd(t.Context(), dlq, entries...).Err())
	require.NoError(t, w.rdb.HSet(t.Context(), reasons, why).Err())
	require.NoError(t, w.rdb.Del(t.Context(), "rejected:{"+w.queue(couponID)+"}").Err())
	w.exec("UPDATE settlement SET cleaned_at = NULL")
	require.Equal(t, candidates.UnderReview, w.answer(couponID, 1))

	w.settleNow()
	require.Empty(t, w.underReview(couponID))
	require.Equal(t, candidates.Rejected, w.answer(couponID, 1))
	w.verify()
}

func TestManyAreRetriedAndDroppedPageByPage(t *testing.T) {
	t.Parallel()
	const many = 700 // several pages of the DLQ
	w := newWorld(t)
	couponID := w.coupon(many)
	w.apply(couponID, between(1, many)...) // there are no such users
	w.settleNow()
	require.Len(t, w.underReview(couponID), many)
	w.users(between(1, many-1)...)
	code, _, stderr := w.dlq("retry", couponID, "--cutoff=now")
	require.Zero(t, code, stderr)
	require.Equal(t, between(1, many-1), w.issued(couponID))
	require.Len(t, w.underReview(couponID), 1)
	w.verify()
}

// Each of them has an audit event of its own, in one chain.
func TestManyAreDroppedAtOnce(t *testing.T) {
	t.Parallel()
	const many = 450 // several batches of events
	w := newWorld(t)
	couponID := w.coupon(1)
	users := append(between(1, many), 1<<63+7) // as far as ids go
	w.apply(couponID, users...)                // there are no such users
	w.settleNow()
	var named []string
	for _, user := range users {
		named = append(named, fmt.Sprintf("--user=%d", user))
	}
	for _, half := range [][]string{named[:10], named[10:]} {
		code, _, stderr := w.dlq("drop", couponID, half...)
		require.Zero(t, code, stderr)
	}
	require.Empty(t, w.underReview(couponID))
	require.Equal(t, users, w.ids("SELECT user_id FROM audit_event WHERE coupon_id = ? AND action = 'DLQ_DROPPED' ORDER BY seq", couponID))
	w.verify()
}

func TestAnEntryWithoutAReasonCanBeRetriedToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(1)
	w.users(1)
	w.apply(couponID, 1)
	arrival, err := w.rdb.ZScore(t.Context(), w.queue(couponID), "1").Result()
	require.NoError(t, err)
	require.NoError(t, w.rdb.ZRem(t.Context(), w.queue(couponID), "1").Err())
	require.NoError(t, w.rdb.ZAdd(t.Context(), "dlq:{"+w.queue(couponID)+"}", redis.Z{Score: arrival, Member: "1"}).Err())
	w.settleNow()
	require.Empty(t, w.issued(couponID))
	code, _, stderr := w.dlq("retry", couponID, "--cutoff=now")
	require.Zero(t, code, stderr)
	require.Equal(t, []uint64{1}, w.issued(couponID))
	w.verify()
}

// The settlement comes with the midnight; that somebody wants it tried again is kept until then.
func TestARetryBeforeTheFirstMidnightIsKeptForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	noon := fmt.Sprintf("--settle-time-zone=Etc/GMT%+d", w.now().UTC().Hour()-12) // where midnight is far; the sign is POSIX's
	couponID := w.coupon(1)
	w.apply(couponID, 1) // there is no such user
	w.settleNow()
	w.users(1)
	code, stdout, stderr := w.dlq("retry", couponID, noon)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, string(coupon.NotDue))
	require.True(t, w.reason(couponID, "1").Retryable)
	w.settleNow()
	require.Equal(t, []uint64{1}, w.issued(couponID))
	w.verify()
}
