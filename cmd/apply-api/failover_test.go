package main

import (
	"maps"
	"net"
	"net/http"
	"slices"
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

// The replica lags behind when the master dies: what was told meanwhile is lost. The counter still knows of it, and
// whoever comes now stands behind it.
func TestFailoverToAReplicaThatLagsBehind(t *testing.T) {
	t.Parallel()
	redis := newPair(t)
	p := serving(t, append(asAPI(t, "", redis.master.Addr(), redis.replica.Addr()), "REDIS_ADDRS="+redis.sentinel, "REDIS_MASTER_NAME="+masterName)...)
	c := gather(t, p.apply, someAtOnce)
	c.hears(http.StatusAccepted, 100)
	safe := c.arrivals()
	redis.replicated(t)
	redis.link.Down()
	c.hears(http.StatusAccepted, 50)
	require.NoError(t, redis.master.Kill())
	c.hears(http.StatusServiceUnavailable, 10)
	told := c.arrivals()

	c.hears(http.StatusAccepted, 100)
	c.settle()
	held := readLine(t, redis.onReplica)
	lost := maps.Clone(told)
	for _, p := range held.queue {
		maps.DeleteFunc(lost, func(_ int, arrival int64) bool { return arrival == p.arrival })
	}
	require.Greater(t, len(lost), 50-2*someAtOnce) // some were on their way when the link went down
	require.Empty(t, c.wrong(held, lost))
	for user, arrival := range safe {
		require.NotContains(t, lost, user)
		w := c.ask(user)
		require.Equal(t, http.StatusOK, w.status)
		require.Equal(t, arrival, w.arrival)
	}
	for user := range lost {
		require.True(t, c.ask(user).stands(), "it may apply again")
	}
	held = readLine(t, redis.onReplica)
	require.Empty(t, c.wrong(held, lost))
	highest := slices.Max(slices.Collect(maps.Values(told)))
	for _, place := range held.queue {
		user, err := strconv.Atoi(place.user)
		require.NoError(t, err)
		_, wasTold := told[user]
		require.True(t, place.arrival > highest || wasTold, "nobody comes in before those who were told")
	}
	require.GreaterOrEqual(t, held.accepted, int64(len(held.queue)+len(lost)))
}
