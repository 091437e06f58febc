package testenv

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// pairWithin is when a pair and its Sentinel must know one another.
const pairWithin = 30 * time.Second

// Pair is a master and its replica, with a Sentinel over them.
type Pair struct {
	Master, Replica *Redis
	Link            *Wire  // between them
	Sentinel        string // address

	OnMaster, OnReplica *redis.Client
}

// PrivatePair starts a pair for this test alone. The Sentinel knows the master by name, and takes it for down when it has not
// answered for downAfter.
func PrivatePair(t *testing.T, name string, downAfter time.Duration) *Pair {
	t.Helper()
	client := func(s *Redis) *redis.Client {
		client := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
		t.Cleanup(func() { client.Close() })
		return client
	}
	p := &Pair{Master: PrivateRedis(t, RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})}
	p.Link = WireTo(t, func(Turn) Fate { return Pass() }, p.Master.Addr())
	host, port, err := net.SplitHostPort(p.Link.Addr)
	if err != nil {
		t.Fatalf("testenv: pair: %v", err)
	}
	p.Replica = PrivateRedis(t, RedisOptions{Args: []string{"--replicaof", host, port}})
	p.OnMaster, p.OnReplica = client(p.Master), client(p.Replica)
	Eventually(t, pairWithin, "the replica follows", func() bool {
		return strings.Contains(p.OnReplica.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	p.Sentinel = PrivateSentinel(t, name, p.Master, downAfter).Addr()
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: p.Sentinel})
	t.Cleanup(func() { sentinel.Close() })
	Eventually(t, pairWithin, "the sentinel knows the replica", func() bool {
		return len(sentinel.Replicas(t.Context(), name).Val()) == 1
	})
	return p
}

// Replicated waits until the replica has everything that the master has acknowledged until now.
func (p *Pair) Replicated(t *testing.T) {
	t.Helper()
	Eventually(t, pairWithin, "the replica has caught up", func() bool {
		return p.OnMaster.Wait(t.Context(), 1, time.Second).Val() == 1
	})
}

// Promoted waits until the replica is a master.
func (p *Pair) Promoted(t *testing.T) {
	t.Helper()
	Eventually(t, pairWithin, "the replica is promoted", func() bool {
		return strings.Contains(p.OnReplica.Info(t.Context(), "replication").Val(), "role:master")
	})
}
