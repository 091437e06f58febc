package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
)

func TestLowestArrivalsAreIssuedAndARerunChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(10)
	line := reversed(between(1, 30)) // so that order of arrival is not order of id
	w.users(line...)
	w.apply(couponID, line...)
	w.verify()

	report := w.settleNow()
	require.Equal(t, settle.Total{Coupons: 1, Counts: settle.Counts{Read: 30, Issued: 10, NotSelected: 20}, Millis: report.Total.Millis}, report.Total)
	require.Equal(t, line[:10], w.issued(couponID))
	require.Equal(t, line[10:], w.outcome(couponID, "NOT_SELECTED"))
	require.Empty(t, w.waiting(couponID))
	w.verify()

	before := w.everything()
	again := w.settleNow()
	require.Equal(t, coupon.Unchanged, again.Coupons[0].Status)
	require.Equal(t, before, w.everything())
}

func TestEightRunsAtOnceIssueOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupons := []uint64{w.coupon(100), w.coupon(5), w.coupon(2000)}
	line := between(1, 1000)
	w.users(line...)
	for _, c := range coupons {
		w.apply(c, line...)
	}

	var runs sync.WaitGroup
	reports := make([]*settle.Report, 8)
	for i := range reports {
		runs.Go(func() {
			code, report := w.settleNowCode()
			assert.Zero(t, code)
			reports[i] = report
		})
	}
	runs.Wait()
	issued, notSelected := 0, 0
	for _, r := range reports {
		issued += r.Total.Issued
		notSelected += r.Total.NotSelected
	}
	require.Equal(t, 100+5+1000, issued)
	require.Equal(t, 900+995, notSelected)
	require.Equal(t, line[:100], w.issued(coupons[0]))
	require.Equal(t, line[:5], w.issued(coupons[1]))
	require.Equal(t, line, w.issued(coupons[2]))
	w.verify()
}

func TestSeatsOfTheRefusedGoToTheNextInLine(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string][3]int{"early": {3, 17, 30}, "at the border": {49, 50, 51}, "behind the last seat": {55, 57, 59}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			couponID := w.coupon(50)
			began := w.now().Add(-time.Minute)
			arrivals := map[string]int64{}
			var able []uint64
			for place := range 60 {
				member, arrival := fmt.Sprint(place+1), began.Add(time.Duration(place)*time.Millisecond)
				switch place {
				case bad[0]: // no such user
				case bad[1]:
					w.exec("INSERT INTO `user` (id, status) VALUES (?, 'BLOCKED')", place+1)
				case bad[2]:
					member = "abc"
				default:
					w.users(uint64(place + 1))
					able = append(able, uint64(place+1))
				}
				w.stand(couponID, member, arrival)
				arrivals[member] = arrival.UnixMicro()
			}

			report := w.settleNow()
			require.Equal(t, 3, report.Total.UnderReview)
			require.Equal(t, able[:50], w.issued(couponID))
			require.Equal(t, able[50:], w.outcome(couponID, "NOT_SELECTED"))
			unknown, blocked := fmt.Sprint(bad[0]+1), fmt.Sprint(bad[1]+1)
			require.Equal(t, map[string]int64{unknown: arrivals[unknown], blocked: arrivals[blocked], "abc": arrivals["abc"]}, w.underReview(couponID))
			require.Equal(t, "UNKNOWN_USER", w.reason(couponID, unknown).Cause)
			require.Equal(t, "INACTIVE_USER", w.reason(couponID, blocked).Cause)
			require.Contains(t, w.reason(couponID, blocked).Message, "BLOCKED")
			require.Equal(t, "MALFORMED_USER_ID", w.reason(couponID, "abc").Cause)
			require.Equal(t, report.Run, w.reason(couponID, "abc").Run)
			require.False(t, w.reason(couponID, "abc").Retryable)
			w.verify()

			require.Equal(t, coupon.Unchanged, w.settleNow().Coupons[0].Status)
			w.verify()
		})
	}
}

