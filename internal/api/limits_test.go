package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/batch"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/standing"
	"github.com/jajeong/jajeong/internal/testenv"
)

var (
	tooMany    = refusal{429, "TOO_MANY_REQUESTS", "1", "요청이 너무 많습니다", "Too many requests", "too often"}
	overloaded = refusal{503, "UNAVAILABLE", "1", "지금은 요청을 처리할 수 없습니다", "Requests cannot be processed right now",
		"was not processed"}
	resting = refusal{503, "UNAVAILABLE", "2", "지금은 요청을 처리할 수 없습니다", "Requests cannot be processed right now",
		"cannot be received at the moment"}
)

func accepts(context.Context, coupon.CouponID, coupon.UserID) (candidates.Receipt, error) {
	return candidates.Receipt{Code: candidates.Accepted, Arrival: 1, Position: 1}, nil
}

func (s *site) where(couponID, user string) reply {
	s.t.Helper()
	return s.do(http.MethodGet, "/v1/coupons/"+couponID+"/applications/me", nil, http.Header{"X-User-Id": {user}})
}

// Requests above the limit are refused immediately, until one in flight has been answered.
func TestLimits_InFlight(t *testing.T) {
	t.Parallel()
	reached, open := make(chan struct{}, 2), make(chan struct{})
	s := newLimitedSite(t, applier(func(ctx context.Context, _ coupon.CouponID, _ coupon.UserID) (candidates.Receipt,
		error) {
		reached <- struct{}{}
		<-open
		return accepts(ctx, 0, 0)
	}), coupons{}, api.Limits{InFlight: 2})
	answered := make(chan int, 2)
	for user := range 2 {
		go func() { answered <- s.apply("1", fmt.Sprint(user+1)).status }()
		<-reached
	}
	refuses(t, overloaded, s.asking("1", "3"))
	require.InDelta(t, 2, s.counter("jajeong_apply_refused_total", "in_flight"), 0)
	require.InDelta(t, 2, s.counted("OVERLOADED"), 0)
	require.Equal(t, http.StatusNotFound, s.where("1", "3").status, "questions have a limit of their own")
	require.NoError(t, testutil.GatherAndCompare(s.registry, strings.NewReader(`
# HELP jajeong_apply_in_flight Applications that wait for Redis; in a Cluster, of the shard with the most.
# TYPE jajeong_apply_in_flight gauge
jajeong_apply_in_flight 2
`), "jajeong_apply_in_flight"))
	close(open)
	require.Equal(t, []int{http.StatusAccepted, http.StatusAccepted}, []int{<-answered, <-answered})
	go func() { <-reached }()
	require.Equal(t, http.StatusAccepted, s.apply("1", "3").status)
}

// Requests of one shard do not count for another.
func TestLimits_InFlightPerShard(t *testing.T) {
	t.Parallel()
	reached, open := make(chan struct{}), make(chan struct{})
	s := newSiteOf(t, api.Options{
		Applier: applier(func(ctx context.Context, couponID coupon.CouponID, _ coupon.UserID) (candidates.Receipt,
			error) {
			if couponID == 1 {
				reached <- struct{}{}
				<-open
			}
			return accepts(ctx, 0, 0)
		}),
		Shard:  func(couponID coupon.CouponID) string { return fmt.Sprint(couponID % 2) },
		Limits: api.Limits{InFlight: 1},
	})
	release := sync.OnceFunc(func() { close(open) })
	t.Cleanup(release)
	answered := make(chan int, 1)
	go func() { answered <- s.apply("1", "7").status }()
	<-reached
	require.Equal(t, http.StatusAccepted, s.apply("2", "8").status)
	require.Equal(t, http.StatusServiceUnavailable, s.apply("3", "9").status, "of the shard of coupon 1")
	release()
	require.Equal(t, http.StatusAccepted, <-answered)
}

// newRatedSite allows perSecond requests per user; its clock is ahead of the start of the test.
func newRatedSite(t *testing.T, perSecond float64) (s *site, ahead *atomic.Int64) {
	ahead = new(atomic.Int64)
	began := time.Now()
	return newSiteOf(t, api.Options{
		Applier: applier(accepts), Limits: api.Limits{InFlight: 100, UserRate: perSecond},
		Now: func() time.Time { return began.Add(time.Duration(ahead.Load())) },
	}), ahead
}

