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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
)

type rawConn struct {
	net.Conn
	t       *testing.T
	answers *bufio.Reader
}

func connectTo(t *testing.T, site string) rawConn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(site, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(testenv.Deadline(t)))
	return rawConn{conn, t, bufio.NewReader(conn)}
}

func (c rawConn) send(text string) {
	c.t.Helper()
	_, err := fmt.Fprint(c, text)
	require.NoError(c.t, err)
}

func application(user int, more string) string {
	return fmt.Sprintf("POST /v1/coupons/1/applications HTTP/1.1\r\nHost: x\r\nX-User-ID: %d\r\n%s\r\n", user, more)
}

// receive reads the next response.
func (c rawConn) receive() *http.Response {
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

// begin sends an application without its body, and returns when the handler waits for the body.
func (c rawConn) begin(user int) {
	c.t.Helper()
	c.send(application(user, "Expect: 100-continue\r\nContent-Length: 2\r\n"))
	require.Equal(c.t, http.StatusContinue, c.receive().StatusCode)
}

func (c rawConn) finish() *http.Response {
	c.t.Helper()
	c.send("{}")
	return c.receive()
}

// apply applies on one connection until the application is queued. This machine may be slower than a timeout for Redis.
func (c rawConn) apply(user int) {
	c.t.Helper()
	status := http.StatusServiceUnavailable
	for status == http.StatusServiceUnavailable {
		c.send(application(user, ""))
		status = c.receive().StatusCode
	}
	require.Contains(c.t, []int{http.StatusAccepted, http.StatusOK}, status)
}

// lastAnswers reports whether all applications were accepted. Each must have an answer, and its connection must be
// closed. On a machine that is slower than a timeout, a body counts as unreadable, and a reply of Redis as missing.
func lastAnswers(t *testing.T, answers ...*http.Response) (accepted bool) {
	t.Helper()
	accepted = true
	for _, response := range answers {
		require.True(t, response.Close)
		require.Contains(t,
			[]int{http.StatusAccepted, http.StatusBadRequest, http.StatusServiceUnavailable}, response.StatusCode)
		accepted = accepted && response.StatusCode == http.StatusAccepted
	}
	return accepted
}

func (p *program) terminate() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
}

// Until the port closes, requests are served, also on open connections. Their connections are closed.
func TestShutdownServesUntilThePortCloses(t *testing.T) {
	t.Parallel()
	testenv.Eventually(t, "both applications are accepted", func() bool {
		redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
		p := serving(t, "REDIS_ADDRS="+redis.Addr(), "SHUTDOWN_DELAY=5m")
		kept := connectTo(t, p.apply)
		kept.send(application(1, ""))
		require.False(t, kept.receive().Close)
		p.terminate()
		p.awaitReady(http.StatusServiceUnavailable)
		kept.send(application(2, ""))
		fresh := connectTo(t, p.apply)
		fresh.send(application(3, ""))
		return lastAnswers(t, kept.receive(), fresh.receive())
	})
}

func TestShutdownAnswersRequestsInFlight(t *testing.T) {
	t.Parallel()
	testenv.Eventually(t, "the applications in flight are accepted", func() bool {
		redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
		p := serving(t, "REDIS_ADDRS="+redis.Addr())
		var inFlight []rawConn
		for i := range 3 {
			c := connectTo(t, p.apply)
			c.begin(10 + i)
			inFlight = append(inFlight, c)
		}
		p.terminate()
		p.awaitNoConnections()
		require.Equal(t, http.StatusServiceUnavailable, p.ready(), "the admin port is open until the last response")
		accepted := lastAnswers(t, inFlight[0].finish(), inFlight[1].finish(), inFlight[2].finish())
		require.Equal(t, 0, p.exit())
		return accepted && len(readQueue(t, redisClient(t, redis.Addr())).queue) == len(inFlight)
	})
}

