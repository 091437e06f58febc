package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

// crowdSize applicants are enough for batches, and few enough for a small machine.
const crowdSize = 16

const breakersOpen = "jajeong_apply_breakers_open"

func TestKilledRedisLosesNoApplication(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true, Args: []string{"--appendfsync", "always"}})
	p, c := underCrowd(t, server.Addr())
	for range 2 {
		c.awaitResponses(http.StatusAccepted, 50)
		require.NoError(t, server.Kill())
		c.awaitResponses(http.StatusServiceUnavailable, 50)
		testenv.Eventually(t, "the circuit breaker is open", func() bool { return p.metric(breakersOpen) == 1 })
		p.awaitReady(http.StatusServiceUnavailable)
		require.NoError(t, server.Restart(t.Context()))
	}
	c.awaitResponses(http.StatusAccepted, 50)
	p.awaitReady(http.StatusOK)
	testenv.Eventually(t, "the circuit breaker is closed", func() bool { return p.metric(breakersOpen) == 0 })
	c.verify(redisClient(t, server.Addr()))
}

// After the freeze, Redis executes the commands that it received meanwhile.
func TestFrozenRedisLosesNoApplication(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p, c := underCrowd(t, server.Addr())
	c.recovers(redisClient(t, server.Addr()), func() {
		require.NoError(t, server.Freeze())
		c.awaitResponses(http.StatusServiceUnavailable, 20)
		testenv.Eventually(t, "the circuit breaker is open", func() bool { return p.metric(breakersOpen) == 1 })
		p.awaitReady(http.StatusServiceUnavailable)
		require.NoError(t, server.Thaw())
	})
	p.awaitReady(http.StatusOK)
	testenv.Eventually(t, "the circuit breaker is closed", func() bool { return p.metric(breakersOpen) == 0 })
}

// isApply reports a call of the apply script. Only the catalog's calls have a status.
func isApply(turn faultproxy.Turn) bool {
	return bytes.Contains(turn.Request, []byte("issued:{")) && !bytes.Contains(turn.Request, []byte("OPEN"))
}

func TestSlowRedisLosesNoApplication(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	var delay atomic.Int64
	wire := faultproxy.New(t, func(turn faultproxy.Turn) faultproxy.Action {
		if d := time.Duration(delay.Load()); d > 0 && isApply(turn) {
			until := make(chan struct{})
			time.AfterFunc(d, func() { close(until) })
			return faultproxy.DelayReply(until)
		}
		return faultproxy.Pass()
	}, server.Addr())
	_, c := underCrowd(t, wire.Addr)
	delay.Store(int64(100 * time.Millisecond))
	c.awaitResponses(http.StatusAccepted, 50) // a call takes many
	c.recovers(redisClient(t, server.Addr()), func() {
		delay.Store(int64(3 * time.Second))
		c.awaitResponses(http.StatusServiceUnavailable, 20)
		delay.Store(0)
	})
}

// Every second reply is lost. A repeated application gets the arrival of the first one.
func TestLostRepliesLoseNoApplication(t *testing.T) {
	t.Parallel()
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		server := testenv.PrivateRedis(t, testenv.RedisOptions{})
		replies := lossyProxy(t, server)
		loseReplies(t, server, replies, replies.wire.Addr)
	})
	// The Cluster client has its own rules for repetitions.
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		server := topology.StartCluster(t, 1)[0]
		replies := lossyProxy(t, server)
		_, port, err := net.SplitHostPort(replies.wire.Addr)
		require.NoError(t, err)
		node := redisClient(t, server.Addr())
		require.NoError(t, node.ConfigSet(t.Context(), "cluster-announce-port", port).Err())
		testenv.Eventually(t, "its address is the wire's", func() bool {
			shards := node.ClusterShards(t.Context()).Val()
			return len(shards) == 1 && strconv.FormatInt(shards[0].Nodes[0].Port, 10) == port
		})
		loseReplies(t, server, replies, replies.wire.Addr+",localhost:"+port)
	})
}

// lossy is a proxy that loses every second reply to an application while now is true.
type lossy struct {
	now                atomic.Bool
	applications, lost int // read them after wire.Turns
	wire               *faultproxy.Proxy
}

func lossyProxy(t *testing.T, server *testenv.Redis) *lossy {
	t.Helper()
	l := new(lossy)
	l.wire = faultproxy.New(t, func(turn faultproxy.Turn) faultproxy.Action {
		if !l.now.Load() || !isApply(turn) {
			return faultproxy.Pass()
		}
		if l.applications++; l.applications%2 == 0 {
			return faultproxy.Pass()
		}
		l.lost++
		return faultproxy.DropReply(nil)
	}, server.Addr())
	return l
}

func loseReplies(t *testing.T, server *testenv.Redis, replies *lossy, addrs string) {
	_, c := underCrowd(t, addrs)
	replies.now.Store(true)
	c.awaitResponses(http.StatusServiceUnavailable, 50)
	c.awaitResponses(http.StatusAccepted, 20) // the other replies
	replies.now.Store(false)
	c.awaitResponses(http.StatusAccepted, 50)
	c.verify(redisClient(t, server.Addr()))
	replies.wire.Turns() // waits for the rule
	require.Greater(t, replies.lost, 10)
	require.Greater(t, c.recoveredUsers(), 10)
}