func TestTheCutoffIsExclusiveToTheMicrosecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seoul, err := time.LoadLocation("Asia/Seoul")
	require.NoError(t, err)
	midnight := calendar.DefaultCutoff(w.now().Add(-24*time.Hour), seoul)
	couponID := w.couponBetween(10, midnight.Add(-24*time.Hour), midnight.Add(48*time.Hour))
	w.users(1, 2)
	w.stand(couponID, "1", midnight.Add(-time.Microsecond)) // 23:59:59.999999
	w.stand(couponID, "2", midnight)                        // 00:00:00.000000

	day := func(d time.Time) string { return "--date=" + d.In(seoul).Format(time.DateOnly) }
	tonight, tomorrow := day(midnight.Add(-time.Hour)), day(midnight.Add(time.Hour))
	person := []string{"--operator=kim", "--reason=test"}

	code, _, stderr := w.settle(append([]string{"run", tonight}, person...)...)
	require.Zero(t, code, stderr)
	require.Equal(t, []uint64{1}, w.issued(couponID))
	require.Equal(t, []string{"2"}, w.waiting(couponID))
	w.verify()

	code, _, stderr = w.settle(append([]string{"run", tomorrow}, person...)...)
	require.Zero(t, code, stderr)
	require.Equal(t, []uint64{1, 2}, w.issued(couponID))
	var appliedAt time.Time
	require.NoError(t, w.db.QueryRow("SELECT applied_at FROM user_coupon WHERE user_id = 1").Scan(&appliedAt))
	require.Equal(t, midnight.Add(-time.Microsecond).UTC(), appliedAt)
	w.verify()
}

func TestBareRunIsTheNightlyOneWithTheLastMidnight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.now()
	seoul, _ := time.LoadLocation("Asia/Seoul")
	midnight := calendar.DefaultCutoff(now, seoul)
	couponID := w.couponBetween(10, midnight.Add(-time.Hour), midnight.Add(48*time.Hour))
	w.users(1, 2)
	w.stand(couponID, "1", midnight.Add(-time.Minute))
	w.stand(couponID, "2", midnight)

	code, stdout, stderr := w.settle("run")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "CRON")
	require.Equal(t, []uint64{1}, w.issued(couponID))
	var trigger, status string
	var cutoff time.Time
	require.NoError(t, w.db.QueryRow("SELECT trigger_kind, status, cutoff FROM settlement_run").Scan(&trigger, &status, &cutoff))
	require.Equal(t, []string{"CRON", "SUCCEEDED"}, []string{trigger, status})
	require.Equal(t, midnight.UTC(), cutoff)
}

func TestSeatsAddedLaterGoToTheNotSelectedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(2)
	w.users(between(1, 9)...)
	w.apply(couponID, between(1, 8)...)
	w.settleNow()
	receipt, err := w.store.Apply(t.Context(), couponID, 9)
	require.NoError(t, err)
	require.Equal(t, candidates.SoldOut, receipt.Code)

	w.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = 3")
	w.exec("INSERT INTO user_coupon (coupon_id, user_id) VALUES (?, 4)", couponID) // by hand
	w.exec("UPDATE coupon SET total_quantity = 5, issued_count = 3 WHERE id = ?", couponID)
	w.settleNow()
	require.ElementsMatch(t, []uint64{1, 2, 4, 5, 6}, w.issued(couponID))
	require.Equal(t, []uint64{3}, w.outcome(couponID, "REJECTED"))
	require.Equal(t, []uint64{4}, w.outcome(couponID, "ALREADY_ISSUED"))
	require.Equal(t, []uint64{7, 8}, w.outcome(couponID, "NOT_SELECTED"))
	w.verify()

	// With seats for everybody and nobody left behind, the door opens again.
	w.exec("UPDATE coupon SET total_quantity = 20 WHERE id = ?", couponID)
	w.settleNow()
	require.Empty(t, w.outcome(couponID, "NOT_SELECTED"))
	w.apply(couponID, 9)
	w.settleNow()
	require.Contains(t, w.issued(couponID), uint64(9))
	w.verify()
}