func TestRollingRestartFailsNoRequest(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	settings := []string{"REDIS_ADDRS=" + redis.Addr(), "USER_RATE=0", "SHUTDOWN_DELAY=" + drainTime.String(),
		"MYSQL_DSN=" + apiDSN(t)}
	b := newBalancer(t)
	var pods []*program
	add := func() {
		p := startAt(t, listening, settings...)
		pods = append(pods, p)
		b.add(p)
	}
	add()
	add()
	testenv.Eventually(t, "both pods are ready", func() bool { return len(b.ready()) == 2 })
	c := startCrowd(t, b.URL, crowdSize)
	c.awaitResponses(http.StatusAccepted, 100)
	for _, p := range pods[:1] {
		add()
		testenv.Eventually(t, "the new pod is ready", func() bool { return len(b.ready()) == 3 })
		c.awaitResponses(http.StatusAccepted, 50)
		p.terminate()
		require.Equal(t, 0, p.exit())
		testenv.Eventually(t, "the old pod is gone", func() bool { return len(b.ready()) == 2 })
		c.awaitResponses(http.StatusAccepted, 50)
	}
	c.verify(redisClient(t, redis.Addr()))
	for _, p := range pods {
		_, failures := p.failures()
		require.Empty(t, failures)
	}
}

// drainTime is how long a pod takes requests after it is no longer ready.
const drainTime = 4 * time.Second

// balancer passes each request to the next ready pod. It keeps connections, and repeats nothing as long as it looks at
// pods often enough.
type balancer struct {
	*httptest.Server
	t       *testing.T
	mu      sync.Mutex
	pods    map[string]bool      // whether they are ready, by URL
	looked  map[string]time.Time // when the last look began that found the pod ready, by URL
	next    atomic.Int64
	looking sync.WaitGroup
	ended   context.Context
}

const lookEvery = 50 * time.Millisecond

func newBalancer(t *testing.T) *balancer {
	b := &balancer{t: t, pods: map[string]bool{}, looked: map[string]time.Time{}}
	ended, end := context.WithCancel(context.Background())
	b.ended = ended
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * crowdSize}
	b.Server = httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(b.pick()) },
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			b.mu.Lock()
			looked := b.looked["http://"+r.URL.Host]
			b.mu.Unlock()
			if time.Since(looked) < drainTime {
				http.Error(w, "pod: "+err.Error(), http.StatusBadGateway)
				return
			}
			// This machine was so slow that the pod may have closed its port.
			r.Body = io.NopCloser(strings.NewReader("{}"))
			b.Config.Handler.ServeHTTP(w, r)
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
			began := time.Now()
			ready := p.ready() == http.StatusOK
			b.mu.Lock()
			if b.pods[p.apply] = ready; ready {
				b.looked[p.apply] = began
			}
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

// pick waits until a pod is ready.
func (b *balancer) pick() *url.URL {
	ready := b.ready()
	for ; len(ready) == 0; ready = b.ready() {
		select {
		case <-time.After(lookEvery):
		case <-b.ended.Done():
			return &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
		}
	}
	to, err := url.Parse(ready[b.next.Add(1)%int64(len(ready))])
	assert.NoError(b.t, err)
	return to
}

// trickleEvery is how often a slow client sends a byte.
const trickleEvery = 50 * time.Millisecond