// A full Redis refuses the script, so that no part of an application is written.
func TestFullRedisKeepsEveryApplication(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	rdb := redisClient(t, server.Addr())
	_, c := underCrowd(t, server.Addr())
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	full := snapshot(t, rdb)
	c.awaitResponses(http.StatusServiceUnavailable, 50)
	require.Equal(t, full, snapshot(t, rdb))
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	c.awaitResponses(http.StatusAccepted, 50)
	c.verify(rdb)
}

func snapshot(t *testing.T, rdb *redis.Client) map[string]string {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), "*candidates:coupon:1*").Result()
	require.NoError(t, err)
	all := map[string]string{}
	for _, key := range keys {
		all[key], err = rdb.Dump(t.Context(), key).Result()
		require.NoError(t, err)
	}
	return all
}

func TestFlushedScriptsFailNoRequest(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	rdb := redisClient(t, server.Addr())
	p, c := underCrowd(t, server.Addr())
	for range 20 {
		c.awaitResponses(http.StatusAccepted, 10)
		require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
	}
	c.awaitResponses(http.StatusAccepted, 10)
	c.verify(rdb)
	_, failures := p.failures()
	require.Empty(t, failures)
}

const refusedInFlight = `jajeong_apply_refused_total{reason="in_flight"}`

func TestApplicationsAboveTheInFlightLimitAreRefused(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p := serving(t, "REDIS_ADDRS="+redis.Addr(), "MAX_IN_FLIGHT=8")
	c := startCrowd(t, p.apply, 64)
	c.awaitResponses(http.StatusAccepted, 50)
	require.NoError(t, redis.Freeze())
	refused := p.metric(refusedInFlight)
	testenv.Eventually(t, "applications above the limit are refused", func() bool { return p.metric(refusedInFlight) >= refused+50 })
	p.awaitReady(http.StatusServiceUnavailable) // the admin port answers
	require.NoError(t, redis.Thaw())
	c.awaitResponses(http.StatusAccepted, 50)
	c.verify(redisClient(t, redis.Addr()))

	// The clients stay within the limit, so that no request is refused.
	refused = p.metric(refusedInFlight)
	c.size = 8
	c.resume()
	c.awaitResponses(http.StatusAccepted, 50)
	c.verify(redisClient(t, redis.Addr()))
	require.InDelta(t, refused, p.metric(refusedInFlight), 0)
	testenv.Eventually(t, "no application is in flight", func() bool { return p.metric("jajeong_apply_in_flight") == 0 })
}

func TestUserAboveTheRateIsRefused(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p := serving(t, "REDIS_ADDRS="+redis.Addr(), "USER_RATE=1")
	c := startCrowd(t, p.apply, 0)
	c.mustApply(7)
	testenv.Eventually(t, "the user is refused", func() bool {
		var asking sync.WaitGroup
		for range 40 {
			asking.Go(func() { c.apply(7) })
		}
		asking.Wait()
		return c.count(http.StatusTooManyRequests) > 0
	})
	c.mustApply(8)
	testenv.Eventually(t, "the user is admitted again", func() bool { return c.apply(7).status == http.StatusOK })
	require.Empty(t, c.violations(readQueue(t, redisClient(t, redis.Addr())), nil))
}

func TestConnectionsAboveTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p := serving(t, "REDIS_ADDRS="+redis.Addr(), "MAX_CONNECTIONS=2")
	const open, refused = "jajeong_connections_open", `jajeong_apply_refused_total{reason="connections"}`
	testenv.Eventually(t, "no connection is open", func() bool { return p.metric(open) == 0 })
	before := p.metric(refused)
	var taken []rawConn
	for user := range 2 {
		conn := connectTo(t, p.apply)
		conn.apply(user + 1) // at once: a connection without a request is closed after five seconds
		taken = append(taken, conn)
	}
	third := connectTo(t, p.apply)
	third.send(application(3, ""))
	answer := third.receive()
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Equal(t, "1", answer.Header.Get("Retry-After"))
	require.True(t, answer.Close)
	_, err := third.answers.Peek(1)
	require.ErrorIs(t, err, io.EOF)
	require.InDelta(t, before+1, p.metric(refused), 0)
	testenv.Eventually(t, "the third connection is closed", func() bool { return p.metric(open) == 2 })
	for path, metric := range map[string]string{
		"/v1/coupons/1": "jajeong_coupons", "/v1/coupons?ids=1": "jajeong_coupons", "/v1/coupons/1/time": "jajeong_time",
	} {
		before := p.metric(metric + `_refused_total{reason="connections"}`)
		surplus := connectTo(t, p.apply)
		surplus.send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n")
		answer := surplus.receive()
		require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
		require.True(t, answer.Close)
		require.InDelta(t, before+1, p.metric(metric+`_refused_total{reason="connections"}`), 0)
		testenv.Eventually(t, "the connection is closed", func() bool { return p.metric(open) == 2 })
	}

	require.Equal(t, http.StatusOK, p.ready(), "the admin port answers")
	taken[0].apply(4)
	require.NoError(t, taken[0].Close())
	testenv.Eventually(t, "one connection is closed", func() bool { return p.metric(open) == 1 })
	connectTo(t, p.apply).apply(3)
}
