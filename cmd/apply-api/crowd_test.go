package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
)

// pace is the time between two requests of a crowd.
const pace = 10 * time.Millisecond

// asAPI are the settings of a login to these Redis servers, with the rights of docs/redis-users.acl.
func asAPI(t *testing.T, prefix string, addrs ...string) []string {
	t.Helper()
	users := testenv.RedisUsersFor(t, redisClient(t, addrs[0]), prefix, docs.RedisUsers)
	for _, addr := range addrs[1:] {
		users.MakeOn(redisClient(t, addr))
	}
	username, password := users.As("jajeong_api")
	return []string{"REDIS_USERNAME=" + username, "REDIS_PASSWORD_FILE=" + testenv.SecretFile(t, password)}
}

// serving starts the binary with a database of its own and a given Redis, and waits until it is ready. It adds a Redis
// login, except for Sentinels, whose callers add it.
func serving(t *testing.T, environment ...string) *program {
	t.Helper()
	all := strings.Join(environment, "\n")
	if found := regexp.MustCompile(`(?m)^REDIS_ADDRS=(.*)$`).FindStringSubmatch(all); !strings.Contains(all,
		"REDIS_MASTER_NAME") {
		environment = append(environment, asAPI(t, "", strings.Split(found[1], ",")...)...)
	}
	p := startAt(t, listening, append([]string{"MYSQL_DSN=" + apiDSN(t), "USER_RATE=0"}, environment...)...)
	p.awaitReady(http.StatusOK)
	return p
}

// underCrowd starts the binary with concurrent applicants, and waits until 50 applications are accepted.
func underCrowd(t *testing.T, addrs string, environment ...string) (*program, *crowd) {
	t.Helper()
	p := serving(t, append([]string{"REDIS_ADDRS=" + addrs}, environment...)...)
	c := startCrowd(t, p.apply, crowdSize)
	c.awaitResponses(http.StatusAccepted, 50)
	return p, c
}

// metric returns the value of a metric; name includes the labels.
func (p *program) metric(name string) float64 {
	p.t.Helper()
	_, text := p.get("/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			require.NoError(p.t, err)
			return number
		}
	}
	require.Fail(p.t, "no metric "+name)
	return 0
}

func redisClient(t *testing.T, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	return client
}

// crowd sends applications for coupon 1 without end: first applications, repetitions after a lost response, and
// duplicates.
type crowd struct {
	*record
	t          *testing.T
	url        string
	client     *http.Client
	ctx        context.Context // of requests
	size       int
	users      atomic.Int64
	tick       *time.Ticker
	stopped    chan struct{}
	applicants sync.WaitGroup
}

// startCrowd starts a crowd of so many concurrent applicants.
func startCrowd(t *testing.T, url string, size int) *crowd {
	t.Helper()
	c := &crowd{
		record: newRecord(), t: t, url: url, size: size,
		client: &http.Client{Transport: openapi.Transport(t, &http.Transport{MaxIdleConnsPerHost: size})},
		ctx:    testenv.Patient(t),
	}
	c.resume()
	t.Cleanup(c.stop)
	return c
}

// resume starts the applicants, also after stop.
func (c *crowd) resume() {
	c.tick, c.stopped = time.NewTicker(pace), make(chan struct{})
	for range c.size {
		c.applicants.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-c.stopped:
					return
				case <-c.tick.C:
					c.apply(c.nextUser(n))
				}
			}
		})
	}
}

// stop stops the applicants after the responses to their last requests.
func (c *crowd) stop() {
	select {
	case <-c.stopped:
	default:
		close(c.stopped)
	}
	c.applicants.Wait()
	c.tick.Stop()
	c.client.CloseIdleConnections()
}

func (c *crowd) nextUser(n int) int {
	switch n % 4 {
	case 1:
		if user, ok := c.takeUnanswered(); ok {
			return user
		}
	case 2:
		if user, ok := c.someAccepted(n); ok {
			return user
		}
	}
	return int(c.users.Add(1))
}

