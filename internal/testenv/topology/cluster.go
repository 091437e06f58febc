package topology

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/testenv"
)

const clusterSlots = 16384

// startNode starts a node that never takes another one for failed: no node promotes a replica by itself or refuses
// commands because another one hangs, on purpose or on a slow machine.
func startNode(t testing.TB, args ...string) *testenv.Redis {
	t.Helper()
	return testenv.PrivateRedis(t, testenv.RedisOptions{Args: append([]string{"--cluster-enabled", "yes",
		"--cluster-announce-ip", "127.0.0.1", "--cluster-node-timeout", "86400000"}, args...)}) // a day
}

// StartCluster starts a Cluster of that many masters for this test alone. Each has an equal share of the slots, in
// order. A replica takes over only by CLUSTER FAILOVER TAKEOVER.
func StartCluster(t testing.TB, nodes int) []*testenv.Redis {
	t.Helper()
	cluster := make([]*testenv.Redis, nodes)
	for i := range cluster {
		cluster[i] = startNode(t)
	}
	for i, node := range cluster {
		client := newClient(t, node.Addr())
		errs := []error{
			client.Do(t.Context(), "cluster", "set-config-epoch", i+1).Err(), // distinct epochs avoid conflicts
			client.ClusterAddSlotsRange(t.Context(), i*clusterSlots/nodes, (i+1)*clusterSlots/nodes-1).Err(),
		}
		if i > 0 {
			errs = append(errs, meet(t.Context(), client, cluster[0]))
		}
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("testenv: cluster node %d: %v", i, err)
		}
	}
	for _, node := range cluster {
		client := newClient(t, node.Addr())
		testenv.Eventually(t, "a node knows the whole cluster", func() bool {
			info := client.ClusterInfo(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_size:%d\r\n", nodes))
		})
	}
	return cluster
}

// meet joins a node to the cluster of another one.
func meet(ctx context.Context, node *redis.Client, member *testenv.Redis) error {
	host, port, err := net.SplitHostPort(member.Addr())
	if err != nil {
		return err
	}
	return node.ClusterMeet(ctx, host, port).Err()
}

// AddReplica starts a replica of a master of the cluster for this test alone. It waits until the replica has the
// master's data and every node knows the replica.
func AddReplica(t testing.TB, cluster []*testenv.Redis, master *testenv.Redis) *testenv.Redis {
	t.Helper()
	replica := startNode(t, "--repl-diskless-sync-delay", "0")
	node := newClient(t, replica.Addr())
	if err := meet(t.Context(), node, master); err != nil {
		t.Fatalf("testenv: cluster replica: %v", err)
	}
	id := newClient(t, master.Addr()).ClusterMyID(t.Context()).Val()
	testenv.Eventually(t, "the replica knows its master",
		func() bool { return node.ClusterReplicate(t.Context(), id).Err() == nil })
	awaitLink(t, node)
	for _, one := range cluster {
		client := newClient(t, one.Addr())
		testenv.Eventually(t, "a node knows the replica", func() bool {
			return strings.Contains(client.ClusterNodes(t.Context()).Val(), "slave "+id)
		})
	}
	return replica
}