func TestWhatStandsInRedisAgainAfterItWasSettledIsNotSettledTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(2)
	w.users(between(1, 4)...)
	w.apply(couponID, between(1, 4)...)
	line, err := w.rdb.ZRangeWithScores(t.Context(), w.queue(couponID), 0, -1).Result()
	require.NoError(t, err)
	w.settleNow()
	w.exec("UPDATE settlement SET cleaned_at = NULL")
	before := w.everything()

	// As after a crash between commit and clean-up.
	require.NoError(t, w.rdb.ZAdd(t.Context(), w.queue(couponID), line...).Err())
	code, report := w.verifyCode()
	require.Zero(t, code)
	require.Zero(t, report.Total.Gap)

	w.settleNow()
	require.Empty(t, w.waiting(couponID))
	w.verify()
	w.exec("UPDATE settlement SET cleaned_at = NULL")
	require.Equal(t, before, w.everything())
}

func TestAGapHoldsItsCouponUntilItIsAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hurt, whole := w.coupon(10), w.coupon(10)
	w.users(between(1, 5)...)
	w.apply(hurt, between(1, 5)...)
	w.apply(whole, between(1, 5)...)
	require.NoError(t, w.rdb.ZRem(t.Context(), w.queue(hurt), "2", "4").Err())

	code, report := w.settleNowCode()
	require.Equal(t, 3, code)
	require.Equal(t, coupon.HeldBack, report.Coupons[0].Status)
	require.EqualValues(t, 2, report.Coupons[0].Gap)
	require.Contains(t, report.Coupons[0].Error, "--accept-gap")
	require.Empty(t, w.issued(hurt))
	require.Equal(t, between(1, 5), w.issued(whole))
	require.Equal(t, []string{"1", "3", "5"}, w.waiting(hurt))
	code, verdict := w.verifyCode()
	require.Equal(t, 3, code)
	require.EqualValues(t, 2, verdict.Total.Gap)

	code, _ = w.settleNowCode("--accept-gap")
	require.Zero(t, code)
	require.Equal(t, []uint64{1, 3, 5}, w.issued(hurt))
	var actor, reason, detail string
	require.NoError(t, w.db.QueryRow("SELECT actor, reason, detail FROM audit_event WHERE action = 'GAP_ACCEPTED' AND coupon_id = ?", hurt).Scan(&actor, &reason, &detail))
	require.Equal(t, []string{"kim", "test"}, []string{actor, reason})
	require.Contains(t, detail, "2 applications")
	w.verify()
}

func TestAFinishedCouponIsSweptAndFinalised(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.now()
	couponID := w.couponBetween(1, now.Add(-2*time.Hour), now.Add(time.Hour))
	underReview := w.couponBetween(1, now.Add(-2*time.Hour), now.Add(time.Hour))
	w.users(1, 2)
	w.apply(couponID, 1, 2)
	w.apply(underReview, 1, 99) // there is no user 99
	for _, c := range []uint64{couponID, underReview} {
		w.exec("UPDATE coupon SET apply_closes_at = ? WHERE id = ?", now.Add(-time.Hour), c)
		w.publish(c, now.Add(-2*time.Hour), now.Add(-time.Hour))
	}

	w.settleNow()
	finalised := w.ids("SELECT id FROM coupon WHERE finalised_at IS NOT NULL")
	require.Equal(t, []uint64{couponID}, finalised)
	require.Zero(t, w.rdb.Exists(t.Context(), w.queue(couponID), "issued:{"+w.queue(couponID)+"}").Val())
	ttl := w.rdb.TTL(t.Context(), "state:{"+w.queue(couponID)+"}").Val()
	require.InDelta(t, 600, ttl.Seconds(), 60)
	require.Contains(t, w.underReview(underReview), "99")
	w.verify()

	// Without its state the account still adds up, and nobody settles it again.
	require.NoError(t, w.rdb.Del(t.Context(), "state:{"+w.queue(couponID)+"}").Err())
	w.verify()
	report := w.settleNow()
	require.Len(t, report.Coupons, 1)
	require.Equal(t, underReview, report.Coupons[0].Coupon)
}

func TestLongLinesArePagedInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const applicants, seats, more = 45_000, 2_345, 40_000
	couponID := w.coupon(seats)
	line := between(1, applicants)
	w.users(line...)
	w.standAll(couponID, line)

	report := w.settleNow()
	require.Equal(t, seats, report.Total.Issued)
	require.Equal(t, applicants-seats, report.Total.NotSelected)
	require.Equal(t, line[:seats], w.issued(couponID))
	w.verify()

	w.exec("UPDATE coupon SET total_quantity = total_quantity + ? WHERE id = ?", more, couponID)
	report = w.settleNow()
	require.Equal(t, more, report.Total.Issued)
	require.Equal(t, line[:seats+more], w.issued(couponID))
	require.Equal(t, line[seats+more:], w.outcome(couponID, "NOT_SELECTED"))
	w.verify()
}

func TestTheLargestUserIDsAreKeptToTheDigit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(3)
	line := []uint64{math.MaxUint64, 1 << 63, 1<<53 + 1}
	w.users(line...)
	w.apply(couponID, line...)
	w.settleNow()
	require.Equal(t, line, w.issued(couponID))
	w.verify()
}

func TestABusyCouponIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(3)
	w.users(1)
	w.apply(couponID, 1)
	release := w.lock(couponID)

	// Told to stop while it waits for the lock, it leaves at once and moves nothing.
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan int)
	go func() {
		waiting <- run(ctx, append([]string{"run", "--shutdown-grace=1ms", "--cutoff=now", "--operator=kim", "--reason=test"}, w.servers...), io.Discard, io.Discard)
	}()
	w.awaitLockWait()
	cancel()
	require.Equal(t, 1, <-waiting)
	require.Equal(t, []string{"1"}, w.waiting(couponID))
	require.Empty(t, w.issued(couponID))

	release()
	w.settleNow()
	require.Equal(t, []uint64{1}, w.issued(couponID))
	w.verify()
}

func TestWhoWasPassedOverGetsTheNextFreeSeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(2)
	w.users(1, 3, 4)
	w.exec("INSERT INTO `user` (id, status) VALUES (2, 'BLOCKED')")
	w.apply(couponID, between(1, 4)...)
	w.settleNow()
	require.Equal(t, []uint64{1, 3}, w.issued(couponID))

	// As if the run had died before it put user 2 under review, who is unblocked by the time of the next.
	arrival := w.underReview(couponID)["2"]
	require.NoError(t, w.rdb.ZRem(t.Context(), "dlq:{"+w.queue(couponID)+"}", "2").Err())
	require.NoError(t, w.rdb.ZAdd(t.Context(), w.queue(couponID), redis.Z{Score: float64(arrival), Member: "2"}).Err())
	w.exec("UPDATE settlement SET cleaned_at = NULL")
	w.exec("UPDATE `user` SET status = 'ACTIVE' WHERE id = 2")

	w.settleNow()
	require.Equal(t, map[string]int64{"2": arrival}, w.underReview(couponID))
	require.Equal(t, "PASSED_OVER", w.reason(couponID, "2").Cause)
	require.Equal(t, []uint64{4}, w.outcome(couponID, "NOT_SELECTED"))
	w.verify()

	w.exec("UPDATE coupon SET total_quantity = 3 WHERE id = ?", couponID)
	w.settleNow()
	require.Equal(t, []uint64{1, 3, 2}, w.issued(couponID))
	require.Empty(t, w.underReview(couponID))
	w.verify()
}

func TestRetryableEntriesOfTheDLQStandInLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(3)
	w.users(between(1, 5)...)
	w.apply(couponID, between(1, 5)...)
	page, _, err := w.store.Page(t.Context(), couponID, coupon.Cursor{}, w.now())
	require.NoError(t, err)
	_, err = w.store.Review(t.Context(), couponID, 0, time.Time{}, []coupon.Failure{
		{Application: page[0], Cause: "DATABASE_AWAY", Retryable: true},
		{Application: page[1], Cause: "UNKNOWN_USER"},
		{Application: page[4], Cause: "DATABASE_AWAY", Retryable: true},
	})
	require.NoError(t, err)

	w.settleNow()
	require.Equal(t, []uint64{1, 3, 4}, w.issued(couponID))
	require.Equal(t, []uint64{5}, w.outcome(couponID, "NOT_SELECTED"))
	require.Equal(t, map[string]int64{"2": page[1].Arrival}, w.underReview(couponID))
	w.verify()
}
