package live

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/standing"
)

var errAway = errors.New("the server is away")

// servers are Redis and MySQL in memory, with one coupon.
type servers struct {
	sync.Mutex
	queue    []coupon.UserID // in order; the arrival of a user is its own id
	state    map[coupon.UserID]coupon.Standing
	outcomes map[coupon.UserID]coupon.Standing // in MySQL
	sold     bool
	dlqs     int64
	last     coupon.Arrival // of those who applied and have left the queue
	since    coupon.Arrival

	accepted int64         // applications that Redis counts; 0: those who wait
	toCome   bool          // the server is new to the coupon, and a restore is due
	restores int64         // restores that have ended
	left     int64         // promises that the last one has not found
	books    promise.Books // of the coupon
	shown    coupon.Coupon // in the catalog

	redisAway, mysqlAway bool
	mysqlTakes           time.Duration
	panics               bool
	counts               counts
}

// counts are questions to Redis, users in them, and users that MySQL was asked about.
type counts struct{ looks, asked, histories int }

func (s *servers) count() counts {
	s.Lock()
	defer s.Unlock()
	return s.counts
}

func (s *servers) Watch(_ context.Context, _ coupon.CouponID, upTo coupon.Arrival,
	users ...coupon.UserID) (candidates.Watch, error) {
	s.Lock()
	defer s.Unlock()
	s.counts.looks++
	s.counts.asked += len(users)
	if s.panics {
		panic("a bug")
	}
	if s.redisAway {
		return candidates.Watch{}, errAway
	}
	w := candidates.Watch{Now: time.Now(), Sold: s.sold, DLQChanges: s.dlqs,
		Line: coupon.Line{Since: s.since, Waiting: int64(len(s.queue)), Restored: !s.toCome, Restores: s.restores,
			Left: s.left, Accepted: cmp.Or(s.accepted, int64(len(s.queue)))}}
	position := map[coupon.UserID]int64{}
	for i, user := range s.queue {
		position[user] = int64(i + 1)
		if coupon.Arrival(user) <= upTo {
			w.UpTo++
		}
	}
	if len(s.queue) > 0 {
		w.Lowest, w.Highest = coupon.Arrival(s.queue[0]), coupon.Arrival(s.queue[len(s.queue)-1])
	}
	w.Last = max(s.last, w.Highest)
	for _, user := range users {
		found := candidates.Found{MarkedIssued: s.state[user] == coupon.StandingIssued,
			MarkedRejected: s.state[user] == coupon.StandingRejected}
		if s.state[user] == coupon.StandingUnderReview {
			found.Entries = []coupon.Application{{Source: coupon.SourceHeld}}
		} else if s.state[user] == "" && position[user] > 0 {
			found.Entries = []coupon.Application{{Arrival: coupon.Arrival(user), Source: coupon.SourceQueue}}
			found.Position = position[user]
		}
		w.Users = append(w.Users, found)
	}
	return w, nil
}

func (s *servers) Read(ctx context.Context, _ coupon.CouponID,
	users ...coupon.UserID) (map[coupon.UserID][]standing.Outcome, promise.Books, error) {
	s.Lock()
	defer s.Unlock()
	s.counts.histories += len(users)
	if s.mysqlAway {
		return nil, promise.Books{}, errAway
	}
	if takes := s.mysqlTakes; takes > 0 {
		s.Unlock()
		select {
		case <-time.After(takes):
		case <-ctx.Done():
		}
		s.Lock()
		if ctx.Err() != nil {
			return nil, promise.Books{}, ctx.Err()
		}
	}
	found := map[coupon.UserID][]standing.Outcome{}
	for _, user := range users {
		if is, ok := s.outcomes[user]; ok {
			found[user] = []standing.Outcome{{Outcome: coupon.Outcome(is)}}
		}
	}
	return found, s.books, nil
}

func (s *servers) Lookup(id coupon.CouponID) (coupon.Coupon, bool) {
	return s.shown, id == theCoupon.ID
}

var theCoupon = coupon.Coupon{ID: 42, TotalQuantity: 1000, Cadence: coupon.Nightly}

