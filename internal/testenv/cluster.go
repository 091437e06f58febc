package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	clusterSlots = 16384
	// Nodes tell each other of the others once a second.
	clusterWithin = 20 * time.Second
)

// PrivateCluster starts a Cluster of so many masters for this test alone. Each has an equal share of the slots, the first
// the lowest ones.
func PrivateCluster(t testing.TB, nodes int) []*Redis {
	t.Helper()
	cluster := make([]*Redis, nodes)
	for i := range cluster {
		cluster[i] = PrivateRedis(t, RedisOptions{Args: []string{"--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"}})
	}
	for i, node := range cluster {
		if err := joinCluster(t.Context(), node, cluster[0], i, nodes); err != nil {
			t.Fatalf("testenv: cluster node %d: %v", i, err)
		}
	}
	for _, node := range cluster {
		client := redis.NewClient(&redis.Options{Addr: node.Addr()})
		defer client.Close()
		Eventually(t, clusterWithin, "a node knows the whole cluster", func() bool {
			info := client.ClusterInfo(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_size:%d\r\n", nodes))
		})
	}
	return cluster
}

// joinCluster gives the node its slots. Epochs of their own spare nodes a quarrel about them.
func joinCluster(ctx context.Context, node, first *Redis, place, nodes int) error {
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

// ClusterReplica starts a replica of a master of a PrivateCluster for this test alone, and waits until it has all that the
// master has and everybody knows it.
func ClusterReplica(t testing.TB, cluster []*Redis, master *Redis) *Redis {
	t.Helper()
	replica := PrivateRedis(t, RedisOptions{Args: []string{"--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1", "--repl-diskless-sync-delay", "0"}})
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
	Eventually(t, clusterWithin, "the replica knows its master", func() bool { return node.ClusterReplicate(t.Context(), id).Err() == nil })
	Eventually(t, clusterWithin, "the replica follows", func() bool {
		return strings.Contains(node.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	for _, one := range cluster {
		client := redis.NewClient(&redis.Options{Addr: one.Addr()})
		defer client.Close()
		Eventually(t, clusterWithin, "a node knows the replica", func() bool {
			return strings.Contains(client.ClusterNodes(t.Context()).Val(), "slave "+id)
		})
	}
	return replica
}
