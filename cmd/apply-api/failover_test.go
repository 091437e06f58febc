package main

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

const (
	masterName = "coupons"
	downAfter  = 500 * time.Millisecond
)

// pair is a master and its replica, with a Sentinel over them.
type pair struct {
	master, replica     *testenv.Redis
	onMaster, onReplica *redis.Client
	link                *testenv.Wire // between them
	sentinel            string        // address
}

func newPair(t *testing.T) pair {
	t.Helper()
	p := pair{master: testenv.PrivateRedis(t, testenv.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})}
	p.link = testenv.WireTo(t, func(testenv.Turn) testenv.Fate { return testenv.Pass() }, p.master.Addr())
	host, port, err := net.SplitHostPort(p.link.Addr)
	require.NoError(t, err)
	p.replica = testenv.PrivateRedis(t, testenv.RedisOptions{Args: []string{"--replicaof", host, port}})
	p.onMaster, p.onReplica = redisClient(t, p.master.Addr()), redisClient(t, p.replica.Addr())
	testenv.Eventually(t, soon, "the replica follows", func() bool {
		return strings.Contains(p.onReplica.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	p.sentinel = testenv.PrivateSentinel(t, masterName, p.master, downAfter).Addr()
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: p.sentinel})
	t.Cleanup(func() { sentinel.Close() })
	testenv.Eventually(t, soon, "the sentinel knows the replica", func() bool {
		return len(sentinel.Replicas(t.Context(), masterName).Val()) == 1
	})
	return p
}

// replicated waits until the replica has everything that the master has acknowledged until now.
func (p pair) replicated(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, soon, "the replica has caught up", func() bool {
		return p.onMaster.Wait(t.Context(), 1, time.Second).Val() == 1
	})
}

// The master dies, with nothing lost: its replica goes on where it was.
func TestFailoverUnderACrowd(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*testenv.Redis) error{"killed": (*testenv.Redis).Kill, "frozen": (*testenv.Redis).Freeze} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := newPair(t)
			p := serving(t, append(asAPI(t, "", redis.master.Addr(), redis.replica.Addr()), "REDIS_ADDRS="+redis.sentinel, "REDIS_MASTER_NAME="+masterName)...)
			// The replica is not waited for: what was acknowledged in the last instant may be gone. So nobody new asks in it.
			c := gather(t, p.apply, someAtOnce)
			c.hears(http.StatusAccepted, 100)
			c.settle()
			redis.replicated(t)
			require.NoError(t, fail(redis.master))

			c.come()
			c.hears(http.StatusServiceUnavailable, 10)
			c.hears(http.StatusAccepted, 100)
			c.hears(http.StatusOK, 20)
			testenv.Eventually(t, soon, "it is ready", func() bool { return p.ready() == http.StatusOK })
			c.end(redis.onReplica)
			if name == "frozen" { // the old master wakes up believing that it is one: nobody asks it any more
				require.NoError(t, redis.master.Thaw())
				c.come()
				c.hears(http.StatusAccepted, 100)
				c.end(redis.onReplica)
			}
		})
	}
}

// The replica lags behind when the master dies: what was told meanwhile is gone with it. The pod puts everybody back whom it
// told, at their first arrival, also those who have applied again by then.
func TestAFailoverToAReplicaThatLagsBehindLosesNobody(t *testing.T) {
	t.Parallel()
	redis := newPair(t)
	p := serving(t, append(asAPI(t, "", redis.master.Addr(), redis.replica.Addr()), "REDIS_ADDRS="+redis.sentinel, "REDIS_MASTER_NAME="+masterName)...)
	c := gather(t, p.apply, someAtOnce)
	c.hears(http.StatusAccepted, 100)
	redis.replicated(t)
	redis.link.Down()
	c.hears(http.StatusAccepted, 50)
	require.NoError(t, redis.master.Kill())
	c.hears(http.StatusServiceUnavailable, 10)
	c.hears(http.StatusAccepted, 100)
	c.settle()

	first := c.firstArrivals()
	testenv.Eventually(t, soon, "everybody who was told stands there", func() bool {
		standing := map[string]bool{}
		for _, p := range readLine(t, redis.onReplica).queue {
			standing[p.user] = true
		}
		for user := range first {
			if !standing[strconv.Itoa(user)] {
				return false
			}
		}
		return true
	})
	held := readLine(t, redis.onReplica)
	for _, place := range held.queue {
		user, err := strconv.Atoi(place.user)
		require.NoError(t, err)
		if arrival, told := first[user]; told {
			require.Equal(t, arrival, place.arrival, "user %d stands at the first arrival", user)
		}
	}
	require.Equal(t, int64(len(held.queue)), held.accepted, "nobody is missing, and nobody is counted twice")
	require.Greater(t, p.metric("jajeong_promises_put_back_total"), 50.0-2*someAtOnce) // some were on their way when the link went down
}
