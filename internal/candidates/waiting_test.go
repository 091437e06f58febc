package candidates

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

func TestWaiting_FindsCouponsWithACandidate(t *testing.T) {
	t.Parallel()
	c := privateCoupon(t)
	c.openNow(t)
	var all []coupon.CouponID
	for id := range coupon.CouponID(2*waitingCoupons + 1) {
		all = append(all, c.id+id)
	}
	found, err := c.Waiting(t.Context(), all)
	require.NoError(t, err)
	require.Empty(t, found)

	c.accept(t, 1)
	last := all[len(all)-1]
	require.NoError(t, c.rdb.ZAdd(t.Context(), c.names.coupon(last).queue, redis.Z{Score: 1, Member: "7"}).Err())
	for _, flush := range []bool{true, false} { // without and with the script on the server
		if flush {
			require.NoError(t, c.rdb.ScriptFlush(t.Context()).Err())
		}
		found, err = c.Waiting(t.Context(), all)
		require.NoError(t, err)
		slices.Sort(found)
		require.Equal(t, []coupon.CouponID{c.id, last}, found)
	}
	one, err := c.waitingEach(t.Context(), []coupon.CouponID{c.id + 1, last},
		[]string{c.names.coupon(c.id + 1).queue, c.names.coupon(last).queue})
	require.NoError(t, err)
	require.Equal(t, []coupon.CouponID{last}, one, "as the look during a resharding does it")
}

func TestWaitingAndScan_InACluster(t *testing.T) {
	t.Parallel()
	nodes := topology.StartCluster(t, 3)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}})
	t.Cleanup(func() { cluster.Close() })
	store := newStore(t, cluster, "shop:")
	var all, want []coupon.CouponID
	for id := range coupon.CouponID(60) {
		all = append(all, id+1)
		if id%7 == 0 {
			want = append(want, id+1)
			require.NoError(t, cluster.ZAdd(t.Context(), store.names.coupon(id+1).queue,
				redis.Z{Score: 1, Member: "7"}).Err())
		}
	}
	found, err := store.Waiting(t.Context(), all)
	require.NoError(t, err)
	slices.Sort(found)
	require.Equal(t, want, found)
	// The script fails if a key is on another shard, as while a slot moves.
	places := findWaiting.Run(t.Context(), newClient(t, nodes[0].Addr()), nil, store.names.coupon(1).queue,
		store.names.coupon(2).queue, store.names.coupon(3).queue)
	require.Error(t, places.Err())

	scanFinds(t, newStore(t, cluster, "scan:"))
}
