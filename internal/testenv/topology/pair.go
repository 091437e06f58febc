package topology

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// Pair is a master and its replica, watched by a Sentinel.
type Pair struct {
	Master, Replica *testenv.Redis
	Link            *faultproxy.Proxy // between them
	Sentinel        string            // address

	OnMaster, OnReplica *redis.Client
	onSentinel          *redis.SentinelClient
	name                string
}

// StartPair starts a pair for this test alone. The Sentinel knows the master by this name, and promotes the replica
// at Promote.
func StartPair(t *testing.T, name string) *Pair {
	t.Helper()
	p := &Pair{name: name, Master: testenv.PrivateRedis(t,
		testenv.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})}
	p.Link = faultproxy.New(t, func(faultproxy.Turn) faultproxy.Action { return faultproxy.Pass() }, p.Master.Addr())
	host, port, err := net.SplitHostPort(p.Link.Addr)
	if err != nil {
		t.Fatalf("testenv: pair: %v", err)
	}
	p.Replica = testenv.PrivateRedis(t, testenv.RedisOptions{Args: []string{"--replicaof", host, port}})
	p.OnMaster, p.OnReplica = newClient(t, p.Master.Addr()), newClient(t, p.Replica.Addr())
	awaitLink(t, p.OnReplica)
	// The Sentinel would lead the replica past the link after 8 s, since it knows the master by another address.
	onlyPromote := []any{"acl", "setuser", "default", "-slaveof", "-replicaof", "+slaveof|no", "+replicaof|no"}
	if err := p.OnReplica.Do(t.Context(), onlyPromote...).Err(); err != nil {
		t.Fatalf("testenv: pair: %v", err)
	}
	p.Sentinel = StartSentinel(t, name, p.Master).Addr()
	p.onSentinel = redis.NewSentinelClient(&redis.Options{Addr: p.Sentinel, DialTimeout: time.Hour, ReadTimeout: -1})
	t.Cleanup(func() { p.onSentinel.Close() })
	testenv.Eventually(t, "the sentinel knows the replica", func() bool {
		return len(p.onSentinel.Replicas(t.Context(), name).Val()) == 1
	})
	return p
}

func newClient(t testing.TB, addr string) *redis.Client {
	t.Helper()
	return testenv.RedisClient(t, addr)
}

// awaitLink waits until a replica has the data of its master.
func awaitLink(t testing.TB, replica *redis.Client) {
	t.Helper()
	testenv.Eventually(t, "the replica follows", func() bool {
		return strings.Contains(replica.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
}

// Replicated waits until the replica has everything that the master has acknowledged until now.
func (p *Pair) Replicated(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, "the replica has caught up", func() bool {
		return p.OnMaster.Wait(t.Context(), 1, time.Second).Val() == 1
	})
}

// Promote has the Sentinel promote the replica, also when the master does not answer, and waits until it names the
// new master.
func (p *Pair) Promote(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, "the replica is promoted", func() bool {
		if strings.Join(p.onSentinel.GetMasterAddrByName(t.Context(), p.name).Val(), ":") == p.Replica.Addr() {
			return true
		}
		// Refused while one is in progress, or without a recent answer of the replica.
		_ = p.onSentinel.Failover(t.Context(), p.name).Err()
		return false
	})
}
