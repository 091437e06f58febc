package candidates

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

// gauges are the Store's metrics by name and label.
func gauges(t *testing.T, s *Store) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(s.Metrics()))
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			values[name] = metric.GetGauge().GetValue()
		}
	}
	return values
}

// The ratio is that of the memory that counts against maxmemory; in a Cluster, of the fullest master. A wrong policy,
// or a snapshot that cannot be written, of one master is that of the Cluster.
func TestHealth_OfEveryMaster(t *testing.T) {
	t.Parallel()
	server, masters := testenv.PrivateRedis(t, testenv.RedisOptions{}), topology.StartCluster(t, 2)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{masters[0].Addr(), masters[1].Addr()}})
	t.Cleanup(func() { cluster.Close() })
	alone, ofCluster := newStore(t, newClient(t, server.Addr()), ""), newStore(t, cluster, "")
	health := func(s *Store) Health {
		t.Helper()
		got, err := s.Health(t.Context())
		require.NoError(t, err)
		all := gauges(t, s)
		require.Equal(t, got.Policy != NoEviction, all["jajeong_redis_eviction_policy_wrong"] == 1)
		require.Equal(t, got.SnapshotFailed, all["jajeong_redis_not_saving snapshot"] == 1)
		require.False(t, got.AppendFailed)
		require.Zero(t, all["jajeong_redis_not_saving append_only"])
		return got
	}
	for node, s := range map[*testenv.Redis]*Store{server: alone, masters[0]: ofCluster, masters[1]: ofCluster} {
		set := func(name, value string) {
			require.NoError(t, newClient(t, node.Addr()).ConfigSet(t.Context(), name, value).Err())
		}
		for _, policy := range []string{"volatile-ttl", "allkeys-lru", NoEviction} {
			set("maxmemory-policy", policy)
			require.Equal(t, policy, health(s).Policy)
		}
		require.Zero(t, gauges(t, s)["jajeong_redis_memory_used_ratio"], "there is no limit")
		set("maxmemory", "1mb")
		require.Greater(t, gauges(t, s)["jajeong_redis_memory_used_ratio"], NearlyFull)
		set("maxmemory", "0")
		mend := node.FailSnapshots(t)
		require.True(t, health(s).SnapshotFailed)
		mend()
		require.False(t, health(s).SnapshotFailed)
	}
	limit := decimal(2 * health(alone).Used)
	require.NoError(t, newClient(t, server.Addr()).ConfigSet(t.Context(), "maxmemory", limit).Err())
	require.InDelta(t, 0.5, gauges(t, alone)["jajeong_redis_memory_used_ratio"], 0.2)

	require.NoError(t, server.Kill())
	require.Zero(t, testutil.CollectAndCount(alone.Metrics()))
	_, err := alone.Health(t.Context())
	require.Error(t, err)
	_, err = alone.Now(t.Context())
	require.Error(t, err)
}

// Each file that cannot be written is reported by itself, because the recommended settings write no snapshots.
func TestHealth_NamesTheFileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})
	info, err := newClient(t, server.Addr()).Info(t.Context(), "memory", "persistence").Result()
	require.NoError(t, err)
	well, err := parseHealth(info)
	require.NoError(t, err)
	require.False(t, well.SnapshotFailed)
	require.False(t, well.AppendFailed)

	for field, want := range map[string]Health{
		"rdb_last_bgsave_status": {SnapshotFailed: true},
		"aof_last_write_status":  {AppendFailed: true},
	} {
		require.Contains(t, info, field+":ok")
		got, err := parseHealth(strings.Replace(info, field+":ok", field+":err", 1))
		require.NoError(t, err)
		want.Policy, want.Used, want.Max = well.Policy, well.Used, well.Max
		require.Equal(t, want, got, field)
	}
}

// Several rounds, since the client picks the node for the discovery of masters at random.
func TestEvictionPolicyOfClusterWithoutAMaster(t *testing.T) {
	t.Parallel()
	nodes := topology.StartCluster(t, 2)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr(), nodes[1].Addr()},
		MaxRedirects: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { cluster.Close() })
	s := newStore(t, cluster, "")
	policy := func() (Health, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // shorter than the client's own timeout
		defer cancel()
		return s.Health(ctx)
	}
	testenv.Eventually(t, "both masters answer in time", func() bool {
		got, err := policy()
		return err == nil && got.Policy == NoEviction
	})
	oneAnswers := func(what string) {
		t.Helper()
		testenv.Eventually(t, "one master answers in time, with "+what, func() bool {
			got, err := policy()
			require.Error(t, err)
			return got.Policy == what && strings.Contains(err.Error(), nodes[1].Addr()) &&
				!strings.Contains(err.Error(), nodes[0].Addr())
		})
	}

	require.NoError(t, nodes[1].Freeze())
	for range 3 {
		oneAnswers(NoEviction)
	}
	require.NoError(t, newClient(t, nodes[0].Addr()).ConfigSet(t.Context(), "maxmemory-policy", "volatile-lru").Err())
	oneAnswers("volatile-lru")
	testenv.Eventually(t, "the metric says so",
		func() bool { return gauges(t, s)["jajeong_redis_eviction_policy_wrong"] == 1 })
	require.NoError(t, nodes[0].Kill())
	got, err := policy()
	require.Error(t, err)
	require.Empty(t, got.Policy)
	require.Zero(t, testutil.CollectAndCount(s.Metrics()))
}
