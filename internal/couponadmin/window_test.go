package couponadmin_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

type change func(context.Context, coupon.CouponID) (*couponadmin.Change, error)

// openCoupon is an open coupon with nine seats, which a pod knows.
type openCoupon struct {
	*deployment
	id coupon.CouponID
}

func newOpenCoupon(d *deployment) *openCoupon {
	d.T.Helper()
	c := &openCoupon{d, d.AddCoupon(9)}
	c.Refresh()
	return c
}

// during begins a change, which waits for the coupon's row while do runs.
func (c *openCoupon) during(begin change, do func()) {
	c.T.Helper()
	release := c.Lock(c.id)
	done := make(chan error)
	go func() {
		_, err := begin(c.T.Context(), c.id)
		done <- err
	}()
	c.AwaitLockWait()
	do()
	release()
	require.NoError(c.T, <-done)
}

func (c *openCoupon) extend(by time.Duration) change {
	return func(ctx context.Context, couponID coupon.CouponID) (*couponadmin.Change, error) {
		return c.admin.Extend(ctx, couponID, c.Now().Add(by))
	}
}

// latest is the last arrival of the queue.
func (c *openCoupon) latest() coupon.Arrival {
	c.T.Helper()
	return slices.Max(slices.Collect(maps.Values(c.Arrivals(c.id))))
}

// closesAt is the end of the window in MySQL.
func (c *openCoupon) closesAt() coupon.Arrival {
	c.T.Helper()
	return coupon.ArrivalAt(jajeongtest.Column[time.Time](c.Deployment,
		"SELECT apply_closes_at FROM coupon WHERE id = ?", c.id)[0])
}

// state is a field of the coupon's state in Redis.
func (c *openCoupon) state(field string) string {
	return c.Redis.HGet(c.T.Context(), c.Key("state", c.id), field).Val()
}

func (c *openCoupon) setState(values ...any) {
	c.T.Helper()
	require.NoError(c.T, c.Redis.HSet(c.T.Context(), c.Key("state", c.id), values...).Err())
}

// requireAnswer demands this answer to a user, also after a refresh of the pod.
func (c *openCoupon) requireAnswer(want candidates.Code, user coupon.UserID) {
	c.T.Helper()
	require.Equal(c.T, want, c.Answer(c.id, user))
	c.Refresh()
	require.Equal(c.T, want, c.Answer(c.id, user))
}

// No arrival is at or after the recorded end, even if the change waits for the row or arrivals are ahead of the clock.
func TestClose_EndsAfterLastArrival(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"by the clock": 0, "ahead of the clock": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newOpenCoupon(newDeployment(t))
			c.setState("last", c.Now().Add(ahead).UnixMicro())
			c.during(c.admin.Close, func() { c.Apply(c.id, 1, 2, 3, 4, 5) })
			require.Greater(t, c.closesAt(), c.latest())
			require.Equal(t, fmt.Sprint(c.closesAt()), c.state("closes"))
			c.requireAnswer(candidates.Closed, 6)
		})
	}
}

// The audit event of a pause has the instant after the last arrival.
func TestPause_IsAfterLastArrival(t *testing.T) {
	t.Parallel()
	c := newOpenCoupon(newDeployment(t))
	c.during(c.admin.Pause, func() { c.Apply(c.id, 1, 2, 3, 4, 5) })
	require.Equal(t, candidates.Paused, c.Answer(c.id, 6))
	details := c.audited(c.id, "COUPON_PAUSED")
	require.Len(t, details, 1)
	paused := details[0].(audit.CouponChange)
	require.Greater(t, coupon.ArrivalAt(*paused.StoppedAt), c.latest())
	require.Equal(t, audit.CouponChange{Status: audit.Changed(coupon.Open, coupon.Paused), StoppedAt: paused.StoppedAt},
		paused)
}

