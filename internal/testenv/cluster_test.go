package testenv

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestAClusterHasEverySlot(t *testing.T) {
	t.Parallel()
	nodes := PrivateCluster(t, 2)
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

func TestASentinelPutsTheReplicaInTheMastersPlace(t *testing.T) {
	t.Parallel()
	master := PrivateRedis(t, RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
	replica := PrivateRedis(t, RedisOptions{Args: append([]string{"--replicaof"}, strings.Split(master.Addr(), ":")...)})
	client := newClient(t, replica.Addr())
	Eventually(t, redisWithin, "the replica follows", func() bool {
		return strings.Contains(client.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: PrivateSentinel(t, "coupons", master, 500*time.Millisecond).Addr()})
	t.Cleanup(func() { sentinel.Close() })
	named := func() string {
		hostAndPort := sentinel.GetMasterAddrByName(t.Context(), "coupons").Val()
		return strings.Join(hostAndPort, ":")
	}
	require.Equal(t, master.Addr(), named())
	Eventually(t, redisWithin, "it knows the replica", func() bool { return len(sentinel.Replicas(t.Context(), "coupons").Val()) == 1 })
	require.NoError(t, master.Kill())
	Eventually(t, redisWithin, "the replica is named", func() bool { return named() == replica.Addr() })
}
