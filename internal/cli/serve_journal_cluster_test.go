package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

// One shard of a Cluster loses its data. Its coupons return from the journal, the others are as they were.
func TestServe_PutsBackWhatOneShardHasLost(t *testing.T) {
	t.Parallel()
	nodes := topology.StartCluster(t, 2)
	w := newWorldWith(t, jajeongtest.Options{Redis: jajeongtest.RedisAt(t, nodes[0].Addr(), nodes[1].Addr())})
	users := between(1, 30)
	w.AddUsers(users...)
	coupons := make([]coupon.CouponID, 6) // on both shards
	for i := range coupons {
		coupons[i] = w.AddCoupon(10)
		w.Apply(coupons[i], users...)
	}
	w.serveJournal(2)
	for _, id := range coupons {
		w.awaitJournalled(id, len(users))
	}
	w.Refresh()
	w.PodsDie()
	lost := jajeongtest.RedisAt(t, nodes[0].Addr()).Client
	require.NoError(t, lost.Do(t.Context(), "FLUSHALL").Err())
	for _, id := range coupons {
		w.awaitLine(id, membersOf(users))
	}
	w.SettleNow()
	for _, id := range coupons {
		require.Equal(t, users[:10], w.Issued(id))
	}
	w.verify()
}