// A later end is recorded before it is published.
func TestExtend_RecordsEndBeforePublishingIt(t *testing.T) {
	t.Parallel()
	c := newOpenCoupon(newDeployment(t))
	before := c.closesAt()
	c.during(c.extend(3*time.Hour), func() { require.Equal(t, fmt.Sprint(before), c.state("closes")) })
	require.Greater(t, c.closesAt(), before)
	require.Equal(t, fmt.Sprint(c.closesAt()), c.state("closes"))
}

// Each change of the window or status increments the version. Other changes do not.
func TestChange_IncrementsVersion(t *testing.T) {
	t.Parallel()
	c := newOpenCoupon(newDeployment(t))
	version := func() uint64 { return c.IDs("SELECT version FROM coupon WHERE id = ?", c.id)[0] }
	last := version()
	ctx := t.Context()
	for i, begin := range []change{c.admin.Pause, c.admin.Resume, c.extend(2 * time.Hour), c.admin.Close,
		c.extend(3 * time.Hour)} {
		c.done(begin(ctx, c.id))
		last++
		require.Equal(t, last, version(), i)
		require.Equal(t, fmt.Sprint(last), c.state("version"), i)
	}
	c.done(c.admin.Resume(ctx, c.id))
	c.done(c.admin.AddSeats(ctx, c.id, 1))
	c.AddUsers(1)
	c.Apply(c.id, 1)
	c.SettleNow()
	require.Equal(t, last, version())

	// Redis has a newer version, as after a restore of MySQL. The row continues after it.
	c.setState("version", last+7, "version_at", c.Now().UnixMicro())
	c.done(c.admin.Pause(ctx, c.id))
	require.Equal(t, candidates.Paused, c.Answer(c.id, 2))
	require.Equal(t, last+7, version())
}

// Redis does not take a window older than its own.
func TestChange_ReportsNewerVersionInRedis(t *testing.T) {
	t.Parallel()
	c := newOpenCoupon(newDeployment(t))
	c.done(c.admin.Pause(t.Context(), c.id))
	c.setState("version", 8_000_000_000_000_000, "version_at", c.Now().UnixMicro())
	change, err := c.admin.Resume(t.Context(), c.id)
	require.NoError(t, err)
	require.Error(t, change.PublishErr)
	c.requireAnswer(candidates.Paused, 1)

	c.setState("version_at", c.Now().Add(-3*time.Minute).UnixMicro())
	c.Refresh()
	c.Apply(c.id, 1)
}

// MySQL is lost before the COMMIT: the row is unchanged, and the catalog opens the window again.
func TestClose_LeavesRowAndWindowWithoutCommit(t *testing.T) {
	t.Parallel()
	private := jajeongtest.NewOnPrivateRedis(t)
	c := newOpenCoupon(&deployment{private, private.CouponAdmin()})
	c.Apply(c.id, 1)
	before := c.closesAt()
	var proxies []*faultproxy.Proxy
	rule, found :=
		commitOfChange(func() faultproxy.Action { return faultproxy.DropRequest(proxies[jajeongtest.ToMySQL].Down) })
	proxies, proxied := c.Proxied(rule)
	_, err := proxied.CouponAdmin().Close(t.Context(), c.id)
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err))
	require.True(t, found.Load())
	testenv.Eventually(t, "the transaction is rolled back", func() bool {
		_, err := c.DB.Exec("SELECT id FROM coupon WHERE id = ? FOR UPDATE NOWAIT", c.id)
		return err == nil
	})
	require.Equal(t, before, c.closesAt())
	c.Refresh()
	require.Equal(t, candidates.Closed, c.Answer(c.id, 2), "it may still be committed")
	c.setState("version_at", c.Now().Add(-3*time.Minute).UnixMicro())
	c.Refresh()
	c.Apply(c.id, 2)

	c.done(c.admin.Close(t.Context(), c.id))
	require.Greater(t, c.closesAt(), c.latest())
	c.requireAnswer(candidates.Closed, 3)
}
