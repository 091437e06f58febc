package settle_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
)

// No run happened for some nights. The next one settles all that was due at each of those midnights.
func TestSettle_OneRunSettlesSeveralMissedNights(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1, 2, 3)
	tonight := calendar.DefaultCutoff(d.Now(), d.Noon())
	var coupons []coupon.CouponID
	for missed := range 3 {
		closes := tonight.AddDate(0, 0, -missed)
		id := d.AddCouponBetween(2, closes.AddDate(0, 0, -2), closes)
		for i, member := range []string{"3", "2", "1"} { // a day, two hours and an hour before the end
			d.ApplyAt(id, member, closes.Add([]time.Duration{-24 * time.Hour, -2 * time.Hour, -time.Hour}[i]))
		}
		coupons = append(coupons, id)
	}
	report := d.SettleAs(jajeongtest.Nightly(tonight))
	require.Equal(t, settle.Counts{Read: 9, Issued: 6, NotSelected: 3}, report.Total.Counts)
	for _, id := range coupons {
		requireResults(d, id, results{issued: []coupon.UserID{3, 2}, notSelected: []coupon.UserID{1}})
	}
	require.EqualValues(t, len(coupons), d.Number("SELECT COUNT(*) FROM coupon WHERE finalised_at IS NOT NULL"))
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
	// Midnight is in two seconds.
	zone := time.FixedZone("early", int(calendar.NextCutoff(now, time.UTC).Sub(now).Seconds())-2)
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

// applyConcurrently makes users from first on apply, two every few milliseconds, until ended is closed. The returned
// func waits for the last and returns all arrivals.
func applyConcurrently(d *jajeongtest.Deployment, couponID coupon.CouponID, first coupon.UserID,
	ended <-chan struct{}) (arrivals func() map[coupon.UserID]coupon.Arrival) {
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
	require.Equal(t, []uint64{uint64(over), uint64(never)},
		d.IDs("SELECT id FROM coupon WHERE finalised_at IS NOT NULL ORDER BY id"))
	require.NotEmpty(t, d.Waiting(waitingBehind))
	require.NotEmpty(t, d.UnderReview(underReview))
	for _, couponID := range []coupon.CouponID{open, waitingBehind, underReview, held} {
		ttl := d.Redis.TTL(t.Context(), d.Key("state", couponID)).Val()
		require.Greater(t, ttl, time.Hour, "coupon %d", couponID)
	}
}
