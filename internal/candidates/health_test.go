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

func TestEvictionPolicy(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	rdb := newClient(t, server.Addr())
	s := newStore(t, rdb, "")
	for _, policy := range []string{"noeviction", "volatile-ttl", "allkeys-lru"} {
		require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory-policy", policy).Err())
		got, err := s.Health(t.Context())
		require.NoError(t, err)
		require.Equal(t, policy, got.Policy)
		require.Equal(t, policy != NoEviction, gauges(t, s)["jajeong_redis_eviction_policy_wrong"] == 1)
	}

	require.NoError(t, server.Kill())
	require.Zero(t, testutil.CollectAndCount(s.Metrics()))
	_, err := s.Health(t.Context())
	require.Error(t, err)
	_, err = s.Now(t.Context())
	require.Error(t, err)
}

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

// The ratio is that of the memory that counts against maxmemory; in a Cluster, of the fullest master. A wrong policy
// of any master is that of the Cluster.
func TestMemoryUsed(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	rdb := newClient(t, server.Addr())
	s := newStore(t, rdb, "")
	require.Zero(t, gauges(t, s)["jajeong_redis_memory_used_ratio"], "there is no limit")
	now, err := s.Health(t.Context())
	require.NoError(t, err)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", decimal(2*now.Used)).Err())
	require.InDelta(t, 0.5, gauges(t, s)["jajeong_redis_memory_used_ratio"], 0.2)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", decimal(now.Used/2)).Err())
	require.Greater(t, gauges(t, s)["jajeong_redis_memory_used_ratio"], 1.0)

	nodes := topology.StartCluster(t, 2)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr(), nodes[1].Addr()}})
	t.Cleanup(func() { cluster.Close() })
	ofCluster := newStore(t, cluster, "")
	for _, full := range nodes {
		node := newClient(t, full.Addr())
		require.NoError(t, node.ConfigSet(t.Context(), "maxmemory", "1mb").Err())
		require.Greater(t, gauges(t, ofCluster)["jajeong_redis_memory_used_ratio"], NearlyFull)
		require.NoError(t, node.ConfigSet(t.Context(), "maxmemory", "0").Err())

		require.NoError(t, node.ConfigSet(t.Context(), "maxmemory-policy", "volatile-lru").Err())
		got, err := ofCluster.Health(t.Context())
		require.NoError(t, err)
		require.Equal(t, "volatile-lru", got.Policy)
		require.NoError(t, node.ConfigSet(t.Context(), "maxmemory-policy", NoEviction).Err())
	}
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

// One master of a Cluster that cannot write a snapshot is enough.
func TestNotSaving(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	c := newStore(t, newClient(t, server.Addr()), "")
	notSaving := func(s *Store, want bool) {
		t.Helper()
		health, err := s.Health(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, health.SnapshotFailed)
		require.False(t, health.AppendFailed)
		require.Equal(t, want, gauges(t, s)["jajeong_redis_not_saving snapshot"] == 1)
		require.Zero(t, gauges(t, s)["jajeong_redis_not_saving append_only"])
	}
	notSaving(c, false)
	mend := server.FailSnapshots(t)
	notSaving(c, true)
	mend()
	notSaving(c, false)

	nodes := topology.StartCluster(t, 2)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr(), nodes[1].Addr()}})
	t.Cleanup(func() { cluster.Close() })
	for _, node := range nodes {
		mend := node.FailSnapshots(t)
		notSaving(newStore(t, cluster, ""), true)
		mend()
		notSaving(newStore(t, cluster, ""), false)
	}
}

// Several rounds, since the client picks the node for the discovery of masters at random.
func TestEvictionPolicyOfClusterWithoutAMaster(t *testing.T) {
	t.Parallel()
	nodes := topology.StartCluster(t, 2)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr(), nodes[1].Addr()}, MaxRedirects: -1, ContextTimeoutEnabled: true})
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
			return got.Policy == what && strings.Contains(err.Error(), nodes[1].Addr()) && !strings.Contains(err.Error(), nodes[0].Addr())
		})
	}

	require.NoError(t, nodes[1].Freeze())
	for range 3 {
		oneAnswers(NoEviction)
	}
	require.NoError(t, newClient(t, nodes[0].Addr()).ConfigSet(t.Context(), "maxmemory-policy", "volatile-lru").Err())
	oneAnswers("volatile-lru")
	testenv.Eventually(t, "the metric says so", func() bool { return gauges(t, s)["jajeong_redis_eviction_policy_wrong"] == 1 })
	require.NoError(t, nodes[0].Kill())
	got, err := policy()
	require.Error(t, err)
	require.Empty(t, got.Policy)
	require.Zero(t, testutil.CollectAndCount(s.Metrics()))
}
