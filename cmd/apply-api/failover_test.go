package main

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

const (
	masterName = "coupons"
	downAfter  = 500 * time.Millisecond
)

func servingOnPair(t *testing.T) (*topology.Pair, *program) {
	t.Helper()
	redis := topology.StartPair(t, masterName, downAfter)
	return redis, serving(t, append(asAPI(t, "", redis.Master.Addr(), redis.Replica.Addr()), "REDIS_ADDRS="+redis.Sentinel, "REDIS_MASTER_NAME="+masterName)...)
}

func TestFailoverUnderACrowd(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*testenv.Redis) error{"killed": (*testenv.Redis).Kill, "frozen": (*testenv.Redis).Freeze} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis, p := servingOnPair(t)
			// The replica is not waited for: what was acknowledged in the last instant may be gone. So nobody new asks in it.
			c := gather(t, p.apply, someAtOnce)
			c.hears(http.StatusAccepted, 100)
			c.settle()
			redis.Replicated(t)
			require.NoError(t, fail(redis.Master))

			c.come()
			c.hears(http.StatusServiceUnavailable, 10)
			c.hears(http.StatusAccepted, 100)
			c.hears(http.StatusOK, 20)
			p.awaitReady(http.StatusOK)
			c.end(redis.OnReplica)
			if name == "frozen" { // the old master wakes up believing that it is one: nobody asks it any more
				require.NoError(t, redis.Master.Thaw())
				c.come()
				c.hears(http.StatusAccepted, 100)
				c.end(redis.OnReplica)
			}
		})
	}
}

// The pod puts lost applications back at their first arrival, also after a second application of the user.
func TestAFailoverToAReplicaThatLagsBehindLosesNobody(t *testing.T) {
	t.Parallel()
	redis, p := servingOnPair(t)
	c := gather(t, p.apply, someAtOnce)
	c.hears(http.StatusAccepted, 100)
	redis.Replicated(t)
	redis.Link.Down()
	c.hears(http.StatusAccepted, 50)
	require.NoError(t, redis.Master.Kill())
	c.hears(http.StatusServiceUnavailable, 10)
	c.hears(http.StatusAccepted, 100)
	c.settle()

	first := c.firstArrivals()
	testenv.Eventually(t, soon, "everybody who was told stands there", func() bool {
		standing := map[string]bool{}
		for _, p := range readLine(t, redis.OnReplica).queue {
			standing[p.user] = true
		}
		for user := range first {
			if !standing[strconv.Itoa(user)] {
				return false
			}
		}
		return true
	})
	held := readLine(t, redis.OnReplica)
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
