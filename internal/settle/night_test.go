package settle_test

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
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/verify"
)

// Users apply continuously during several cutoffs. Each application is settled by the first run whose cutoff is later.
func TestSettle_SettlesEachApplicationInOneNight(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	const users, nights = 3000, 6
	couponID := d.AddCoupon(users)
	d.AddUsers(between(1, users)...)

	var (
		next     atomic.Uint64
		arrivals sync.Map // user → arrival
		applying sync.WaitGroup
	)
	for range 16 {
		applying.Go(func() {
			for user := coupon.UserID(next.Add(1)); user <= users; user = coupon.UserID(next.Add(1)) {
				receipt, err := d.Store.Apply(t.Context(), couponID, user)
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
		report := d.SettleNow()
		total += report.Total.Issued
		cutoffs = append(cutoffs, report.Cutoff)
	}
	applying.Wait()
	last := d.SettleNow()
	cutoffs = append(cutoffs, last.Cutoff)
	require.Equal(t, users, total+last.Total.Issued)

	// Every application was settled by the first run whose cutoff lies behind its arrival.
	rows, err := d.DB.Query("SELECT c.user_id, c.applied_at, r.cutoff FROM user_coupon c JOIN settlement_run r ON r.id = c.run_id")
	require.NoError(t, err)
	defer rows.Close()
	seen := 0
	for rows.Next() {
		var user coupon.UserID
		var appliedAt, cutoff time.Time
		require.NoError(t, rows.Scan(&user, &appliedAt, &cutoff))
		arrival, _ := arrivals.Load(user)
		require.Equal(t, arrival, coupon.ArrivalAt(appliedAt))
		for i, night := range cutoffs {
			if appliedAt.Before(night) {
				require.Equal(t, night, cutoff, "user %d arrived at %s: night %d", user, appliedAt, i)
				break
			}
		}
		seen++
	}
	require.NoError(t, rows.Err())
	require.Equal(t, users, seen)
	d.Verify()
}

// A controller may start the run early or late.
func TestSettle_EarlyAndLateRunsUseSameMidnight(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(between(1, 2_500)...)
	couponID := d.AddCouponBetween(100_000, d.Now().Add(-time.Hour), d.Now().Add(48*time.Hour))
	d.Apply(couponID, 1)
	now := d.Now()
	zone := time.FixedZone("early", int(calendar.NextCutoff(now, time.UTC).Sub(now).Seconds())-2) // midnight is in two seconds
	midnight := calendar.NextCutoff(now, zone)

	settler := d.Settler(func(s *settle.Settler) { s.Zone = jajeongtest.InZone(zone) })
	ended := make(chan struct{})
	arrivalsOf := applyConcurrently(d, couponID, 100, ended)
	report, err := settler.RunOnce(t.Context(), settle.Order{Trigger: coupon.Cron})
	close(ended)
	arrivals := arrivalsOf()
	require.NoError(t, err)
	require.True(t, midnight.Equal(report.Cutoff), "%s, not %s", report.Cutoff, midnight)
	require.False(t, d.Now().Before(midnight), "the fence waited for the Redis clock")
	issued := map[coupon.UserID]bool{}
	for _, user := range d.Issued(couponID) {
		issued[user] = true
	}
	require.True(t, issued[1])
	for user, arrival := range arrivals {
		require.Equal(t, arrival < coupon.ArrivalAt(midnight), issued[user], "user %d arrived at %d", user, arrival)
	}
	var settledAt time.Time
	require.NoError(t, d.DB.QueryRow("SELECT MIN(issued_at) FROM user_coupon").Scan(&settledAt))
	require.False(t, settledAt.Before(midnight), "no coupon is issued before its application")
	d.Verify()
	d.Apply(couponID, 2) // arrives behind the fence
	receipt, err := d.Store.Apply(t.Context(), couponID, 2)
	require.NoError(t, err)
	require.GreaterOrEqual(t, receipt.Arrival, coupon.ArrivalAt(midnight))

	require.True(t, midnight.Equal(calendar.DefaultCutoff(midnight.Add(time.Hour), zone)), "an hour late")
}

// applyConcurrently makes users from first on apply, two every few milliseconds, until ended is closed. The returned func
// waits for the last and returns all arrivals.
func applyConcurrently(d *jajeongtest.Deployment, couponID coupon.CouponID, first coupon.UserID, ended <-chan struct{}) (arrivals func() map[coupon.UserID]coupon.Arrival) {
	const maxUsers = 2_400
	var (
		next  atomic.Uint64
		mu    sync.Mutex
		all   = map[coupon.UserID]coupon.Arrival{}
		users sync.WaitGroup
	)
	for range 2 {
		users.Go(func() {
			for n := next.Add(1); n < maxUsers; n = next.Add(1) {
				user := first + coupon.UserID(n)
				select {
				case <-ended:
					return
				default:
				}
				receipt, err := d.Store.Apply(d.T.Context(), couponID, user)
				if !assert.NoError(d.T, err) {
					return
				}
				mu.Lock()
				all[user] = receipt.Arrival
				mu.Unlock()
				<-time.After(5 * time.Millisecond)
			}
		})
	}
	return func() map[coupon.UserID]coupon.Arrival { users.Wait(); return all }
}

// After a clock step, the last arrival is ahead of the Redis clock.
func TestSettle_KeepsOrderAfterRedisClockStep(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(10)
	d.AddUsers(1, 2, 3)
	state := d.Key("state", couponID)
	step := func(ahead time.Duration) (last time.Time) {
		last = d.Now().Add(ahead)
		require.NoError(t, d.Redis.HSet(t.Context(), state, "last", fmt.Sprint(last.UnixMicro())).Err())
		return last
	}

	// Back by two seconds: users are accepted after the last arrival, so that a cutoff then is before them.
	last := step(2 * time.Second)
	d.Apply(couponID, 1, 2)
	report := d.SettleAs(jajeongtest.Nightly(last))
	require.Zero(t, report.Total.Issued, "they arrived after the cutoff")
	require.Equal(t, []string{"1", "2"}, d.Waiting(couponID))
	d.Verify()

	// An hour ahead, then right again: no application is accepted out of order.
	step(time.Hour)
	require.Equal(t, candidates.ClockBehind, d.Answer(couponID, 3))
	require.Equal(t, []string{"1", "2"}, d.Waiting(couponID))
	d.SettleNow()
	require.Equal(t, []verify.Code{verify.ClockAhead}, d.Findings())
}

func TestSettle_SweepsNoCouponWithOpenPromises(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	now := d.Now()
	d.AddUsers(1)
	shut := func(couponID coupon.CouponID) coupon.CouponID {
		d.SetWindow(couponID, now.Add(-2*time.Hour), now.Add(-time.Minute))
		return couponID
	}
	open := d.AddCoupon(1)
	waitingBehind := d.AddCoupon(1)
	d.ApplyAt(waitingBehind, "1", now.Add(time.Hour)) // arrived behind the cutoff
	shut(waitingBehind)
	underReview := d.AddCoupon(1)
	d.Apply(underReview, 99)
	shut(underReview)
	held := d.AddCoupon(1)
	d.Apply(held, 1)
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(held), "1").Err())
	shut(held)
	over := d.AddCoupon(1)
	d.Apply(over, 1)
	shut(over)
	never := shut(d.AddCoupon(1))

	d.SettleFailing(coupon.Invariant)
	require.Equal(t, []uint64{uint64(over), uint64(never)}, d.IDs("SELECT id FROM coupon WHERE finalised_at IS NOT NULL ORDER BY id"))
	require.NotEmpty(t, d.Waiting(waitingBehind))
	require.NotEmpty(t, d.UnderReview(underReview))
	for _, couponID := range []coupon.CouponID{open, waitingBehind, underReview, held} {
		ttl := d.Redis.TTL(t.Context(), d.Key("state", couponID)).Val()
		require.Greater(t, ttl, time.Hour, "coupon %d", couponID)
	}
}
