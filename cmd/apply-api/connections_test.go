package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
)

type talk struct {
	net.Conn
	t       *testing.T
	answers *bufio.Reader
}

func talkTo(t *testing.T, site string) talk {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(site, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(soon)))
	return talk{conn, t, bufio.NewReader(conn)}
}

func (c talk) say(text string) {
	c.t.Helper()
	_, err := fmt.Fprint(c, text)
	require.NoError(c.t, err)
}

func application(user int, more string) string {
	return fmt.Sprintf("POST /v1/coupons/1/applications HTTP/1.1\r\nHost: x\r\nX-User-ID: %d\r\n%s\r\n", user, more)
}

// hear is the next answer, read to its end.
func (c talk) hear() *http.Response {
	c.t.Helper()
	request := httptest.NewRequest(http.MethodPost, "/v1/coupons/1/applications", nil)
	response, err := http.ReadResponse(c.answers, request)
	require.NoError(c.t, err)
	if response.StatusCode != http.StatusContinue {
		require.NoError(c.t, openapi.Check(request, response))
	}
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(c.t, err)
	return response
}

// begin sends an application without its body, and returns once it is being dealt with.
func (c talk) begin(user int) {
	c.t.Helper()
	c.say(application(user, "Expect: 100-continue\r\nContent-Length: 2\r\n"))
	require.Equal(c.t, http.StatusContinue, c.hear().StatusCode)
}

func (c talk) finish() *http.Response {
	c.t.Helper()
	c.say("{}")
	return c.hear()
}

func (p *program) terminate() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
}

func TestTheEndAnswersWhatIsInFlight(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p := serving(t, "REDIS_ADDRS="+redis.Addr(), "SHUTDOWN_DELAY=3s", "SHUTDOWN_GRACE=20s")
	kept := talkTo(t, p.apply)
	kept.say(application(1, ""))
	require.False(t, kept.hear().Close)
	inFlight := []talk{talkTo(t, p.apply), talkTo(t, p.apply), talkTo(t, p.apply)}
	for i, c := range inFlight {
		c.begin(10 + i)
	}

	p.terminate()
	p.awaitReady(http.StatusServiceUnavailable)
	// A request on an open connection is still served, and the connection is closed.
	kept.say(application(2, ""))
	fresh := talkTo(t, p.apply)
	fresh.say(application(3, ""))
	for _, c := range []talk{kept, fresh} {
		response := c.hear()
		require.Equal(t, http.StatusAccepted, response.StatusCode)
		require.True(t, response.Close)
	}
	p.awaitNoConnections()
	require.Equal(t, http.StatusServiceUnavailable, p.ready(), "until the last answer")
	for _, c := range inFlight {
		response := c.finish()
		require.Equal(t, http.StatusAccepted, response.StatusCode)
		require.True(t, response.Close)
	}
	require.Equal(t, 0, p.exit(soon))
	require.Len(t, readLine(t, redisClient(t, redis.Addr())).queue, 6)
}

func TestTheEndDoesNotWaitLongerThanItsGrace(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p := serving(t, "REDIS_ADDRS="+redis.Addr(), "SHUTDOWN_DELAY=0s", "SHUTDOWN_GRACE=500ms")
	talkTo(t, p.apply).begin(7) // and never finishes
	p.terminate()
	require.Equal(t, 1, p.exit(api.Timeouts.Read-time.Second), "before the client is given up")
	require.Contains(t, p.stderr.String(), "some requests were not answered within the grace")
	require.Empty(t, readLine(t, redisClient(t, redis.Addr())).queue)
}

func TestARollingRestartFailsNoRequest(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	settings := []string{"REDIS_ADDRS=" + redis.Addr(), "USER_RATE=0", "SHUTDOWN_DELAY=1500ms", "MYSQL_DSN=" + migrated(t, testenv.MySQLFor(t).DSN)}
	b := newBalancer(t)
	old := []*program{startAt(t, listening, settings...), startAt(t, listening, settings...)}
	for _, p := range old {
		b.add(p)
	}
	testenv.Eventually(t, soon, "both pods are ready", func() bool { return len(b.ready()) == 2 })
	c := gather(t, b.URL, someAtOnce)
	c.hears(http.StatusAccepted, 100)
	for _, p := range old {
		b.add(startAt(t, listening, settings...))
		testenv.Eventually(t, soon, "the new pod is ready", func() bool { return len(b.ready()) == 3 })
		c.hears(http.StatusAccepted, 50)
		p.terminate()
		require.Equal(t, 0, p.exit(soon))
		testenv.Eventually(t, soon, "the old pod is gone", func() bool { return len(b.ready()) == 2 })
		c.hears(http.StatusAccepted, 50)
	}
	require.Zero(t, c.count(http.StatusServiceUnavailable))
	c.end(redisClient(t, redis.Addr()))
}

