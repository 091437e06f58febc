package main

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

// crowdSize applicants are enough for batches, and few enough for a small machine.
const crowdSize = 16

const breakersOpen = "jajeong_apply_breakers_open"

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
	testenv.Eventually(t, "no application is in flight",
		func() bool { return p.metric("jajeong_apply_in_flight") == 0 })
}

func TestUserAboveTheRateIsRefused(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p := serving(t, "REDIS_ADDRS="+redis.Addr(), "USER_RATE=0.001")
	testenv.Eventually(t, "the user is refused", func() bool {
		status, _ := p.ask(1, 7)
		return status == http.StatusTooManyRequests
	})
	p.mustApply(http.StatusAccepted, 1, 8)
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
	require.Equal(t, http.StatusOK, p.ready(), "the admin port answers")
	taken[0].apply(4)
	require.NoError(t, taken[0].Close())
	testenv.Eventually(t, "one connection is closed", func() bool { return p.metric(open) == 1 })
	connectTo(t, p.apply).apply(3)
}
