package couponadmin_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// changeWhileUsersApply makes a change that waits for the coupon's row while these users apply.
func (d *deployment) changeWhileUsersApply(couponID coupon.CouponID, change func(context.Context, coupon.CouponID) (*couponadmin.Change, error), users ...coupon.UserID) {
	d.T.Helper()
	release := d.Lock(couponID)
	done := make(chan error)
	go func() {
		_, err := change(d.T.Context(), couponID)
		done <- err
	}()
	d.AwaitLockWait()
	d.Apply(couponID, users...)
	release()
	require.NoError(d.T, <-done)
}

// latest is the last arrival of the queue.
func (d *deployment) latest(couponID coupon.CouponID) (arrival coupon.Arrival) {
	d.T.Helper()
	for _, at := range d.Arrivals(couponID) {
		arrival = max(arrival, at)
	}
	return arrival
}

func (d *deployment) closesAt(couponID coupon.CouponID) coupon.Arrival {
	d.T.Helper()
	return coupon.ArrivalAt(jajeongtest.Column[time.Time](d.Deployment, "SELECT apply_closes_at FROM coupon WHERE id = ?", couponID)[0])
}

func (d *deployment) state(couponID coupon.CouponID, field string) string {
	return d.Redis.HGet(d.T.Context(), d.Key("state", couponID), field).Val()
}

func (d *deployment) setState(couponID coupon.CouponID, values ...any) {
	d.T.Helper()
	require.NoError(d.T, d.Redis.HSet(d.T.Context(), d.Key("state", couponID), values...).Err())
}

// No arrival is at or after the recorded end, even if the change waits for the row or arrivals are ahead of the clock.
func TestClose_EndsAfterLastArrival(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"by the clock": 0, "ahead of the clock": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t)
			couponID := d.AddCoupon(9)
			d.Refresh()
			d.setState(couponID, "last", d.Now().Add(ahead).UnixMicro())
			d.changeWhileUsersApply(couponID, d.admin.Close, 1, 2, 3, 4, 5)
			require.Greater(t, d.closesAt(couponID), d.latest(couponID))
			require.Equal(t, fmt.Sprint(d.closesAt(couponID)), d.state(couponID, "closes"))
			require.Equal(t, candidates.Closed, d.Answer(couponID, 6))
			d.Refresh()
			require.Equal(t, candidates.Closed, d.Answer(couponID, 6))
		})
	}
}

// The audit event of a pause has the instant after the last arrival.
func TestPause_IsAfterLastArrival(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	couponID := d.AddCoupon(9)
	d.changeWhileUsersApply(couponID, d.admin.Pause, 1, 2, 3, 4, 5)
	require.Equal(t, candidates.Paused, d.Answer(couponID, 6))
	details := d.audited(couponID, "COUPON_PAUSED")
	require.Len(t, details, 1)
	_, since, found := strings.Cut(details[0], "status OPEN → PAUSED, door_shut_at ")
	require.True(t, found, details[0])
	at, err := time.Parse(time.RFC3339Nano, since)
	require.NoError(t, err)
	require.Greater(t, coupon.ArrivalAt(at), d.latest(couponID))
}

// A later end is recorded before it is published.
func TestExtend_RecordsEndBeforePublishingIt(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	couponID := d.AddCoupon(9)
	later := d.Now().Add(3 * time.Hour).Truncate(time.Second)
	before := d.state(couponID, "closes")
	release := d.Lock(couponID)
	done := make(chan error)
	go func() {
		_, err := d.admin.Extend(t.Context(), couponID, later)
		done <- err
	}()
	d.AwaitLockWait()
	require.Equal(t, before, d.state(couponID, "closes"))
	release()
	require.NoError(t, <-done)
	require.Equal(t, fmt.Sprint(later.UnixMicro()), d.state(couponID, "closes"))
	require.Equal(t, coupon.ArrivalAt(later), d.closesAt(couponID))
}

// The clock of the last change was an hour ahead.
func TestClose_AppliesAfterChangeWithClockAhead(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	couponID := d.AddCoupon(9)
	d.Exec("UPDATE coupon SET updated_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE id = ?", couponID)
	d.Refresh()
	d.Apply(couponID, 1)
	require.True(t, d.done(d.admin.Close(t.Context(), couponID)).Changed)
	require.Equal(t, candidates.Closed, d.Answer(couponID, 2))
	d.Refresh()
	require.Equal(t, candidates.Closed, d.Answer(couponID, 2))
}

