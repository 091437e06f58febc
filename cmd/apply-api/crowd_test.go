package main

import (
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

const (
	// answeredWithin bounds each answer, whatever has happened to Redis: two seconds, and a machine that is busy.
	answeredWithin = 8 * time.Second
	// soon is when something must have happened that takes a few seconds at most.
	soon = 30 * time.Second
	// pace is how often one of a crowd asks.
	pace = 4 * time.Millisecond
)

// asAPI are the settings with which the binary logs in to these servers of Redis, as docs/redis-users.acl wants it.
func asAPI(t *testing.T, prefix string, addrs ...string) []string {
	t.Helper()
	users := testenv.RedisUsersFor(t, redisClient(t, addrs[0]), prefix, docs.RedisUsers)
	for _, addr := range addrs[1:] {
		users.MakeOn(redisClient(t, addr))
	}
	username, password := users.As("jajeong_api")
	return []string{"REDIS_USERNAME=" + username, "REDIS_PASSWORD=" + password}
}

// serving is the binary over a database of its own and the given Redis, ready. Behind Sentinels it must be told how to log in.
func serving(t *testing.T, environment ...string) *program {
	t.Helper()
	all := strings.Join(environment, "\n")
	if found := regexp.MustCompile(`(?m)^REDIS_ADDRS=(.*)$`).FindStringSubmatch(all); !strings.Contains(all, "REDIS_MASTER_NAME") {
		environment = append(environment, asAPI(t, "", strings.Split(found[1], ",")...)...)
	}
	p := startAt(t, listening, append([]string{"MYSQL_DSN=" + migrated(t, testenv.MySQLFor(t).DSN), "USER_RATE=0"}, environment...)...)
	p.awaitReady(http.StatusOK)
	return p
}

// underCrowd starts the binary with concurrent applicants, and waits until 50 applications are accepted.
func underCrowd(t *testing.T, addrs string, environment ...string) (*program, *crowd) {
	t.Helper()
	p := serving(t, append([]string{"REDIS_ADDRS=" + addrs}, environment...)...)
	c := gather(t, p.apply, someAtOnce)
	c.hears(http.StatusAccepted, 50)
	return p, c
}

// metric is a number that the binary tells of itself; name has the labels with it.
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

// crowd asks for coupon 1, without end: new applicants, those who do not know whether they stand, and those who do.
type crowd struct {
	*record
	t      *testing.T
	url    string
	client *http.Client
	size   int
	users  atomic.Int64
	tick   *time.Ticker
	home   chan struct{}
	asking sync.WaitGroup
}

// gather has so many ask at once, until the test or the crowd ends.
func gather(t *testing.T, url string, size int) *crowd {
	t.Helper()
	c := &crowd{
		record: newRecord(), t: t, url: url, size: size,
		client: &http.Client{Transport: openapi.Transport(t, &http.Transport{MaxIdleConnsPerHost: size}), Timeout: answeredWithin},
	}
	c.come()
	t.Cleanup(c.goHome)
	return c
}

// come begins the asking, also after they went home.
func (c *crowd) come() {
	c.tick, c.home = time.NewTicker(pace), make(chan struct{})
	for range c.size {
		c.asking.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-c.home:
					return
				case <-c.tick.C:
					c.ask(c.whom(n))
				}
			}
		})
	}
}

// goHome ends the asking; who asks already is still told.
func (c *crowd) goHome() {
	select {
	case <-c.home:
	default:
		close(c.home)
	}
	c.asking.Wait()
	c.tick.Stop()
	c.client.CloseIdleConnections()
}

func (c *crowd) whom(n int) int {
	switch n % 4 {
	case 1:
		if user, ok := c.takeUnsure(); ok {
			return user
		}
	case 2:
		if user, ok := c.someAccepted(n); ok {
			return user
		}
	}
	return int(c.users.Add(1))
}

// plain hides what the client would need to send a request again by itself.
type plain struct{ io.Reader }

func (c *crowd) ask(user int) word {
	w := c.hear(user)
	c.note(user, w)
	return w
}

func (c *crowd) hear(user int) (w word) {
	request, err := http.NewRequest(http.MethodPost, c.url+"/v1/coupons/1/applications", plain{strings.NewReader("{}")})
	if err != nil {
		return word{trouble: err.Error()}
	}
	request.ContentLength = 2
	request.Header.Set("X-User-ID", strconv.Itoa(user))
	response, err := c.client.Do(request)
	if err != nil {
		return word{trouble: err.Error()}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return word{trouble: err.Error()}
	}
	return c.read(response, text, user)
}

// read also tells whether an answer is one that an applicant can work with.
func (c *crowd) read(response *http.Response, text []byte, user int) (w word) {
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
	case w.stands() && document.Status == want && document.UserID == user && document.Position > 0:
		w.arrival, w.position = document.AppliedAt.UnixMicro(), document.Position
		return w
	case !w.stands() && document.Code == want && seconds > 0 && response.Header.Get("Content-Type") == "application/problem+json":
		return w
	}
	w.trouble = fmt.Sprintf("%s %s with Retry-After %q", response.Status, text, response.Header.Get("Retry-After"))
	return w
}

// hears waits until so many more have been told a status.
func (c *crowd) hears(status, more int) {
	c.t.Helper()
	enough := c.count(status) + more
	testenv.Eventually(c.t, soon, fmt.Sprintf("%d more hear %d", more, status), func() bool {
		return c.count(status) >= enough
	})
}

// settle sends the crowd home, and asks for those who do not know until they do.
func (c *crowd) settle() {
	c.t.Helper()
	c.goHome()
	testenv.Eventually(c.t, soon, "everybody knows", func() bool {
		user, ok := c.takeUnsure()
		for ; ok; user, ok = c.takeUnsure() {
			if w := c.ask(user); !w.stands() && w.trouble == "" {
				return false
			}
		}
		return true
	})
	c.client.CloseIdleConnections()
}

// end sends the crowd home and checks that all it was told is so.
func (c *crowd) end(rdb redis.Cmdable) {
	c.t.Helper()
	c.settle()
	require.Empty(c.t, c.wrong(readLine(c.t, rdb), nil))
}
