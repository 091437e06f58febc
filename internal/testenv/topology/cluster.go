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

// StartCluster starts a Cluster of that many masters for this test alone. Each has an equal share of the slots, in order.
func StartCluster(t testing.TB, nodes int) []*testenv.Redis {
	t.Helper()
	cluster := make([]*testenv.Redis, nodes)
	for i := range cluster {
		cluster[i] = testenv.PrivateRedis(t, testenv.RedisOptions{Args: []string{"--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"}})
	}
	for i, node := range cluster {
		if err := joinCluster(t.Context(), node, cluster[0], i, nodes); err != nil {
			t.Fatalf("testenv: cluster node %d: %v", i, err)
		}
	}
	for _, node := range cluster {
		client := redis.NewClient(&redis.Options{Addr: node.Addr()})
		defer client.Close()
		testenv.Eventually(t, within, "a node knows the whole cluster", func() bool {
			info := client.ClusterInfo(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_size:%d\r\n", nodes))
		})
	}
	return cluster
}

// joinCluster assigns slots to the node. Distinct epochs avoid conflicts between nodes.
func joinCluster(ctx context.Context, node, first *testenv.Redis, place, nodes int) error {
	client := redis.NewClient(&redis.Options{Addr: node.Addr()})
	defer client.Close()
	host, port, err := net.SplitHostPort(first.Addr())
	if err != nil {
		return err
	}
	errs := []error{
		client.Do(ctx, "cluster", "set-config-epoch", place+1).Err(),
		client.ClusterAddSlotsRange(ctx, place*clusterSlots/nodes, (place+1)*clusterSlots/nodes-1).Err(),
	}
	if place > 0 {
		errs = append(errs, client.ClusterMeet(ctx, host, port).Err())
	}
	return errors.Join(errs...)
}

// AddReplica starts a replica of a master of the cluster for this test alone. It waits until the replica has the master's
// data and every node knows the replica.
func AddReplica(t testing.TB, cluster []*testenv.Redis, master *testenv.Redis) *testenv.Redis {
	t.Helper()
	replica := testenv.PrivateRedis(t, testenv.RedisOptions{Args: []string{"--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1", "--repl-diskless-sync-delay", "0"}})
	node, of := redis.NewClient(&redis.Options{Addr: replica.Addr()}), redis.NewClient(&redis.Options{Addr: master.Addr()})
	defer node.Close()
	defer of.Close()
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatalf("testenv: cluster replica: %v", err)
	}
	id := of.ClusterMyID(t.Context()).Val()
	if err := node.ClusterMeet(t.Context(), host, port).Err(); err != nil {
		t.Fatalf("testenv: cluster replica: %v", err)
	}
	testenv.Eventually(t, within, "the replica knows its master", func() bool { return node.ClusterReplicate(t.Context(), id).Err() == nil })
	testenv.Eventually(t, within, "the replica follows", func() bool {
		return strings.Contains(node.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	for _, one := range cluster {
		client := redis.NewClient(&redis.Options{Addr: one.Addr()})
		defer client.Close()
		testenv.Eventually(t, within, "a node knows the replica", func() bool {
			return strings.Contains(client.ClusterNodes(t.Context()).Val(), "slave "+id)
		})
	}
	return replica
}
