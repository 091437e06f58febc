package cli

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
)

// Midnights pass while people apply all the time: each application is settled in exactly one night, whichever side of
// the cutoff it fell on, and none is settled that came after.
func TestMidnightsWhilePeopleApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const people, nights = 3000, 6
	couponID := w.coupon(people)
	w.users(between(1, people)...)

	var (
		next     atomic.Uint64
		arrivals sync.Map // user → arrival
		crowd    sync.WaitGroup
	)
	for range 16 {
		crowd.Go(func() {
			for user := next.Add(1); user <= people; user = next.Add(1) {
				receipt, err := w.store.Apply(t.Context(), couponID, user)
				if !assert.NoError(t, err) || !assert.Equal(t, candidates.Accepted, receipt.Code) {
					return
				}
				arrivals.Store(user, receipt.Arrival)
			}
		})
	}
	total := 0
	var cutoffs []time.Time
	for range nights {
		report := w.settleNow()
		total += report.Total.Issued
		cutoffs = append(cutoffs, report.Cutoff)
	}
	crowd.Wait()
	last := w.settleNow()
	cutoffs = append(cutoffs, last.Cutoff)
	require.Equal(t, people, total+last.Total.Issued)

	// Every application was settled by the first run whose cutoff lies behind its arrival.
	rows, err := w.db.Query("SELECT c.user_id, c.applied_at, r.cutoff FROM user_coupon c JOIN settlement_run r ON r.id = c.run_id")
	require.NoError(t, err)
	defer rows.Close()
	seen := 0
	for rows.Next() {
		var user uint64
		var appliedAt, cutoff time.Time
		require.NoError(t, rows.Scan(&user, &appliedAt, &cutoff))
		arrival, _ := arrivals.Load(user)
		require.Equal(t, arrival, appliedAt.UnixMicro())
		for i, night := range cutoffs {
			if appliedAt.Before(night) {
				require.Equal(t, night, cutoff, "user %d arrived at %s: night %d", user, appliedAt, i)
				break
			}
		}
		seen++
	}
	require.NoError(t, rows.Err())
	require.Equal(t, people, seen)
	w.verify()
}

// A controller that fires early or late means the same midnight.
func TestAControllerThatIsEarlyOrLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users(between(1, 50_000)...)
	now := w.now()
	zone := time.FixedZone("early", int(calendar.NextCutoff(now, time.UTC).Sub(now).Seconds())-2) // midnight is in two seconds
	midnight := calendar.NextCutoff(now, zone)
	couponID := w.couponBetween(100_000, now.Add(-time.Hour), now.Add(48*time.Hour))
	w.apply(couponID, 1)

	settler := w.settler()
	settler.Zone = zone
	ended := make(chan struct{})
	crowd := w.crowd(couponID, 100, ended)
	report, err := settler.RunOnce(t.Context(), settle.Order{Trigger: coupon.Cron})
	close(ended)
	arrivals := crowd()
	require.NoError(t, err)
	require.True(t, midnight.Equal(report.Cutoff), "%s, not %s", report.Cutoff, midnight)
	require.False(t, w.now().Before(midnight), "the fence waited for the Redis clock")
	issued := map[uint64]bool{}
	for _, user := range w.issued(couponID) {
		issued[user] = true
	}
	require.True(t, issued[1])
	for user, arrival := range arrivals {
		require.Equal(t, arrival < midnight.UnixMicro(), issued[user], "user %d arrived at %d", user, arrival)
	}
	w.apply(couponID, 2) // arrives behind the fence
	receipt, err := w.store.Apply(t.Context(), couponID, 2)
	require.NoError(t, err)
	require.GreaterOrEqual(t, receipt.Arrival, midnight.UnixMicro())

	require.True(t, midnight.Equal(calendar.DefaultCutoff(midnight.Add(time.Hour), zone)), "an hour late")
}

