package settle_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/recall"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// takenOver is a coupon with one seat and three applicants.
func takenOver(t *testing.T) (d *jajeongtest.Deployment, couponID coupon.CouponID) {
	d = jajeongtest.New(t)
	d.AddUsers(1, 2, 3)
	couponID = d.AddCoupon(1)
	d.Refresh()
	d.Apply(couponID, 1, 2, 3)
	return d, couponID
}

// takeOver has another server answer for the coupon, as after a failover.
func takeOver(d *jajeongtest.Deployment, couponID coupon.CouponID) {
	assert.NoError(d.T, d.Redis.HDel(d.T.Context(), d.Key("state", couponID), "run_id").Err())
}

// After the fence another Redis server takes over, which lacks the first application. The second one does not get the
// seat: the settlement restarts, and waits for the pod that puts the first one back, whether or not a counter shows the
// loss.
func TestSettle_RestartsAfterFailoverAndIssuesInOrder(t *testing.T) {
	t.Parallel()
	for name, isCounted := range map[string]bool{"counter shows loss": true, "counter shows no loss": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, couponID := takenOver(t)
			putBack := make(chan recall.PutBack, 1)
			d.Memory().OnPutBack = func(p recall.PutBack) { putBack <- p }
			s, over := d.Settler(), testenv.Patient(t)
			s.Hook = onStep(func(step settle.Step, times int) {
				switch {
				case step == settle.StepLock && times == 1:
					assert.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(couponID), 1).Err())
					if !isCounted {
						d.AddPromises(couponID, -1)
					}
					takeOver(d, couponID)
				case step == settle.StepFence && times == 2:
					assert.NoError(t, d.RefreshOf(d.Catalog()))
					select {
					case p := <-putBack:
						assert.Equal(t, 1, p.Back)
					case <-over.Done():
						t.Error("no application is put back")
					}
				}
			})
			report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
			require.NoError(t, err)
			require.NoError(t, report.Err())
			requireSettled(d, couponID, results{issued: []coupon.UserID{1}, notSelected: []coupon.UserID{2, 3}})
		})
	}
}

// Servers take over again and again: nothing is issued, and it is safe to run again.
func TestSettle_IssuesNothingDuringRepeatedFailovers(t *testing.T) {
	t.Parallel()
	d, couponID := takenOver(t)
	s := d.Settler()
	locked := 0
	s.Hook = onStep(func(step settle.Step, times int) {
		if step == settle.StepLock {
			locked = times
			takeOver(d, couponID)
		}
	})
	report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
	require.NoError(t, err)
	require.ErrorContains(t, report.Err(), "the Redis server was replaced repeatedly", fmt.Sprint(report))
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(report.Err()))
	require.Equal(t, 4, locked, "three attempts, and the one that found the journal not compared")
	requireResults(d, couponID, results{waiting: []string{"1", "2", "3"}})
	d.SettleNow()
	requireSettled(d, couponID, results{issued: []coupon.UserID{1}, notSelected: []coupon.UserID{2, 3}})
}

// Another server has taken over all coupons. They wait for the pods at the same time, not one after the other.
func TestSettle_WaitsForPodsOnceForAllCoupons(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1)
	var coupons []coupon.CouponID
	for range 3 {
		couponID := d.AddCoupon(1)
		d.Apply(couponID, 1)
		takeOver(d, couponID)
		coupons = append(coupons, couponID)
	}
	s := d.Settler()
	s.Parallel = 1
	var met []string
	s.Hook = onStep(func(step settle.Step, times int) {
		if step == settle.StepFence && times == 1 {
			for _, couponID := range coupons {
				met = append(met, d.Redis.HGet(t.Context(), d.Key("state", couponID), "run_id").Val())
			}
		}
	})
	report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
	require.NoError(t, err)
	require.NoError(t, report.Err())
	require.Len(t, met, len(coupons))
	require.NotContains(t, met, "", "noted before the first is settled")
	d.Verify()
}
