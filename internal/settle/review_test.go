package settle_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/verify"
)

func TestRetry_GivesNextFreeSeat(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(3)
	d.AddUsers(1, 2, 3, 4, 5)
	d.SetStatus(jajeongtest.Blocked, 1, 2, 3)
	d.Apply(couponID, 1, 2, 3, 4)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{4}, d.Issued(couponID))

	d.SetStatus(jajeongtest.Active, 1, 2)
	d.Apply(couponID, 5)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{4, 5}, d.Issued(couponID), "held entries are not tried")
	require.Len(t, d.UnderReview(couponID), 3)

	require.Equal(t, coupon.DLQRetry, d.Retry(couponID).Trigger)
	require.Equal(t, []coupon.UserID{4, 5, 1}, d.Issued(couponID), "the first application that can be issued")
	left := d.UnderReview(couponID)
	require.Len(t, left, 2)
	require.True(t, d.Reason(couponID, "2").Retryable)
	require.False(t, d.Reason(couponID, "3").Retryable, "still blocked: needs another decision")
	require.Equal(t, 2, d.Reason(couponID, "3").Attempts)
	require.Contains(t, d.Reason(couponID, "3").Note, "BLOCKED")
	require.Equal(t, []uint64{0},
		d.IDs("SELECT COALESCE(user_id, 0) FROM audit_event WHERE action = 'DLQ_RETRIED' AND actor = 'kim' AND "+
			"reason = 'test'"))
	d.Verify()

	d.SetSeats(couponID, 4)
	d.Retry(couponID, "2")
	require.Equal(t, []coupon.UserID{4, 5, 1, 2}, d.Issued(couponID))
	require.Contains(t, d.IDs("SELECT COALESCE(user_id, 0) FROM audit_event WHERE action = 'DLQ_RETRIED'"), uint64(2))
	d.Verify()
}

func TestDrop_RejectsForGood(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(3, 1, 2)
	d.SetStatus(jajeongtest.Blocked, 1, 2)
	d.ApplyAt(couponID, "kim", d.Now())
	d.SettleNow()

	d.Drop(couponID, "2", "kim")
	require.Len(t, d.UnderReview(couponID), 1)
	require.Equal(t, candidates.Rejected, d.Answer(couponID, 2))
	require.Equal(t, candidates.UnderReview, d.Answer(couponID, 1))
	reasons := jajeongtest.Column[string](d,
		"SELECT CONCAT_WS('|', cause, note, member) FROM application_outcome WHERE coupon_id = ? AND outcome = "+
			"'REJECTED' ORDER BY user_id", couponID)
	require.Equal(t, []string{"test|kim", "test"}, reasons)
	require.Len(t, d.IDs("SELECT id FROM audit_event WHERE action = 'DLQ_DROPPED' AND actor = 'kim'"), 2)
	d.Verify()

	notInDLQ := func(decide func(context.Context, coupon.CouponID, settle.Order, []string) (*settle.Report, error),
		members ...string) {
		t.Helper()
		_, err := decide(t.Context(), couponID, jajeongtest.Manual(), members)
		require.ErrorContains(t, err, `user "2" is not under review`)
		require.Equal(t, coupon.Setup, mysqltx.ClassOf(err))
	}
	notInDLQ(d.Settler().Drop, "2")
	d.SetStatus(jajeongtest.Active)
	notInDLQ(d.Settler().Retry, "1", "2")
	require.False(t, d.Reason(couponID, "1").Retryable, "nothing is done when one of them is wrong")
	d.Verify()
}

// The next run cleans Redis if a drop died after its record.
func TestDrop_IsCleanedUpByNextRunAfterCrash(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	now := d.Now()
	couponID := d.AddCouponBetween(3, now.Add(-72*time.Hour), now.Add(72*time.Hour))
	d.AddUsers(1)
	d.SetStatus(jajeongtest.Blocked, 1)
	d.Apply(couponID, 1)
	d.ApplyAt(couponID, "kim", now)
	d.SettleNow()
	dlq, reasons := d.Key("dlq", couponID), d.Key("dlq:reason", couponID)
	entries, err := d.Redis.ZRangeWithScores(t.Context(), dlq, 0, -1).Result()
	require.NoError(t, err)
	why, err := d.Redis.HGetAll(t.Context(), reasons).Result()
	require.NoError(t, err)
	d.Drop(couponID, "1", "kim")

	// As between the commit and the clean-up.
	require.NoError(t, d.Redis.ZAdd(t.Context(), dlq, entries...).Err())
	require.NoError(t, d.Redis.HSet(t.Context(), reasons, why).Err())
	require.NoError(t, d.Redis.Del(t.Context(), d.Key("rejected", couponID)).Err())
	d.Exec("UPDATE settlement SET cleaned_at = NULL")
	require.Equal(t, candidates.UnderReview, d.Answer(couponID, 1))

	d.SettleNow()
	require.Empty(t, d.UnderReview(couponID))
	require.Equal(t, candidates.Rejected, d.Answer(couponID, 1))
	d.Verify()
}

