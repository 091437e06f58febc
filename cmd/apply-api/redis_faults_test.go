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

// someAtOnce are more than a batch answers at a time, and few enough for a small machine.
const someAtOnce = 16

const breakersOpen = "jajeong_apply_breakers_open"

func TestRedisIsKilledUnderACrowd(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true, Args: []string{"--appendfsync", "always"}})
	p, c := underCrowd(t, server.Addr())
	for range 2 {
		c.hears(http.StatusAccepted, 50)
		require.NoError(t, server.Kill())
		c.hears(http.StatusServiceUnavailable, 50)
		testenv.Eventually(t, soon, "it leaves Redis alone", func() bool { return p.metric(breakersOpen) == 1 })
		p.awaitReady(http.StatusServiceUnavailable)
		require.NoError(t, server.Restart(t.Context()))
	}
	c.hears(http.StatusAccepted, 50)
	require.Equal(t, http.StatusOK, p.ready())
	require.Zero(t, p.metric(breakersOpen))
	c.end(redisClient(t, server.Addr()))
}

// After the freeze, Redis executes the commands that it received meanwhile.
func TestRedisIsFrozenUnderACrowd(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p, c := underCrowd(t, server.Addr())
	require.NoError(t, server.Freeze())
	c.hears(http.StatusServiceUnavailable, 20)
	testenv.Eventually(t, soon, "it leaves Redis alone", func() bool { return p.metric(breakersOpen) == 1 })
	require.Equal(t, http.StatusServiceUnavailable, p.ready())
	require.NoError(t, server.Thaw())
	c.hears(http.StatusAccepted, 50)
	p.awaitReady(http.StatusOK)
	c.end(redisClient(t, server.Addr()))
	require.Zero(t, p.metric(breakersOpen))
	require.Positive(t, c.clearedUp(), "who was not told stood in line")
}

// isApply tells the script's calls from those of the catalog, which know nothing of an issued set.
func isApply(turn faultproxy.Turn) bool { return bytes.Contains(turn.Request, []byte("issued:{")) }

func TestRedisIsSlowUnderACrowd(t *testing.T) {
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
	c.hears(http.StatusAccepted, 50) // a call takes many
	delay.Store(int64(3 * time.Second))
	c.hears(http.StatusServiceUnavailable, 20)
	delay.Store(0)
	c.hears(http.StatusAccepted, 50)
	c.end(redisClient(t, server.Addr()))
	require.Positive(t, c.clearedUp(), "who was not told stood in line")
}

// Every second reply is lost. Who asks again hears of the place he has since the first time.
func TestRepliesAreLostUnderACrowd(t *testing.T) {
	t.Parallel()
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		server := testenv.PrivateRedis(t, testenv.RedisOptions{})
		replies := lossyWire(t, server)
		loseReplies(t, server, replies, replies.wire.Addr)
	})
	// The Cluster client has ways of its own to try again.
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		server := topology.StartCluster(t, 1)[0]
		replies := lossyWire(t, server)
		_, port, err := net.SplitHostPort(replies.wire.Addr)
		require.NoError(t, err)
		node := redisClient(t, server.Addr())
		require.NoError(t, node.ConfigSet(t.Context(), "cluster-announce-port", port).Err())
		testenv.Eventually(t, soon, "its address is the wire's", func() bool {
			shards := node.ClusterShards(t.Context()).Val()
			return len(shards) == 1 && strconv.FormatInt(shards[0].Nodes[0].Port, 10) == port
		})
		loseReplies(t, server, replies, replies.wire.Addr+",localhost:"+port)
	})
}

// lossy is a wire that loses every second reply to an application while now.
type lossy struct {
	now                atomic.Bool
	applications, lost int // to be read after wire.Turns
	wire               *faultproxy.Proxy
}

func lossyWire(t *testing.T, server *testenv.Redis) *lossy {
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
	c.hears(http.StatusServiceUnavailable, 50)
	c.hears(http.StatusAccepted, 20) // among them
	replies.now.Store(false)
	c.hears(http.StatusAccepted, 50)
	c.end(redisClient(t, server.Addr()))
	replies.wire.Turns() // before what the rule has counted is read
	require.Greater(t, replies.lost, 10)
	require.Greater(t, c.clearedUp(), 10)
}

// A Redis that has no memory left refuses to write: nothing of an application is in it then.
func TestRedisIsOutOfMemoryUnderACrowd(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	rdb := redisClient(t, server.Addr())
	_, c := underCrowd(t, server.Addr())
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	full := snapshot(t, rdb)
	c.hears(http.StatusServiceUnavailable, 50)
	require.Equal(t, full, snapshot(t, rdb))
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	c.hears(http.StatusAccepted, 50)
	c.end(rdb)
	require.Zero(t, c.clearedUp(), "who was not told did not stand in line")
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

func TestScriptsAreFlushedUnderACrowd(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	rdb := redisClient(t, server.Addr())
	_, c := underCrowd(t, server.Addr())
	for range 20 {
		c.hears(http.StatusAccepted, 10)
		require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
	}
	c.hears(http.StatusAccepted, 10)
	c.end(rdb)
	require.Zero(t, c.count(http.StatusServiceUnavailable))
}

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

	// The clients stay within the limit, so that no request is refused.
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