// The rate counts all requests of a user, and does not affect other users.
func TestLimits_UserRate(t *testing.T) {
	t.Parallel()
	s, ahead := newRatedSite(t, 2)
	for couponID := range 3 {
		require.Equal(t, http.StatusAccepted, s.apply(fmt.Sprint(couponID+1), "7").status)
	}
	require.Equal(t, http.StatusNotFound, s.where("1", "7").status)
	refuses(t, tooMany, s.asking("1", "7"))
	require.Equal(t, http.StatusTooManyRequests, s.where("1", "7").status)
	require.InDelta(t, 2, s.counter("jajeong_apply_refused_total", "user_rate"), 0)
	require.InDelta(t, 1, s.counter("jajeong_standing_refused_total", "user_rate"), 0)
	require.InDelta(t, 2, s.counted("TOO_MANY_REQUESTS"), 0)
	require.Equal(t, http.StatusAccepted, s.apply("1", "8").status)

	ahead.Store(int64(500 * time.Millisecond))
	require.Equal(t, http.StatusAccepted, s.apply("1", "7").status)
	require.Equal(t, http.StatusTooManyRequests, s.apply("1", "7").status)
}

// A request after Retry-After is admitted.
func TestLimits_RetryAfterFollowsTheUserRate(t *testing.T) {
	t.Parallel()
	s, ahead := newRatedSite(t, 0.1)
	require.Equal(t, http.StatusAccepted, s.apply("1", "7").status)
	ahead.Store(int64(500 * time.Millisecond))
	require.Equal(t, "10", s.apply("1", "7").header.Get("Retry-After"))
	ahead.Store(int64(10500 * time.Millisecond))
	require.Equal(t, http.StatusAccepted, s.apply("1", "7").status)
}

// slowRecords block every question until open is closed.
type slowRecords struct{ asked, open chan struct{} }

func (r slowRecords) Read(context.Context, coupon.CouponID,
	...coupon.UserID) (map[coupon.UserID][]standing.Outcome, promise.Books, error) {
	r.asked <- struct{}{}
	<-r.open
	return nil, promise.Books{}, nil
}

// Questions about applications do not slow down applying, not even while MySQL is slow.
func TestLimits_QuestionsDoNotDelayApplying(t *testing.T) {
	t.Parallel()
	slow := slowRecords{make(chan struct{}), make(chan struct{})}
	s := newSiteOf(t, api.Options{
		Applier: applier(accepts), Records: slow, Limits: api.Limits{InFlight: 1},
		Coupons: shelf{1: coupon.Coupon{ID: 1, TotalQuantity: 7, IssuedCount: 1}},
	})
	const histories = 16
	answered := make(chan int, histories)
	for user := range histories {
		go func() { answered <- s.where("1", fmt.Sprint(user+100)).status }()
		<-slow.asked
	}
	question := overloaded
	question.detail = "was not answered"
	refuses(t, question, func(more ...string) reply {
		return s.do(http.MethodGet, "/v1/coupons/1/applications/me", nil,
			http.Header{"X-User-Id": {"7"}, "Accept-Language": more[1:]})
	})
	require.InDelta(t, 2, s.counter("jajeong_standing_refused_total", "histories"), 0)
	require.Equal(t, http.StatusAccepted, s.apply("1", "8").status)
	close(slow.open)
	for range histories {
		require.Equal(t, http.StatusNotFound, <-answered)
	}
}

// Requests that were not sent to Redis have other texts than requests that Redis did not answer.
func TestLimits_RequestsNotSentToRedisAreDistinguished(t *testing.T) {
	t.Parallel()
	for reason, want := range map[batch.NotSent]refusal{
		batch.QueueFull: overloaded, batch.Expired: overloaded, batch.BreakerOpen: resting,
	} {
		s := newSite(t, applier(func(context.Context, coupon.CouponID, coupon.UserID) (candidates.Receipt, error) {
			return candidates.Receipt{}, fmt.Errorf("apply: %w", reason)
		}), coupons{})
		refuses(t, want, s.asking("1", "7"))
		require.InDelta(t, 2, s.counter("jajeong_apply_refused_total", string(reason)), 0)
		require.Empty(t, s.logs.All(), "an overload is counted and not logged")
	}
	s := newSite(t, applier(func(context.Context, coupon.CouponID, coupon.UserID) (candidates.Receipt, error) {
		return candidates.Receipt{}, context.DeadlineExceeded
	}), coupons{})
	refuses(t, redisAway, s.asking("1", "7"))
	require.InDelta(t, 2, s.counter("jajeong_apply_refused_total", "unanswered"), 0)
}

