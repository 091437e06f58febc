package settle_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

const clusterSlots = 16384

// cluster is a deployment on a Redis Cluster of three masters, each of which continues without the others.
type cluster struct {
	*jajeongtest.Deployment
	masters []*testenv.Redis
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	masters := topology.StartCluster(t, 3)
	var addrs []string
	for _, node := range masters {
		client := redis.NewClient(&redis.Options{Addr: node.Addr()})
		require.NoError(t, client.ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
		require.NoError(t, client.Close())
		addrs = append(addrs, node.Addr())
	}
	return &cluster{jajeongtest.NewWith(t, jajeongtest.Options{Redis: jajeongtest.RedisAt(t, addrs...)}), masters}
}

// master is the index of the master that has the coupon.
func (c *cluster) master(couponID coupon.CouponID) int {
	c.T.Helper()
	slot, err := c.Redis.ClusterKeySlot(c.T.Context(), c.Queue(couponID)).Result()
	require.NoError(c.T, err)
	return int(slot * 3 / clusterSlots)
}

// addCouponOn adds a coupon with two seats and four applicants on one of those masters.
func (c *cluster) addCouponOn(user coupon.UserID, masters ...int) coupon.CouponID {
	c.T.Helper()
	for {
		couponID := c.AddCoupon(2)
		if slices.Contains(masters, c.master(couponID)) {
			c.Apply(couponID, between(user, user+3)...)
			return couponID
		}
		c.Exec("DELETE FROM coupon WHERE id = ?", couponID)
	}
}

func TestSettle_OnCluster(t *testing.T) {
	t.Parallel()
	d := newCluster(t)
	d.AddUsers(between(1, 8)...)
	for _, test := range []struct {
		name string
		test func(*testing.T, *cluster)
	}{
		{"a hanging master fails only its coupons", hangingMasterFailsOnlyItsCoupons},
		{"a run waits for a migrating slot", waitsForMigratingSlot},
		// The last: the master stays so.
		{"many coupons of a hanging master do not delay others", manyCouponsOfHangingMasterDoNotDelayOthers},
	} {
		t.Run(test.name, func(t *testing.T) { test.test(t, &cluster{d.For(t), d.masters}) })
	}
}

// A master hangs from a step on. The coupons of the other masters are settled. Those of the hanging master fail, and
// the next run settles them.
func hangingMasterFailsOnlyItsCoupons(t *testing.T, d *cluster) {
	user := coupon.UserID(1)
	for master, from := range []settle.Step{settle.StepFence, settle.StepCleanUp} {
		hung, healthy := d.addCouponOn(user, master), d.addCouponOn(user, (master+1)%3, (master+2)%3)
		freeze := sync.OnceFunc(func() { assert.NoError(t, d.masters[master].Freeze()) })
		frozen := false
		s := d.Settler()
		s.Hook = func(couponID coupon.CouponID, step settle.Step) {
			if couponID == hung && step == from {
				frozen = true
				freeze()
			}
		}
		report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
		require.NoError(t, d.masters[master].Thaw())
		require.NoError(t, err)
		require.True(t, frozen)
		require.Equal(t, []coupon.UserID{user, user + 1}, d.Issued(healthy), "%q", from)
		var failed []coupon.CouponID
		for _, c := range report.Coupons {
			if c.Error != "" {
				failed = append(failed, c.Coupon)
				require.Equal(t, master, d.master(c.Coupon), "coupon %d fails, and another master hangs", c.Coupon)
			}
		}
		require.Contains(t, failed, hung)
		require.Equal(t, coupon.Infrastructure, slices.Max(report.Classes()))
		d.SettleNow()
		require.Equal(t, []coupon.UserID{user, user + 1}, d.Issued(hung))
		require.Equal(t, []coupon.UserID{user + 2, user + 3}, d.Outcome(hung, "NOT_SELECTED"))
		d.Verify()
		user += 4
	}
}

// hangingDoor counts the calls that hang until their timeout.
type hangingDoor struct {
	settle.Door
	hung atomic.Int64
}

func (d *hangingDoor) note(err error) {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() ||
		errors.Is(err, context.DeadlineExceeded) {
		d.hung.Add(1)
	}
}

func (d *hangingDoor) Renew(ctx context.Context, couponID coupon.CouponID, closes time.Time) error {
	err := d.Door.Renew(ctx, couponID, closes)
	d.note(err)
	return err
}

func (d *hangingDoor) Look(ctx context.Context, couponID coupon.CouponID,
	known coupon.Known) (coupon.Look, error) {
	look, err := d.Door.Look(ctx, couponID, known)
	d.note(err)
	return look, err
}

// Far more coupons are on the hanging master than are settled concurrently. The other coupons do not wait for all of
// them: most calls fail without hanging.
func manyCouponsOfHangingMasterDoNotDelayOthers(t *testing.T, d *cluster) {
	const many = 24
	for range many {
		d.addCouponOn(1, 0)
	}
	healthy := d.addCouponOn(1, 1, 2)
	require.NoError(t, d.masters[0].Freeze())
	ctx, stop := context.WithCancel(t.Context())
	door := new(hangingDoor)
	s := d.Settler(func(s *settle.Settler) {
		s.Parallel, s.Grace = 2, time.Second
		door.Door, s.Door = s.Door, door
	})
	ended := make(chan error, 1)
	go func() {
		report, err := s.RunOnce(ctx, jajeongtest.Manual())
		if err == nil {
			err = report.Err()
		}
		ended <- err
	}()
	testenv.Eventually(t, "the healthy coupon is settled", func() bool { return len(d.Issued(healthy)) == 2 })
	hung := door.hung.Load()
	stop()
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(<-ended))
	require.Positive(t, hung)
	require.Less(t, hung, int64(many/2))
}

