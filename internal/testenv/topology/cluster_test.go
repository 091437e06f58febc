package topology

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

func TestRedisFor_CleansEveryMaster(t *testing.T) {
	nodes := StartCluster(t, 2)
	t.Setenv("TEST_REDIS_ADDRS", nodes[0].Addr()+", "+nodes[1].Addr())
	sizes := func() (total int64) {
		for _, node := range nodes {
			total += newClient(t, node.Addr()).DBSize(t.Context()).Val()
		}
		return total
	}
	t.Run("use", func(t *testing.T) {
		h := testenv.RedisFor(t)
		require.IsType(t, &redis.ClusterClient{}, h.Client)
		for i := range 700 { // more than one batch
			require.NoError(t, h.Client.Set(t.Context(), fmt.Sprintf("state:{%s%d}", h.Prefix, i), "x", 0).Err())
		}
		require.EqualValues(t, 700, sizes())
	})
	require.Zero(t, sizes())
}