// A process that is about to end closes each connection after the response.
func TestDraining_ClosesConnections(t *testing.T) {
	t.Parallel()
	var draining atomic.Bool
	s := newSiteOf(t, api.Options{Applier: applier(accepts), Draining: draining.Load})
	closes := func(user string) bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/coupons/1/applications",
			nil)
		require.NoError(t, err)
		request.Header.Set("X-User-ID", user)
		response, err := s.client.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.Close
	}
	require.False(t, closes("1"))
	draining.Store(true)
	require.True(t, closes("2"))
	require.True(t, closes("x"), "also with a refusal")
}

const (
	never = time.Hour               // no test reaches it
	short = 1500 * time.Millisecond // longer than the slack of deadlines
)

var patient = ops.Timeouts{Header: never, Read: never, Write: never, Idle: never}

// listen serves a handler on connections as the public API does. open counts the open connections.
func listen(t *testing.T, limit, surplus int, handler http.HandlerFunc,
	within ...ops.Timeouts) (address string, open func() float64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	connections := httpapi.NewConnections(listener, limit, surplus, registry)
	server := ops.NewServer(handler, append(within, patient)[0], zap.NewNop())
	server.ConnContext = connections.Context
	t.Cleanup(func() {
		_ = server.Close()
		require.Zero(t, open(), "Close closes every connection")
	})
	go func() { _ = server.Serve(connections) }()
	return listener.Addr().String(), func() float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		require.Equal(t, "jajeong_connections_open", families[0].GetName())
		return families[0].GetMetric()[0].GetGauge().GetValue()
	}
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	until(t, conn)
	return conn
}

// until gives a connection the time of the test.
func until(t *testing.T, conn net.Conn) {
	t.Helper()
	deadline, _ := testenv.Patient(t).Deadline()
	require.NoError(t, conn.SetDeadline(deadline))
}

func read(t *testing.T, in *bufio.Reader) string {
	t.Helper()
	response, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return fmt.Sprintf("%d %s", response.StatusCode, text)
}

// Bytes that arrive during a response belong to the next request, however the network splits them.
func TestConnections_KeepPipelinedRequests(t *testing.T) {
	t.Parallel()
	asked, answered := make(chan string), make(chan struct{})
	address, _ := listen(t, 1, 1024, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			body = []byte(err.Error())
		}
		asked <- r.URL.Path
		<-answered
		_, _ = fmt.Fprintf(w, "%s %s", r.URL.Path, body)
	})
	conn := dial(t, address)
	in := bufio.NewReader(conn)
	send := func(text string) {
		_, err := io.WriteString(conn, text)
		require.NoError(t, err)
	}
	send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, "/1", <-asked)
	send("G")
	answered <- struct{}{}
	require.Equal(t, "200 /1 ", read(t, in))
	send("ET /2 HTTP/1.1\r\nHost: x\r\n\r\nPOST /3 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{")
	require.Equal(t, "/2", <-asked)
	answered <- struct{}{}
	require.Equal(t, "200 /2 ", read(t, in))
	send("}GET /4 HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, "/3", <-asked)
	answered <- struct{}{}
	require.Equal(t, "200 /3 {}", read(t, in))
	require.Equal(t, "/4", <-asked)
	answered <- struct{}{}
	require.Equal(t, "200 /4 ", read(t, in))
}