// readUntilClosed reads until the server closes the connection, and calls others meanwhile.
func readUntilClosed(t *testing.T, c rawConn, others func()) (said string) {
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

// trickle sends one byte at a time until the connection is closed.
func trickle(c rawConn, text string) {
	tick := time.NewTicker(trickleEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		if _, err := c.Write([]byte{text[min(i, len(text)-1)]}); err != nil {
			return
		}
		<-tick.C
	}
}

func TestSlowHeadersDelayNoRequest(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p := serving(t, "REDIS_ADDRS="+redis.Addr())
	for range 20 {
		connectTo(t, p.apply).send("POST /v1/coupons/1/applications HTTP/1.1\r\n")
	}
	mute, slow := connectTo(t, p.apply), connectTo(t, p.apply)
	go trickle(slow, "POST /v1/coupons/1/applications HTTP/1.1\r\nX-Slow: aaa")
	c, user := startCrowd(t, p.apply, 0), 0
	others := func() { user++; c.mustApply(user) }
	require.Empty(t, readUntilClosed(t, slow, others))
	require.Empty(t, readUntilClosed(t, mute, others))
	c.verify(redisClient(t, redis.Addr()))
}

func TestTimeoutsSuitLoadBalancers(t *testing.T) {
	t.Parallel()
	// 0 would be no limit: a body that never ends would keep the process from ending.
	for _, within := range []ops.Timeouts{httpapi.Timeouts, ops.AdminTimeouts} {
		require.Positive(t, within.Read)
		require.LessOrEqual(t, within.Header, within.Read)
		require.Less(t, within.Read+2*time.Second, within.Write)
	}
}

// limited starts the binary with a limit of open files.
func limited(t *testing.T, files int, environment ...string) *program {
	t.Helper()
	shell := exec.Command("/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0"`, files),
		testenv.Build(t, "./cmd/apply-api"))
	return startCommand(t, shell, anywhere(environment))
}

func TestOpenFilesAreReservedForServersAndAdminPort(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p := limited(t, 512, "MYSQL_DSN="+apiDSN(t), "REDIS_ADDRS="+redis.Addr(), "USER_RATE=0", "MAX_STREAMS=1")
	p.await(listening)
	p.awaitReady(http.StatusOK)
	require.Contains(t, p.stderr.String(), `"max_connections":258,"default":16384,"open_files_limit":512,"kept":226`)

	first := connectTo(t, p.apply)
	first.apply(1)
	for user := range 257 { // a connection stays open for two minutes after a request
		connectTo(t, p.apply).apply(1000 + user)
	}
	var surplus []net.Conn
	hangUp := func() {
		for _, conn := range surplus {
			_ = conn.Close()
		}
		surplus = nil
	}
	defer func() { hangUp() }()
	var dialed time.Time
	testenv.Eventually(t, "the connections are open", func() bool {
		if time.Since(dialed) > 4*time.Second { // a connection without a request is closed after five seconds
			hangUp()
			dialed = time.Now()
			for range 100 {
				conn, err := net.Dial("tcp", strings.TrimPrefix(p.apply, "http://"))
				require.NoError(t, err)
				surplus = append(surplus, conn)
			}
		}
		return p.ready() == http.StatusOK && p.metric("jajeong_connections_open") >= 286
	})
	first.apply(2)
	require.NoError(t, redis.Restart(t.Context()))
	p.awaitReady(http.StatusOK)
	require.Less(t, p.metric("process_open_fds"), 490.0)
}

func TestConnectionsThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	p := limited(t, 1024, "MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "MAX_CONNECTIONS=5000", "MAX_STREAMS=1")
	require.Equal(t, 2, p.exit())
	require.Equal(t,
		"apply-api: MAX_CONNECTIONS is 5000, but this process may open 1024 files, and 226 of them are kept for "+
			"connections to databases and for other ports: want at most 719, or raise the limit (ulimit -n, "+
			"LimitNOFILE)\n", p.stderr.String())
	p = limited(t, 200, "MYSQL_DSN=u@tcp(127.0.0.1:1)/d")
	require.Equal(t, 2, p.exit())
	require.Contains(t, p.stderr.String(), "this process may open 200 files")
	p = limited(t, 1024, "MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "MAX_CONNECTIONS=720")
	p.await(adminOpen)
	require.Contains(t, p.stderr.String(), `"max_streams":60,"default":20000,"open_files_limit":1024,"kept":224`,
		"MAX_CONNECTIONS comes first")
	p = limited(t, 1024, "MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "MAX_STREAMS=5000")
	require.Equal(t, 2, p.exit())
	require.Equal(t,
		"apply-api: MAX_STREAMS is 5000, but this process may open 1024 files, 224 of them are kept for connections "+
			"to databases and for the admin port, and streams get at most half of the others, or what a given "+
			"MAX_CONNECTIONS leaves: want at most 375, or raise the limit (ulimit -n, LimitNOFILE)\n",
		p.stderr.String())
	p = limited(t, 1024, "MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "MAX_CONNECTIONS=100", "MAX_STREAMS=600")
	p.await(adminOpen)
	p = limited(t, 1024, "MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "MAX_STREAMS=375")
	p.await(adminOpen)
}
