package main

import (
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

const refusedInFlight = `jajeong_apply_refused_total{reason="in_flight"}`

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

func TestMoreConnectionsThanAllowedAreRefused(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p := serving(t, "REDIS_ADDRS="+redis.Addr(), "MAX_CONNECTIONS=2")
	const open, refused = "jajeong_connections_open", `jajeong_apply_refused_total{reason="connections"}`
	testenv.Eventually(t, soon, "nobody is connected", func() bool { return p.metric(open) == 0 })
	before := p.metric(refused)
	taken := []talk{talkTo(t, p.apply), talkTo(t, p.apply)}
	for i, conn := range taken {
		conn.say(application(i+1, ""))
		require.Equal(t, http.StatusAccepted, conn.hear().StatusCode)
	}
	third := talkTo(t, p.apply)
	third.say(application(3, ""))
	answer := third.hear()
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Equal(t, "1", answer.Header.Get("Retry-After"))
	require.True(t, answer.Close)
	_, err := third.answers.Peek(1)
	require.ErrorIs(t, err, io.EOF)
	require.InDelta(t, before+1, p.metric(refused), 0)
	testenv.Eventually(t, soon, "it is gone", func() bool { return p.metric(open) == 2 })

	require.Equal(t, http.StatusOK, p.ready(), "whoever watches is answered")
	taken[0].say(application(4, ""))
	require.Equal(t, http.StatusAccepted, taken[0].hear().StatusCode)
	require.NoError(t, taken[0].Close())
	testenv.Eventually(t, soon, "there is a place again", func() bool { return p.metric(open) == 1 })
	third = talkTo(t, p.apply)
	third.say(application(3, ""))
	require.Equal(t, http.StatusAccepted, third.hear().StatusCode)
}
