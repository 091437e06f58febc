package main

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// crowdSize applicants are enough for batches, and few enough for a small machine.
const crowdSize = 16

const (
	breakersOpen = "jajeong_apply_breakers_open"
)

func TestKilledRedisLosesNoApplication(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true, Args: []string{"--appendfsync", "always"}})
	p, c := underCrowd(t, server.Addr())
	require.NoError(t, server.Kill())
	c.awaitResponses(http.StatusServiceUnavailable, 50)
	testenv.Eventually(t, "the circuit breaker is open", func() bool { return p.metric(breakersOpen) == 1 })
	p.awaitReady(http.StatusServiceUnavailable)
	require.NoError(t, server.Restart(t.Context()))
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
	testenv.Eventually(t, "no application is in flight", func() bool { return p.metric("jajeong_apply_in_flight") == 0 })
}

// isApply reports a call of the apply script. Only the catalog's calls have a status.
func isApply(turn faultproxy.Turn) bool {
	return bytes.Contains(turn.Request, []byte("issued:{")) && !bytes.Contains(turn.Request, []byte("OPEN"))
}

func TestSlowRedisLosesNoApplication(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	var slow atomic.Bool
	wire := faultproxy.New(t, func(turn faultproxy.Turn) faultproxy.Action {
		if slow.Load() && isApply(turn) {
			until := make(chan struct{})
			time.AfterFunc(100*time.Millisecond, func() { close(until) })
			return faultproxy.DelayReply(until)
		}
		return faultproxy.Pass()
	}, server.Addr())
	_, c := underCrowd(t, wire.Addr)
	slow.Store(true)
	c.awaitResponses(http.StatusAccepted, 50) // a call takes many
	c.verify(redisClient(t, server.Addr()))
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
