package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

const (
	clusterSlots = 16384
	// healthyWithin is far more than a run needs that is held up by a few calls, and less than it needs for one after the
	// other of sixty.
	healthyWithin = 45 * time.Second
)

// newClusterWorld has its line on a Cluster of three masters, each of which goes on when another is gone.
func newClusterWorld(t *testing.T) (*world, []*testenv.Redis) {
	t.Helper()
	nodes := topology.StartCluster(t, 3)
	var addrs []string
	for _, node := range nodes {
		client := redis.NewClient(&redis.Options{Addr: node.Addr()})
		require.NoError(t, client.ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
		require.NoError(t, client.Close())
		addrs = append(addrs, node.Addr())
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { client.Close() })
	return newWorldOn(t, testenv.RedisHandle{Addrs: addrs, Client: client}), nodes
}

// node is the place of the master that has the coupon.
func (w *world) node(coupon uint64) int {
	w.t.Helper()
	slot, err := w.rdb.ClusterKeySlot(w.t.Context(), w.queue(coupon)).Result()
	require.NoError(w.t, err)
	return int(slot * 3 / clusterSlots)
}

// couponOn is a coupon with two seats and four applicants, on one of those masters.
func (w *world) couponOn(user uint64, nodes ...int) uint64 {
	w.t.Helper()
	for {
		coupon := w.coupon(2)
		if slices.Contains(nodes, w.node(coupon)) {
			w.apply(coupon, between(user, user+3)...)
			return coupon
		}
		w.exec("DELETE FROM coupon WHERE id = ?", coupon)
	}
}

// at does something when a run logs for the first time that it begins a step of a coupon.
type at struct {
	bytes.Buffer
	mu     sync.Mutex
	coupon uint64
	step   settle.Step
	do     func()
}

func (a *at) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.do != nil && bytes.Contains(line, fmt.Appendf(nil, `"coupon_id":%d,"step":"%s"`, a.coupon, a.step)) {
		a.do()
		a.do = nil
	}
	return a.Buffer.Write(line)
}

// failed are the coupons that the log says were not settled.
func (a *at) failed() (coupons []uint64) {
	for line := range strings.Lines(a.String()) {
		var event struct {
			Msg    string
			Coupon uint64 `json:"coupon_id"`
		}
		if json.Unmarshal([]byte(line), &event) == nil && event.Msg == "coupon not settled" {
			coupons = append(coupons, event.Coupon)
		}
	}
	return coupons
}

// A master hangs from before the run, or from one of its steps on. The coupons of the others are settled, those of that
// master fail, and the next run settles them.
func TestAShardThatHangsFailsOnlyItsCoupons(t *testing.T) {
	t.Parallel()
	w, nodes := newClusterWorld(t)
	w.users(between(1, 100)...)
	user := uint64(1)
	for _, c := range []struct {
		node int
		step settle.Step // "": before the run
	}{{0, ""}, {1, settle.StepFence}, {2, settle.StepCleanUp}} {
		hung, healthy := w.couponOn(user, c.node), w.couponOn(user, (c.node+1)%3, (c.node+2)%3)
		hanging := nodes[c.node]
		log := &at{coupon: hung, step: c.step, do: func() { require.NoError(t, hanging.Freeze()) }}
		if c.step == "" {
			log.do()
			log.do = nil
		}
		var out bytes.Buffer
		code := run(context.Background(), append([]string{"run", "--cutoff=now", "--operator=kim", "--reason=test", "--log-level=debug"}, w.servers...), &out, log)
		require.NoError(t, hanging.Thaw())
		said := fmt.Sprintf("%v: %s%s", c, out.String(), log.String())
		require.Nil(t, log.do, said)
		require.Equal(t, exitInfrastructure, code, said)
		require.Equal(t, []uint64{user, user + 1}, w.issued(healthy), said)
		failed := log.failed()
		require.Contains(t, failed, hung)
		for _, coupon := range failed {
			require.Equal(t, c.node, w.node(coupon), "coupon %d fails, and another hangs", coupon)
		}
		w.settleNow()
		require.Equal(t, []uint64{user, user + 1}, w.issued(hung))
		require.Equal(t, []uint64{user + 2, user + 3}, w.outcome(hung, "NOT_SELECTED"))
		w.verify()
		user += 4
	}
}

// Far more coupons are on the master that hangs than are settled at once. The others do not wait until each of them has
// failed.
func TestManyCouponsOfAShardThatHangsDoNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	w, nodes := newClusterWorld(t)
	w.users(between(1, 4)...)
	for range 60 {
		w.couponOn(1, 0)
	}
	healthy := w.couponOn(1, 1, 2)
	require.NoError(t, nodes[0].Freeze())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		var said bytes.Buffer
		ended <- run(ctx, append([]string{"run", "--cutoff=now", "--operator=kim", "--reason=test", "--parallel=2", "--shutdown-grace=1s"}, w.servers...), &said, &said)
	}()
	testenv.Eventually(t, healthyWithin, "the healthy coupon is settled", func() bool { return len(w.issued(healthy)) == 2 })
	stop()
	require.Equal(t, exitInfrastructure, <-ended)
}