func TestRetry_ReadsAllPagesOfDLQ(t *testing.T) {
	t.Parallel()
	const many = 700 // several pages of the DLQ
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(many)
	d.Apply(couponID, between(1, many)...) // there are no such users
	d.SettleNow()
	require.Len(t, d.UnderReview(couponID), many)
	d.AddUsers(between(1, many-1)...)
	d.Retry(couponID)
	require.Equal(t, between(1, many-1), d.Issued(couponID))
	require.Len(t, d.UnderReview(couponID), 1)
	d.Verify()
}

// Each application has an audit event of its own, in one chain.
func TestDrop_RecordsOneAuditEventPerApplication(t *testing.T) {
	t.Parallel()
	const many = 450 // several batches of events
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(1)
	users := append(between(1, many), 1<<63+7) // as far as ids go
	d.Apply(couponID, users...)                // there are no such users
	d.SettleNow()
	members := strings.Fields(strings.Trim(fmt.Sprint(users), "[]"))
	d.Drop(couponID, members[:10]...)
	d.Drop(couponID, members[10:]...)
	require.Empty(t, d.UnderReview(couponID))
	require.Equal(t, users, jajeongtest.Column[coupon.UserID](d,
		"SELECT user_id FROM audit_event WHERE coupon_id = ? AND action = 'DLQ_DROPPED' ORDER BY seq", couponID))
	d.Verify()
}

func TestRetry_AcceptsEntryWithoutReason(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(1, 1)
	arrival, err := d.Redis.ZScore(t.Context(), d.Queue(couponID), "1").Result()
	require.NoError(t, err)
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(couponID), "1").Err())
	require.NoError(t, d.Redis.ZAdd(t.Context(), d.Key("dlq", couponID), redis.Z{Score: arrival, Member: "1"}).Err())
	d.SettleNow()
	require.Empty(t, d.Issued(couponID))
	d.Retry(couponID)
	requireSettled(d, couponID, results{issued: []coupon.UserID{1}})
}

// The settlement is at midnight. The decision to retry is kept until then.
func TestRetry_BeforeCutoffIsKeptForNextRun(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(1)
	d.Apply(couponID, 1) // there is no such user
	d.SettleNow()
	d.AddUsers(1)
	s := d.Settler(func(s *settle.Settler) { s.Zone = jajeongtest.InZone(d.Noon()) })
	order := jajeongtest.Manual()
	order.CutoffNow = false
	report, err := s.Retry(t.Context(), couponID, order, nil)
	require.NoError(t, err)
	require.Equal(t, coupon.NotDue, report.Coupons[0].Status)
	require.True(t, d.Reason(couponID, "1").Retryable)
	d.SettleNow()
	requireSettled(d, couponID, results{issued: []coupon.UserID{1}})
}

func TestDrop_KeepsOneOfTwoMembersWithSameArrival(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(5)
	hostile := []string{"\x1b[2J\x1b[31mowned", "\u009b31mred", "\xff\xfe", "=HYPERLINK(\"http://x\")",
		strings.Repeat("x", 1<<20), "a\r\nb\u2028c"}
	at := d.Now().Add(-time.Minute)
	for i, member := range hostile {
		d.ApplyAt(couponID, member, at.Add(time.Duration(i)*time.Millisecond))
	}
	d.ApplyAt(couponID, "twin", at.Add(time.Second))
	d.ApplyAt(couponID, "of-twin", at.Add(time.Second))
	d.SettleNow()
	require.Len(t, d.UnderReview(couponID), len(hostile)+2)

	drop := func(members ...string) *settle.Report {
		t.Helper()
		report, err := d.Settler().Drop(t.Context(), couponID, jajeongtest.Manual(), members)
		require.NoError(t, err)
		require.Equal(t, []coupon.Class{coupon.Setup}, report.Classes())
		return report
	}
	report := drop(append(hostile, "twin", "of-twin")...)
	require.Equal(t, len(hostile)+1, report.Total.Rejected)
	require.Contains(t, report.Coupons[0].Error, "stays under review: it has the same arrival as a dropped entry")
	left := d.UnderReview(couponID)
	require.Len(t, left, 1)
	last := slices.Collect(maps.Keys(left))[0]
	require.Contains(t, []string{"twin", "of-twin"}, last)
	require.Len(t, d.Outcome(couponID, "REJECTED"), len(hostile)+1)
	require.Len(t, d.IDs("SELECT id FROM audit_event WHERE action = 'DLQ_DROPPED'"), len(hostile)+1,
		"one event for each dropped application")
	drop(last)
	d.SettleNow()
	require.Len(t, d.UnderReview(couponID), 1, "no application is removed without a record")
}

func TestDrop_KeepsEntryWhoseRowTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(5, 1, 2, 3)
	d.SetStatus(jajeongtest.Blocked)
	d.SettleNow()
	allow := d.RefuseRows("application_outcome", 2)
	report, err := d.Settler().Drop(t.Context(), couponID, jajeongtest.Manual(), []string{"1", "2", "3"})
	require.NoError(t, err)
	require.Equal(t, []coupon.Class{coupon.Setup}, report.Classes())
	require.Equal(t, 2, report.Total.Rejected)
	require.Contains(t, report.Coupons[0].Error, "an odd user")
	require.Equal(t, []coupon.UserID{1, 3}, d.Outcome(couponID, "REJECTED"))
	require.Len(t, d.UnderReview(couponID), 1)
	require.False(t, d.Reason(couponID, "2").Retryable, "it is held as before")
	allow()
	d.Verify()
}

// The audit chain has the arrival and the reason of each dropped application. Rejections by a run are not in it.
func TestVerify_ComparesRejectionsWithAuditChain(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(2)
	d.AddUsers(between(1, 9)...)
	d.SetStatus(jajeongtest.Blocked, 1, 2)
	d.Apply(couponID, between(1, 7)...)
	d.ApplyAt(couponID, "kim \"x\"", d.Now())
	d.SettleNow()
	d.Drop(couponID, "1", `kim "x"`)
	d.SetStatus(jajeongtest.Blocked, 5)
	d.SetSeats(couponID, 3)
	d.SettleNow() // rejects 5
	require.ElementsMatch(t, []coupon.UserID{1, 0, 5}, d.Outcome(couponID, "REJECTED"))
	d.Verify()

	for name, altered := range map[string]struct{ to, back string }{
		"another user": {"user_id = 9", "user_id = 1"},
		"another arrival": {"applied_at = applied_at - INTERVAL 1 MICROSECOND",
			"applied_at = applied_at + INTERVAL 1 MICROSECOND"},
		"another reason":                  {"note = 'for a friend'", "note = 'test'"},
		"a reason with a blank behind it": {"note = CONCAT(note, ' ')", "note = 'test'"},
		"no reason":                       {"note = ''", "note = 'test'"},
	} {
		d.Exec("UPDATE application_outcome SET " + altered.to + " WHERE user_id = 1")
		findings := d.Findings()
		require.Contains(t, findings, verify.OutcomeWrong, name)
		require.Subset(t, []verify.Code{verify.OutcomeWrong, verify.MarkedWithoutRejection}, findings, name)
		d.Exec("UPDATE application_outcome SET " + altered.back + " WHERE user_id IN (1, 9)")
	}
	d.Verify()
	d.Exec("UPDATE application_outcome SET cause = NULL, note = 'BAD_ROW: a wrong reason' WHERE user_id = 5")
	require.Equal(t, []verify.Code{verify.OutcomeWrong}, d.Findings())
}

// The application arrived after the last issued one. The next run that is not a retry decides about it, and added seats
// are offered to it in order.
func TestRetry_KeepsEntryWithoutFreeSeat(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(1, 1, 2, 3)
	d.SetStatus(jajeongtest.Blocked, 2)
	d.SettleNow()
	d.SetStatus(jajeongtest.Active, 2)
	for range 2 { // also a second time
		d.Retry(couponID, "2")
		require.Contains(t, d.UnderReview(couponID), "2")
		require.Equal(t, candidates.UnderReview, d.Answer(couponID, 2))
		require.Equal(t, []coupon.UserID{3}, d.Outcome(couponID, "NOT_SELECTED"))
		d.Verify()
	}
	d.SettleNow()
	requireResults(d, couponID, results{issued: []coupon.UserID{1}, notSelected: []coupon.UserID{2, 3}})
	d.SetSeats(couponID, 2)
	d.SettleNow()
	requireSettled(d, couponID, results{issued: []coupon.UserID{1, 2}, notSelected: []coupon.UserID{3}})
}

func TestRetry_KeepsEarlierEntryForAddedSeats(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(2, 1, 2, 3, 4)
	d.SetStatus(jajeongtest.Blocked, 1, 4)
	d.SettleNow()
	d.SetStatus(jajeongtest.Active)
	arrival := d.UnderReview(couponID)["1"]
	d.Retry(couponID, "1")
	require.Equal(t, arrival, d.UnderReview(couponID)["1"])
	require.Equal(t, 1, d.Reason(couponID, "1").Attempts)
	d.Retry(couponID)
	require.Len(t, d.UnderReview(couponID), 2)
	requireSettled(d, couponID, results{issued: []coupon.UserID{2, 3}, review: []string{"1", "4"}})
	d.SettleNow()
	require.Equal(t, map[string]coupon.Arrival{"1": arrival}, d.UnderReview(couponID),
		"it arrived before the last issued one")
	require.Equal(t, []coupon.UserID{4}, d.Outcome(couponID, "NOT_SELECTED"))
	d.Verify()
	d.SetSeats(couponID, 4)
	d.SettleNow()
	requireSettled(d, couponID, results{issued: []coupon.UserID{2, 3, 1, 4}})
}
