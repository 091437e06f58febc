package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
)

// talk is a connection on which a test says what it likes.
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
	testenv.Eventually(t, soon, "it is not ready", func() bool { return p.ready() == http.StatusServiceUnavailable })
	// Who has not heard of that yet is served, and sent away.
	kept.say(application(2, ""))
	fresh := talkTo(t, p.apply)
	fresh.say(application(3, ""))
	for _, c := range []talk{kept, fresh} {
		response := c.hear()
		require.Equal(t, http.StatusAccepted, response.StatusCode)
		require.True(t, response.Close)
	}
	testenv.Eventually(t, soon, "it takes no more connections", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.apply, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
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

// Two pods are replaced one after the other, behind a load balancer that goes by their readiness.
func TestARollingRestartFailsNoRequest(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	settings := []string{"REDIS_ADDRS=" + redis.Addr(), "USER_RATE=0", "SHUTDOWN_DELAY=1500ms", "MYSQL_DSN=" + migrated(t, testenv.MySQLFor(t).DSN)}
	b := newBalancer(t)
	old := []*program{startServing(t, settings...), startServing(t, settings...)}
	for _, p := range old {
		b.add(p)
	}
	testenv.Eventually(t, soon, "both pods are ready", func() bool { return b.ready() == 2 })
	c := gather(t, b.URL, someAtOnce)
	c.hears(http.StatusAccepted, 100)
	for _, p := range old {
		b.add(startServing(t, settings...))
		testenv.Eventually(t, soon, "the new pod is ready", func() bool { return b.ready() == 3 })
		c.hears(http.StatusAccepted, 50)
		p.terminate()
		require.Equal(t, 0, p.exit(soon))
		testenv.Eventually(t, soon, "the old pod is gone", func() bool { return b.ready() == 2 })
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
	pods    []*pod
	next    int
	looking sync.WaitGroup
	ended   context.Context
}

type pod struct {
	ready atomic.Bool
	proxy *httputil.ReverseProxy
}

// lookEvery is how often the balancer looks whether a pod is ready.
const lookEvery = 50 * time.Millisecond

func newBalancer(t *testing.T) *balancer {
	b := &balancer{t: t}
	ended, end := context.WithCancel(context.Background())
	b.ended = ended
	b.Server = httptest.NewServer(b)
	t.Cleanup(func() { end(); b.Close(); b.looking.Wait() })
	return b
}

func (b *balancer) add(p *program) {
	b.t.Helper()
	to, err := url.Parse(p.apply)
	require.NoError(b.t, err)
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * someAtOnce}
	b.t.Cleanup(transport.CloseIdleConnections)
	one := &pod{proxy: &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "pod: "+err.Error(), http.StatusBadGateway)
		},
	}}
	b.mu.Lock()
	b.pods = append(b.pods, one)
	b.mu.Unlock()
	b.looking.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			one.ready.Store(p.ready() == http.StatusOK)
			select {
			case <-tick.C:
			case <-b.ended.Done():
				return
			}
		}
	})
}

func (b *balancer) ready() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.pods {
		if p.ready.Load() {
			n++
		}
	}
	return n
}

func (b *balancer) pick() (*pod, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	ready := slices.DeleteFunc(slices.Clone(b.pods), func(p *pod) bool { return !p.ready.Load() })
	if len(ready) == 0 {
		return nil, errors.New("no pod is ready")
	}
	return ready[b.next%len(ready)], nil
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, err := b.pick()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	p.proxy.ServeHTTP(w, r)
}
