package topology

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

func TestStartCluster(t *testing.T) {
	t.Parallel()
	nodes := StartCluster(t, 2)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[1].Addr()}})
	t.Cleanup(func() { cluster.Close() })
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		require.NoError(t, cluster.Set(t.Context(), key, key, 0).Err())
	}
	for _, node := range nodes {
		keys, err := newClient(t, node.Addr()).DBSize(t.Context()).Result()
		require.NoError(t, err)
		require.Positive(t, keys)
	}
}

func TestStartSentinelPromotesReplica(t *testing.T) {
	t.Parallel()
	master := testenv.PrivateRedis(t, testenv.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
	replica := testenv.PrivateRedis(t, testenv.RedisOptions{Args: append([]string{"--replicaof"}, strings.Split(master.Addr(), ":")...)})
	client := newClient(t, replica.Addr())
	awaitLink(t, client)
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: StartSentinel(t, "coupons", master, 500*time.Millisecond).Addr()})
	t.Cleanup(func() { sentinel.Close() })
	named := func() string {
		hostAndPort := sentinel.GetMasterAddrByName(t.Context(), "coupons").Val()
		return strings.Join(hostAndPort, ":")
	}
	require.Equal(t, master.Addr(), named())
	testenv.Eventually(t, within, "it knows the replica", func() bool { return len(sentinel.Replicas(t.Context(), "coupons").Val()) == 1 })
	require.NoError(t, master.Kill())
	testenv.Eventually(t, within, "the replica is named", func() bool { return named() == replica.Addr() })
}

// TestRedisForOnCluster checks that RedisFor cleans every master.
func TestRedisForOnCluster(t *testing.T) {
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