// A slot is migrating to another master, half of its keys are on each: Redis answers TRYAGAIN. The run waits for the
// end of the migration.
func waitsForMigratingSlot(t *testing.T, d *cluster) {
	couponID := d.addCouponOn(1, 0)
	clients := make([]*redis.Client, len(d.masters))
	for i, node := range d.masters {
		clients[i] = redis.NewClient(&redis.Options{Addr: node.Addr()})
		t.Cleanup(func() { clients[i].Close() })
	}
	from, to := clients[0], clients[1]
	slot, ctx := from.ClusterKeySlot(t.Context(), d.Queue(couponID)).Val(), t.Context()
	fromID, toID := from.ClusterMyID(ctx).Val(), to.ClusterMyID(ctx).Val()
	set := func(node *redis.Client, state, id string) {
		require.NoError(t, node.Do(ctx, "cluster", "setslot", slot, state, id).Err())
	}
	host, port, err := net.SplitHostPort(d.masters[1].Addr())
	require.NoError(t, err)
	move := func(key string) { require.NoError(t, from.Migrate(ctx, host, port, key, 0, time.Hour).Err()) }

	set(to, "importing", fromID)
	set(from, "migrating", toID)
	move(d.Key("state", couponID))
	ended := make(chan error, 1)
	go func() {
		report, err := d.Settle(jajeongtest.Manual())
		if err == nil {
			err = report.Err()
		}
		ended <- err
	}()
	testenv.Eventually(t, "it has been refused again and again", func() bool {
		refused := from.Info(ctx, "errorstats").Val() + to.Info(ctx, "errorstats").Val()
		return len(ended) > 0 || strings.Contains(refused, "errorstat_TRYAGAIN:count=") &&
			!strings.Contains(refused, "errorstat_TRYAGAIN:count=1\r")
	})
	move(d.Queue(couponID))
	set(to, "node", toID)
	set(from, "node", toID)
	require.NoError(t, <-ended)
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(couponID))
	d.Verify()
}