// crowd lets users from first on apply, eight at a time, until ended is closed; the returned func waits for them and
// tells their arrivals.
func (w *world) crowd(couponID, first uint64, ended <-chan struct{}) (arrivals func() map[uint64]int64) {
	const most = 49_000
	var (
		next   atomic.Uint64
		mu     sync.Mutex
		all    = map[uint64]int64{}
		people sync.WaitGroup
	)
	for range 8 {
		people.Go(func() {
			for user := first + next.Add(1); user < first+most; user = first + next.Add(1) {
				select {
				case <-ended:
					return
				default:
				}
				receipt, err := w.store.Apply(w.t.Context(), couponID, user)
				if !assert.NoError(w.t, err) {
					return
				}
				mu.Lock()
				all[user] = receipt.Arrival
				mu.Unlock()
			}
		})
	}
	return func() map[uint64]int64 { people.Wait(); return all }
}

// After a clock step the line runs ahead of the Redis clock; what that leaves behind is set up directly.
func TestARedisClockThatStepped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(10)
	w.users(1, 2, 3)
	state := "state:{" + w.queue(couponID) + "}"
	step := func(ahead time.Duration) {
		require.NoError(t, w.rdb.HSet(t.Context(), state, "last", fmt.Sprint(w.now().Add(ahead).UnixMicro())).Err())
	}

	// Back by five seconds: people are accepted in order above the line, and settled when the clock has passed them.
	step(5 * time.Second)
	w.apply(couponID, 1, 2)
	report := w.settleNow()
	require.Zero(t, report.Total.Issued, "they arrived after the cutoff")
	require.Equal(t, []string{"1", "2"}, w.waiting(couponID))
	w.verify()

	// An hour ahead, then right again: nothing is accepted rather than something out of order.
	step(time.Hour)
	receipt, err := w.store.Apply(t.Context(), couponID, 3)
	require.NoError(t, err)
	require.Equal(t, candidates.ClockBehind, receipt.Code)
	require.Equal(t, []string{"1", "2"}, w.waiting(couponID))
	code, _ := w.settleNowCode()
	require.Zero(t, code)
	code, verdict := w.verifyCode()
	require.Zero(t, code)
	require.Contains(t, fmt.Sprint(verdict.Coupons[0].Findings), "CLOCK_AHEAD")
}

// A coupon is swept only when nothing is promised any more.
func TestNothingStillPromisedIsEverSwept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.now()
	w.users(1)
	shut := func(couponID uint64) uint64 {
		w.exec("UPDATE coupon SET apply_closes_at = ? WHERE id = ?", now.Add(-time.Minute), couponID)
		w.publish(couponID, now.Add(-2*time.Hour), now.Add(-time.Minute))
		return couponID
	}
	open := w.coupon(1)
	waitingBehind := w.coupon(1)
	w.stand(waitingBehind, "1", now.Add(time.Hour)) // arrived behind the cutoff
	shut(waitingBehind)
	underReview := w.coupon(1)
	w.apply(underReview, 99)
	shut(underReview)
	held := w.coupon(1)
	w.apply(held, 1)
	require.NoError(t, w.rdb.ZRem(t.Context(), w.queue(held), "1").Err())
	shut(held)
	over := w.coupon(1)
	w.apply(over, 1)
	shut(over)
	never := shut(w.coupon(1))

	code, _ := w.settleNowCode()
	require.Equal(t, 3, code)
	require.Equal(t, []uint64{over, never}, w.ids("SELECT id FROM coupon WHERE finalised_at IS NOT NULL ORDER BY id"))
	require.NotEmpty(t, w.waiting(waitingBehind))
	require.NotEmpty(t, w.underReview(underReview))
	for _, couponID := range []uint64{open, waitingBehind, underReview, held} {
		ttl := w.rdb.TTL(t.Context(), "state:{"+w.queue(couponID)+"}").Val()
		require.Greater(t, ttl, time.Hour, "coupon %d", couponID)
	}
}