// balancer passes each request to the next pod that was ready when it last looked. It keeps connections, and tries
// nothing twice.
type balancer struct {
	*httptest.Server
	t       *testing.T
	mu      sync.Mutex
	pods    map[string]bool // whether they are ready, by URL
	next    atomic.Int64
	looking sync.WaitGroup
	ended   context.Context
}

const lookEvery = 50 * time.Millisecond

func newBalancer(t *testing.T) *balancer {
	b := &balancer{t: t, pods: map[string]bool{}}
	ended, end := context.WithCancel(context.Background())
	b.ended = ended
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * someAtOnce}
	b.Server = httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(b.pick()) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "pod: "+err.Error(), http.StatusBadGateway)
		},
	})
	t.Cleanup(func() { end(); b.Close(); b.looking.Wait(); transport.CloseIdleConnections() })
	return b
}

func (b *balancer) add(p *program) {
	b.looking.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			ready := p.ready() == http.StatusOK
			b.mu.Lock()
			b.pods[p.apply] = ready
			b.mu.Unlock()
			select {
			case <-tick.C:
			case <-b.ended.Done():
				return
			}
		}
	})
}

// ready are the URLs of the pods that are ready.
func (b *balancer) ready() (urls []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for pod, ready := range b.pods {
		if ready {
			urls = append(urls, pod)
		}
	}
	slices.Sort(urls)
	return urls
}

// pick returns a URL that cannot be reached if no pod is ready.
func (b *balancer) pick() *url.URL {
	ready := b.ready()
	if len(ready) == 0 {
		return &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	}
	to, err := url.Parse(ready[b.next.Add(1)%int64(len(ready))])
	assert.NoError(b.t, err)
	return to
}

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

func (o *oneCoupon) Apply(context.Context, coupon.CouponID, coupon.UserID) (candidates.Receipt, error) {
	n := o.arrivals.Add(1)
	return candidates.Receipt{Code: candidates.Accepted, Arrival: coupon.Arrival(n), Position: n}, nil
}
func (o *oneCoupon) Lookup(id coupon.CouponID) (coupon.Coupon, bool) {
	return coupon.Coupon{ID: id}, true
}
func (o *oneCoupon) Loaded() bool { return true }

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

// limited is the binary that may open so many files.
func limited(t *testing.T, files int, environment ...string) *program {
	t.Helper()
	shell := exec.Command("/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0"`, files), testenv.Build(t, "./cmd/apply-api"))
	return startCommand(t, shell, anywhere(environment))
}

func TestFewFilesAreKeptForTheServersAndTheAdminPort(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p := limited(t, 1024, "MYSQL_DSN="+migrated(t, testenv.MySQLFor(t).DSN), "REDIS_ADDRS="+redis.Addr(), "USER_RATE=0")
	p.await(listening)
	p.awaitReady(http.StatusOK)
	require.Contains(t, p.stderr.String(), `"max_connections":720,"default":16384,"open_files_limit":1024,"kept":224`)

	first := talkTo(t, p.apply)
	first.say(application(1, ""))
	require.Equal(t, http.StatusAccepted, first.hear().StatusCode)
	for range 1500 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.apply, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
	}
	testenv.Eventually(t, soon, "all of them have come", func() bool { return p.ready() == http.StatusOK && p.metric("jajeong_connections_open") >= 800 })
	first.say(application(2, ""))
	require.Equal(t, http.StatusAccepted, first.hear().StatusCode)
	require.NoError(t, redis.Restart(t.Context()))
	p.awaitReady(http.StatusOK)
	require.Less(t, p.metric("process_open_fds"), 1000.0)
}

func TestConnectionsThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	p := limited(t, 1024, "MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "MAX_CONNECTIONS=5000")
	require.Equal(t, 2, p.exit(20*time.Second))
	require.Equal(t, "apply-api: MAX_CONNECTIONS is 5000, but this process may open 1024 files, and 224 of them are kept for Redis, MySQL and the admin port: want at most 720, or raise the limit (ulimit -n, LimitNOFILE)\n", p.stderr.String())
	p = limited(t, 200, "MYSQL_DSN=u@tcp(127.0.0.1:1)/d")
	require.Equal(t, 2, p.exit(20*time.Second))
	require.Contains(t, p.stderr.String(), "this process may open 200 files")
	p = limited(t, 1024, "MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "MAX_CONNECTIONS=720")
	p.await(adminOpen)
}