// mustApply applies until the application is queued: this machine may be slower than a timeout for Redis.
func (c *crowd) mustApply(user int) {
	c.t.Helper()
	testenv.Eventually(c.t, "the application is queued", func() bool { return c.apply(user).queued() })
}

// plain hides the methods that the client needs to repeat a request by itself.
type plain struct{ io.Reader }

func (c *crowd) apply(user int) result {
	w := c.send(user)
	c.add(user, w)
	return w
}

func (c *crowd) send(user int) (w result) {
	request, err := http.NewRequestWithContext(c.ctx, http.MethodPost, c.url+"/v1/coupons/1/applications",
		plain{strings.NewReader("{}")})
	if err != nil {
		return result{problem: err.Error()}
	}
	request.ContentLength = 2
	request.Header.Set("X-User-ID", strconv.Itoa(user))
	response, err := c.client.Do(request)
	if err != nil {
		return result{problem: err.Error()}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return result{problem: err.Error()}
	}
	return c.read(response, text, user)
}

// read also checks the response against the API's contract.
func (c *crowd) read(response *http.Response, text []byte, user int) (w result) {
	w.status = response.StatusCode
	var document struct {
		Status    any
		Code      string
		UserID    int
		Position  int64
		AppliedAt time.Time
	}
	err := json.Unmarshal(text, &document)
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	want := map[int]string{
		http.StatusAccepted: "ACCEPTED", http.StatusOK: "DUPLICATE",
		http.StatusServiceUnavailable: "UNAVAILABLE", http.StatusTooManyRequests: "TOO_MANY_REQUESTS",
	}[w.status]
	switch {
	case err != nil:
	case w.queued() && document.Status == want && document.UserID == user && document.Position > 0:
		w.arrival, w.position = document.AppliedAt.UnixMicro(), document.Position
		return w
	case !w.queued() && document.Code == want && seconds > 0 &&
		response.Header.Get("Content-Type") == "application/problem+json":
		return w
	}
	w.problem = fmt.Sprintf("%s %s with Retry-After %q", response.Status, text, response.Header.Get("Retry-After"))
	return w
}

// awaitResponses waits for so many more responses with a status.
func (c *crowd) awaitResponses(status, more int) {
	c.t.Helper()
	enough := c.count(status) + more
	testenv.Eventually(c.t, fmt.Sprintf("%d more responses with status %d", more, status), func() bool {
		return c.count(status) >= enough
	})
}

// awaitResults stops the crowd, and repeats applications until every user has a result.
func (c *crowd) awaitResults() {
	c.t.Helper()
	c.stop()
	testenv.Eventually(c.t, "every user has a result", func() bool {
		user, ok := c.takeUnanswered()
		for ; ok; user, ok = c.takeUnanswered() {
			if w := c.apply(user); !w.queued() && w.problem == "" {
				return false
			}
		}
		return true
	})
	c.client.CloseIdleConnections()
}

// verify stops the crowd and compares all responses with Redis.
func (c *crowd) verify(rdb redis.Cmdable) {
	c.t.Helper()
	c.awaitResults()
	require.Empty(c.t, c.violations(readQueue(c.t, rdb)))
}

// recovers repeats a fault until an application was queued whose response was lost. Whether a single fault meets one is
// chance: at that moment, Redis may receive commands of the catalog only. One is enough as a rule.
func (c *crowd) recovers(rdb redis.Cmdable, fault func()) {
	c.t.Helper()
	for c.ctx.Err() == nil {
		fault()
		c.awaitResponses(http.StatusAccepted, 50)
		c.verify(rdb)
		if c.recoveredUsers() > 0 {
			return
		}
		c.resume()
		c.awaitResponses(http.StatusAccepted, 50)
	}
	require.Fail(c.t, "no application without a response was queued")
}