// change changes the servers.
func (s *servers) change(how func()) {
	s.Lock()
	defer s.Unlock()
	how()
}

// drop takes the first n of the queue away, and gives them a state.
func (s *servers) drop(n int, is coupon.Standing) {
	for _, user := range s.queue[:n] {
		s.state[user] = is
	}
	s.queue = s.queue[n:]
}

// site is a hub in a bubble of time.
type site struct {
	*Hub
	*servers
	t        *testing.T
	registry *prometheus.Registry
}

// inBubble runs a test with a clock of its own.
func inBubble(t *testing.T, max int, test func(s *site)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := &servers{state: map[coupon.UserID]coupon.Standing{}, outcomes: map[coupon.UserID]coupon.Standing{},
			shown: theCoupon, since: coupon.ArrivalAt(time.Now())}
		s := &site{servers: fake, t: t, registry: prometheus.NewRegistry()}
		s.Hub = New(Options{
			Store: fake, Records: fake, Losses: standing.NewLosses(time.Now), Coupons: fake, Max: max,
			Logger: zap.NewNop(), Metrics: s.registry, Now: time.Now,
			Terms: standing.Terms{Zone: func() *time.Location { return time.UTC }, IssueInterval: time.Second},
		})
		test(s)
		s.rooms.Wait()
	})
}

// line lets users from 1 to n wait.
func (s *site) line(n int) {
	for user := 1; user <= n; user++ {
		s.queue = append(s.queue, coupon.UserID(user))
	}
}

// patron is a stream's client, and its connection.
type patron struct {
	http.ResponseWriter
	t     *testing.T
	gone  chan struct{} // the client has hung up
	sends chan struct{} // the client sends a byte
	ended chan struct{} // the server has closed the connection

	mu       sync.Mutex
	deadline time.Time
	frozen   bool
	said     strings.Builder
	times    []time.Time // of the events
}

func (s *site) newPatron() *patron {
	return &patron{ResponseWriter: httptest.NewRecorder(), t: s.t, gone: make(chan struct{}),
		sends: make(chan struct{}), ended: make(chan struct{})}
}

// open opens a stream.
func (s *site) open(user coupon.UserID) *patron {
	c := s.newPatron()
	s.Serve(c, httptest.NewRequest(http.MethodGet, "/", nil), s.shown, user)
	return c
}

func (c *patron) hangUp() {
	select {
	case <-c.gone:
	default:
		close(c.gone)
	}
}

func (c *patron) Hijack() (net.Conn, *bufio.ReadWriter, error) { return line{c}, nil, nil }

// line is the server's end of a patron's connection.
type line struct{ *patron }

func (c line) Read([]byte) (int, error) {
	select {
	case <-c.sends:
		return 1, nil
	case <-c.gone:
	case <-c.ended:
	}
	return 0, io.EOF
}

func (c line) Close() error {
	close(c.ended)
	return nil
}

func (c line) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = at
	return nil
}

func (c line) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frozen {
		time.Sleep(time.Until(c.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	if strings.Contains(string(text), "data: ") {
		c.times = append(c.times, time.Now())
	}
	c.said.Write(text)
	return len(text), nil
}

func (line) LocalAddr() net.Addr             { return nil }
func (line) RemoteAddr() net.Addr            { return nil }
func (line) SetDeadline(time.Time) error     { return nil }
func (line) SetReadDeadline(time.Time) error { return nil }

func (c *patron) freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = true
}

// events are the JSON texts that were received.
func (c *patron) events() (events []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for line := range strings.Lines(c.said.String()) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			events = append(events, strings.TrimSpace(data))
		}
	}
	return events
}

// text is the body.
func (c *patron) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, body, _ := strings.Cut(c.said.String(), "\r\n\r\n")
	return body
}

func (c *patron) heardAt() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.times)
}

func (c *patron) count(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Count(c.said.String(), text)
}

// requireLast demands a substring of the last event.
func (c *patron) requireLast(text string) {
	c.t.Helper()
	events := c.events()
	require.NotEmpty(c.t, events)
	require.Contains(c.t, events[len(events)-1], text)
}

func (c *patron) isOver() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// pass lets time pass, and every goroutine work.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
