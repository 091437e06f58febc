package main

import (
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

const refusedInFlight = `jajeong_apply_refused_total{reason="in_flight"}`

// Far more come than are taken, and Redis answers nothing. When it goes on, so does everything.
func TestACrowdTooLargeBeforeAFrozenRedis(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p := serving(t, "REDIS_ADDRS="+redis.Addr(), "MAX_IN_FLIGHT=8")
	c := gather(t, p.apply, 64)
	c.hears(http.StatusAccepted, 50)
	require.NoError(t, redis.Freeze())
	refused := p.metric(refusedInFlight)
	testenv.Eventually(t, soon, "many are refused while others wait for Redis", func() bool { return p.metric(refusedInFlight) >= refused+50 })
	require.Equal(t, http.StatusServiceUnavailable, p.ready(), "whoever watches is answered")
	require.NoError(t, redis.Thaw())
	c.hears(http.StatusAccepted, 50)
	c.end(redisClient(t, redis.Addr()))

	// No more come than are taken: nobody is refused.
	refused = p.metric(refusedInFlight)
	c.size = 8
	c.come()
	before := c.count(http.StatusServiceUnavailable)
	c.hears(http.StatusAccepted, 50)
	c.end(redisClient(t, redis.Addr()))
	require.Equal(t, before, c.count(http.StatusServiceUnavailable))
	require.InDelta(t, refused, p.metric(refusedInFlight), 0)
	testenv.Eventually(t, soon, "nothing is left", func() bool { return p.metric("jajeong_apply_in_flight") == 0 })
}

// Who asks too often is refused alone, and is not the worse for it.
func TestAUserWhoAsksTooOftenIsRefused(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p := serving(t, "REDIS_ADDRS="+redis.Addr(), "USER_RATE=1")
	c := gather(t, p.apply, 0)
	require.Equal(t, http.StatusAccepted, c.ask(7).status)
	var asking sync.WaitGroup
	for range 40 {
		asking.Go(func() { c.ask(7) })
	}
	asking.Wait()
	require.Positive(t, c.count(http.StatusTooManyRequests))
	require.Equal(t, http.StatusAccepted, c.ask(8).status)
	testenv.Eventually(t, soon, "he is answered again", func() bool { return c.ask(7).status == http.StatusOK })
	require.Empty(t, c.wrong(readLine(t, redisClient(t, redis.Addr())), nil))
}

// More connections than allowed wait until one is free.
func TestMoreConnectionsThanAllowedWait(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p := serving(t, "REDIS_ADDRS="+redis.Addr(), "MAX_CONNECTIONS=2")
	taken := []talk{talkTo(t, p.apply), talkTo(t, p.apply)}
	for i, conn := range taken {
		conn.say(application(i+1, ""))
		require.Equal(t, http.StatusAccepted, conn.hear().StatusCode)
	}
	waiting := talkTo(t, p.apply)
	waiting.say(application(3, ""))
	require.NoError(t, waiting.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	var timeout net.Error
	_, err := waiting.answers.Peek(1)
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	require.Equal(t, http.StatusOK, p.ready(), "whoever watches is answered")
	taken[0].say(application(4, ""))
	require.Equal(t, http.StatusAccepted, taken[0].hear().StatusCode, "and whoever is there already")

	require.NoError(t, taken[0].Close())
	require.NoError(t, waiting.SetReadDeadline(time.Now().Add(soon)))
	require.Equal(t, http.StatusAccepted, waiting.hear().StatusCode)
}
