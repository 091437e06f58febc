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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/api"
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
	// Who has not heard of that yet is served, and sent away.
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