// A read without a deadline returns nothing and consumes nothing.
func TestConnections_ReadNothingWithoutADeadline(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	connections := httpapi.NewConnections(listener, 1, 1024, prometheus.NewRegistry())
	t.Cleanup(func() { _ = connections.Close() })
	client := dial(t, listener.Addr().String())
	conn, err := connections.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(client, "ab")
	require.NoError(t, err)

	for _, want := range []string{"a", "b"} {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(never)))
		one := make([]byte, 1)
		n, err := conn.Read(one)
		require.NoError(t, err)
		require.Equal(t, want, string(one[:n]))
		require.NoError(t, conn.SetReadDeadline(time.Time{}))
		n, err = conn.Read(one)
		require.NoError(t, err)
		require.Zero(t, n)
	}
	require.NoError(t, conn.SetReadDeadline(time.Unix(1, 0)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// Connections above the surplus are closed, until others have closed.
func TestConnections_CloseAboveTheSurplus(t *testing.T) {
	t.Parallel()
	const limit, surplus = 1, 8
	address, open := listen(t, limit, surplus, func(http.ResponseWriter, *http.Request) {})
	var conns []net.Conn
	for range limit + surplus {
		conns = append(conns, dial(t, address))
	}
	last := conns[len(conns)-1]
	_, err := io.WriteString(last, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	require.Equal(t, "200 ", read(t, bufio.NewReader(last)))
	_, err = dial(t, address).Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	testenv.Eventually(t, "all connections are closed", func() bool { return open() == 0 })
}

// A client that is slow at any time is disconnected.
func TestConnections_EndSlowClients(t *testing.T) {
	t.Parallel()
	const request = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n"
	for name, c := range map[string]struct {
		limit       func(*ops.Timeouts) *time.Duration
		sends, said string
	}{
		"header": {func(o *ops.Timeouts) *time.Duration { return &o.Header }, "POST / HTTP/1.1\r\nX-Slow: a",
			""},
		"body":              {func(o *ops.Timeouts) *time.Duration { return &o.Read }, request, "HTTP/1.1 400 "},
		"after a response":  {func(o *ops.Timeouts) *time.Duration { return &o.Idle }, request + "x", "HTTP/1.1 200 "},
		"reads no response": {func(o *ops.Timeouts) *time.Duration { return &o.Write }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			within := patient
			*c.limit(&within) = short
			address, _ := listen(t, 1, 8, func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); err != nil {
					w.WriteHeader(http.StatusBadRequest)
				}
				_, _ = w.Write(make([]byte, 10_000))
			}, within)
			conn := dial(t, address)
			var err error
			for c.sends == "" && err == nil {
				_, err = io.WriteString(conn, request+"x")
			}
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
			_, _ = io.WriteString(conn, c.sends)
			said, err := io.ReadAll(conn)
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
			require.True(t, strings.HasPrefix(string(said), c.said), "%q", said)
		})
	}
}

// slowBody is content that a client has not sent yet.
type slowBody struct{ awaited, sent chan struct{} }

func (b slowBody) Read([]byte) (int, error) {
	b.awaited <- struct{}{}
	<-b.sent
	return 0, io.EOF
}

// Applications whose content has not arrived are not in flight.
func TestLimits_SlowContentIsNotInFlight(t *testing.T) {
	t.Parallel()
	handler := newHandler(api.Options{Applier: applier(accepts), Limits: api.Limits{InFlight: 1}})
	apply := func(body io.Reader) int {
		r, recorder := httptest.NewRequest(http.MethodPost, "/v1/coupons/1/applications", body), httptest.NewRecorder()
		r.Header.Set("X-User-ID", "7")
		handler.ServeHTTP(recorder, r)
		return recorder.Code
	}
	slow, answered := slowBody{make(chan struct{}), make(chan struct{})}, make(chan int)
	go func() { answered <- apply(slow) }()
	<-slow.awaited
	require.Equal(t, http.StatusAccepted, apply(nil))
	close(slow.sent)
	require.Equal(t, http.StatusAccepted, <-answered)
}

// The write deadline of an earlier response may have passed.
func TestConnections_SetAWriteDeadlinePerResponse(t *testing.T) {
	t.Parallel()
	address, _ := listen(t, 1, 1024, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "0")
		response := http.NewResponseController(w)
		assert.NoError(t, response.Flush())
		assert.NoError(t, response.SetWriteDeadline(time.Unix(1, 0)))
	})
	conn := dial(t, address)
	in := bufio.NewReader(conn)
	for range 3 {
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		require.Equal(t, "200 ", read(t, in))
	}
}