// Each change of the window or status increments the version. Other changes do not.
func TestChange_IncrementsVersion(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	couponID := d.AddCoupon(9)
	d.Refresh()
	version := func() uint64 { return d.IDs("SELECT version FROM coupon WHERE id = ?", couponID)[0] }
	last := version()
	ctx := t.Context()
	extend := func(by time.Duration) func(context.Context, coupon.CouponID) (*couponadmin.Change, error) {
		return func(ctx context.Context, couponID coupon.CouponID) (*couponadmin.Change, error) {
			return d.admin.Extend(ctx, couponID, d.Now().Add(by))
		}
	}
	for change, make := range []func(context.Context, coupon.CouponID) (*couponadmin.Change, error){
		d.admin.Pause, d.admin.Resume, extend(2 * time.Hour), d.admin.Close, extend(3 * time.Hour),
	} {
		d.done(make(ctx, couponID))
		require.Equal(t, last+1, version(), change)
		require.Equal(t, fmt.Sprint(last+1), d.state(couponID, "version"), change)
		last++
	}
	d.done(d.admin.Resume(ctx, couponID))
	d.done(d.admin.AddSeats(ctx, couponID, 1))
	d.AddUsers(1)
	d.Apply(couponID, 1)
	d.SettleNow()
	require.Equal(t, last, version())

	// Redis has a newer version, as after a restore of MySQL. The row continues after it.
	d.setState(couponID, "version", last+7, "version_at", d.Now().UnixMicro())
	d.done(d.admin.Pause(ctx, couponID))
	require.Equal(t, candidates.Paused, d.Answer(couponID, 2))
	require.Equal(t, last+7, version())
}

// Redis does not take a window older than its own.
func TestChange_ReportsNewerVersionInRedis(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	couponID := d.AddCoupon(9)
	d.done(d.admin.Pause(t.Context(), couponID))
	d.setState(couponID, "version", 8_000_000_000_000_000, "version_at", d.Now().UnixMicro())
	change, err := d.admin.Resume(t.Context(), couponID)
	require.NoError(t, err)
	require.Error(t, change.PublishErr)
	require.Equal(t, candidates.Paused, d.Answer(couponID, 1))
	d.Refresh()
	require.Equal(t, candidates.Paused, d.Answer(couponID, 1))

	d.setState(couponID, "version_at", d.Now().Add(-3*time.Minute).UnixMicro())
	d.Refresh()
	require.Equal(t, candidates.Accepted, d.Answer(couponID, 1))
}

// MySQL is lost before the COMMIT: the row is unchanged, and the catalog opens the window again.
func TestClose_LeavesRowAndWindowWithoutCommit(t *testing.T) {
	t.Parallel()
	private := jajeongtest.NewOnPrivateRedis(t)
	d := &deployment{private, private.CouponAdmin()}
	couponID := d.AddCoupon(9)
	d.Refresh()
	d.Apply(couponID, 1)
	before := d.closesAt(couponID)
	var proxies []*faultproxy.Proxy
	rule, found := commitOfChange(func() faultproxy.Action { return faultproxy.DropRequest(proxies[jajeongtest.ToMySQL].Down) })
	proxies, proxied := d.Proxied(rule)
	_, err := proxied.CouponAdmin().Close(t.Context(), couponID)
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err))
	require.True(t, found.Load())
	testenv.Eventually(t, 20*time.Second, "the transaction is rolled back", func() bool {
		_, err := d.DB.Exec("SELECT id FROM coupon WHERE id = ? FOR UPDATE NOWAIT", couponID)
		return err == nil
	})
	require.Equal(t, before, d.closesAt(couponID))
	d.Refresh()
	require.Equal(t, candidates.Closed, d.Answer(couponID, 2), "it may still be committed")
	d.setState(couponID, "version_at", d.Now().Add(-3*time.Minute).UnixMicro())
	d.Refresh()
	d.Apply(couponID, 2)

	d.done(d.admin.Close(t.Context(), couponID))
	require.Greater(t, d.closesAt(couponID), d.latest(couponID))
	require.Equal(t, candidates.Closed, d.Answer(couponID, 3))
	d.Refresh()
	require.Equal(t, candidates.Closed, d.Answer(couponID, 3))
}

// Users apply during the change. Each arrival is before the end.
func TestClose_EndsAfterLastArrivalOfConcurrentUsers(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	couponID := d.AddCoupon(9)
	d.Refresh()
	var next, accepted atomic.Uint64
	var crowd sync.WaitGroup
	for range 8 {
		crowd.Go(func() {
			for {
				receipt, err := d.Store.Apply(context.Background(), couponID, coupon.UserID(next.Add(1)))
				if !assert.NoError(t, err) || receipt.Code != candidates.Accepted {
					assert.Equal(t, candidates.Closed, receipt.Code)
					return
				}
				accepted.Add(1)
			}
		})
	}
	testenv.Eventually(t, 20*time.Second, "users apply", func() bool { return accepted.Load() > 200 })
	d.done(d.admin.Close(t.Context(), couponID))
	crowd.Wait()
	require.Greater(t, d.closesAt(couponID), d.latest(couponID))
	require.EqualValues(t, accepted.Load(), len(d.Waiting(couponID)))
}
