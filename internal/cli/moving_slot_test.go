package cli

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

// A coupon's slot is on its way to another master, half of its keys are here and half there: Redis wants to be asked
// again. The run waits until the slot has arrived.
func TestASlotThatMovesIsWaitedFor(t *testing.T) {
	t.Parallel()
	w, nodes := newClusterWorld(t)
	w.users(between(1, 4)...)
	coupon := w.couponOn(1, 0)
	clients := make([]*redis.Client, len(nodes))
	for i, node := range nodes {
		clients[i] = redis.NewClient(&redis.Options{Addr: node.Addr()})
		t.Cleanup(func() { clients[i].Close() })
	}
	from, to := clients[0], clients[1]
	slot, ctx := from.ClusterKeySlot(t.Context(), w.queue(coupon)).Val(), t.Context()
	fromID, toID := from.ClusterMyID(ctx).Val(), to.ClusterMyID(ctx).Val()
	set := func(node *redis.Client, state, id string) {
		require.NoError(t, node.Do(ctx, "cluster", "setslot", slot, state, id).Err())
	}
	host, port, err := net.SplitHostPort(nodes[1].Addr())
	require.NoError(t, err)
	move := func(key string) { require.NoError(t, from.Migrate(ctx, host, port, key, 0, restartWithin).Err()) }

	set(to, "importing", fromID)
	set(from, "migrating", toID)
	move("state:{" + w.queue(coupon) + "}")
	var out, log bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(context.Background(), append([]string{"run", "--cutoff=now", "--operator=kim", "--reason=test"}, w.servers...), &out, &log)
	}()
	testenv.Eventually(t, restartWithin, "it has been refused again and again", func() bool {
		refused := from.Info(ctx, "errorstats").Val() + to.Info(ctx, "errorstats").Val()
		return len(ended) > 0 || strings.Contains(refused, "errorstat_TRYAGAIN:count=") && !strings.Contains(refused, "errorstat_TRYAGAIN:count=1\r")
	})
	move(w.queue(coupon))
	set(to, "node", toID)
	set(from, "node", toID)
	require.Equal(t, exitDone, <-ended, "%s%s", out.String(), log.String())
	require.Equal(t, []uint64{1, 2}, w.issued(coupon))
	w.verify()
}
