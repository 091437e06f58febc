package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/testenv"
)

// trickleEvery is how often a slow client sends a byte: often enough that it is never quiet for long.
const trickleEvery = 50 * time.Millisecond

// untilEnded reads what the server says until it ends the connection, serving others meanwhile.
func untilEnded(t *testing.T, c talk, others func()) (said string) {
	t.Helper()
	ended := make(chan string, 1)
	go func() {
		text, err := io.ReadAll(c.answers)
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			text = []byte("not ended")
		}
		ended <- string(text)
	}()
	for {
		others()
		select {
		case said := <-ended:
			require.NotEqual(t, "not ended", said)
			return said
		case <-time.After(trickleEvery):
		}
	}
}

// trickle sends a byte now and then until the connection has ended.
func trickle(c talk, text string) {
	tick := time.NewTicker(trickleEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		if _, err := c.Write([]byte{text[min(i, len(text)-1)]}); err != nil {
			return
		}
		<-tick.C
	}
}

func TestSlowHeadersAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p := serving(t, "REDIS_ADDRS="+redis.Addr())
	for range 20 {
		talkTo(t, p.apply).say("POST /v1/coupons/1/applications HTTP/1.1\r\n")
	}
	mute, slow := talkTo(t, p.apply), talkTo(t, p.apply)
	go trickle(slow, "POST /v1/coupons/1/applications HTTP/1.1\r\nX-Slow: aaa")
	c, user := gather(t, p.apply, 0), 0
	others := func() { user++; require.Equal(t, http.StatusAccepted, c.ask(user).status) }
	require.Empty(t, untilEnded(t, slow, others))
	require.Empty(t, untilEnded(t, mute, others))
	c.end(redisClient(t, redis.Addr()))
}

func TestSlowBodiesTakeNobodysPlace(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p := serving(t, "REDIS_ADDRS="+redis.Addr(), "MAX_IN_FLIGHT=2")
	slow := make([]talk, 10)
	for i := range slow {
		slow[i] = talkTo(t, p.apply)
		slow[i].begin(1000 + i)
	}
	c := gather(t, p.apply, 0)
	for user := range 10 {
		require.Equal(t, http.StatusAccepted, c.ask(user+1).status)
	}
	require.Len(t, readLine(t, redisClient(t, redis.Addr())).queue, 10)
	for _, conn := range slow {
		require.Equal(t, http.StatusAccepted, conn.finish().StatusCode)
	}
	require.Len(t, readLine(t, redisClient(t, redis.Addr())).queue, 20)
	require.Zero(t, p.metric(refusedInFlight))
	require.Zero(t, p.metric("jajeong_apply_in_flight"))
}

// oneCoupon is a door that is always open.
type oneCoupon struct{ arrivals atomic.Int64 }

func (o *oneCoupon) Apply(context.Context, uint64, uint64) (candidates.Receipt, error) {
	n := o.arrivals.Add(1)
	return candidates.Receipt{Code: candidates.Accepted, Arrival: n, Position: n}, nil
}
func (o *oneCoupon) Lookup(id uint64) (coupon.Coupon, bool) { return coupon.Coupon{ID: id}, true }
func (o *oneCoupon) Loaded() bool                           { return true }

// impatient serves the public API with timeouts that a test can wait for.
func impatient(t *testing.T, within ops.Timeouts) (site string) {
	t.Helper()
	door := new(oneCoupon)
	handler := api.New(api.Options{
		Applier: door, Coupons: door, Zone: time.UTC, SettlesAt: func(at time.Time) time.Time { return at },
		Limits: api.Limits{InFlight: 100}, Logger: zap.NewNop(), Metrics: prometheus.NewRegistry(), Now: time.Now,
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	connections := api.NewConnections(listener.(*net.TCPListener), 100, 100, prometheus.NewRegistry())
	server, ended := ops.NewServer(handler, within, zap.NewNop()), make(chan struct{})
	server.ConnContext = connections.Context
	go func() { defer close(ended); _ = server.Serve(connections) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return "http://" + listener.Addr().String()
}

const (
	never = time.Hour
	short = 1500 * time.Millisecond
)

func TestSlowClientsAreEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		within ops.Timeouts
		slowly func(talk)
		said   string
	}{
		"header": {ops.Timeouts{Header: short, Read: never, Write: never, Idle: never},
			func(c talk) { trickle(c, "POST /v1/coupons/1/applications HTTP/1.1\r\nX-Slow: aaa") }, ""},
		"body": {ops.Timeouts{Header: never, Read: short, Write: never, Idle: never},
			func(c talk) { trickle(c, application(7, "Content-Length: 1000\r\n")) }, "HTTP/1.1 400 Bad Request"},
		"nothing after an answer": {ops.Timeouts{Header: never, Read: never, Write: never, Idle: short},
			func(c talk) { c.say(application(7, "")) }, "HTTP/1.1 202 Accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := impatient(t, c.within)
			slow := talkTo(t, site)
			go c.slowly(slow)
			others := gather(t, site, 0)
			said := untilEnded(t, slow, func() { require.Equal(t, http.StatusAccepted, others.ask(8).status) })
			require.True(t, strings.HasPrefix(said, c.said), said)
		})
	}
	t.Run("reads no answer", func(t *testing.T) {
		t.Parallel()
		site := impatient(t, ops.Timeouts{Header: never, Read: never, Write: short, Idle: never})
		deaf := talkTo(t, site)
		ended := make(chan error, 1)
		go func() {
			for {
				if _, err := fmt.Fprint(deaf, application(7, "")); err != nil {
					ended <- err
					return
				}
			}
		}()
		others := gather(t, site, 0)
		for {
			require.Equal(t, http.StatusAccepted, others.ask(8).status)
			select {
			case err := <-ended:
				timeout, ok := err.(net.Error)
				require.False(t, ok && timeout.Timeout(), "not ended")
				return
			case <-time.After(trickleEvery):
			}
		}
	})
}

func TestTimeoutsAreOnesThatALoadBalancerCanLiveWith(t *testing.T) {
	t.Parallel()
	for _, within := range []ops.Timeouts{api.Timeouts, ops.AdminTimeouts} {
		require.LessOrEqual(t, within.Header, within.Read)
		require.Less(t, within.Read+2*time.Second, within.Write)
		require.Greater(t, within.Idle, 75*time.Second, "how long nginx keeps a connection")
		require.LessOrEqual(t, within.Idle, 5*time.Minute)
	}
}
