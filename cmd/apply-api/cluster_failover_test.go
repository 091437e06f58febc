package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

// promotedWithin is less than the minute after which the client would look for the master anyway.
const promotedWithin = 15 * time.Second

func TestAPromotedReplicaIsFoundAtOnce(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*testenv.Redis) error{"killed": (*testenv.Redis).Kill, "frozen": (*testenv.Redis).Freeze} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := topology.StartCluster(t, 3)
			holder := nodes[redisClient(t, nodes[0].Addr()).ClusterKeySlot(t.Context(), queueKey).Val()*3/16384]
			replica := topology.AddReplica(t, nodes, holder)
			var addrs []string
			for _, node := range append(nodes, replica) {
				require.NoError(t, redisClient(t, node.Addr()).ConfigSet(t.Context(), "cluster-node-timeout", "2000").Err())
				addrs = append(addrs, node.Addr())
			}
			p := serving(t, "REDIS_ADDRS="+strings.Join(addrs, ","))
			status, text := p.ask(1, 1)
			require.Equal(t, http.StatusAccepted, status, text)
			onMaster, promoted := redisClient(t, holder.Addr()), redisClient(t, replica.Addr())
			testenv.Eventually(t, soon, "the replica has caught up", func() bool { return onMaster.Wait(t.Context(), 1, time.Second).Val() == 1 })

			require.NoError(t, fail(holder))
			testenv.Eventually(t, soon, "the replica is promoted", func() bool {
				_, _ = p.ask(1, 2) // somebody goes on asking
				return strings.Contains(promoted.Info(t.Context(), "replication").Val(), "role:master")
			})
			at := time.Now()
			testenv.Eventually(t, promotedWithin, "it is asked", func() bool {
				status, _ := p.ask(1, 3)
				return status == http.StatusAccepted
			})
			t.Logf("%s after the promotion", time.Since(at))
			status, text = p.ask(1, 1)
			require.Equal(t, http.StatusOK, status, text)
		})
	}
}
