package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/coupon"
)

// ticking is a Redis whose clock is an hour ahead of the process; each reading takes delay on both clocks.
type ticking struct {
	mu           sync.Mutex
	local        time.Time
	delay        time.Duration
	late         time.Duration // by how much Redis reads its clock before or after the middle
	away         bool
	measurements int
}

func (c *ticking) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.local
}

func (c *ticking) Time(context.Context, coupon.CouponID) (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.measurements++
	if c.away {
		return time.Time{}, context.DeadlineExceeded
	}
	redis := c.local.Add(time.Hour + c.delay/2 - c.late)
	c.local = c.local.Add(c.delay)
	return redis, nil
}

func (c *ticking) pass(d time.Duration) { c.mu.Lock(); c.local = c.local.Add(d); c.mu.Unlock() }

var timeUnknown = refusal{503, "UNAVAILABLE", "2", redisAway.korean, redisAway.english, "could not be read"}

func TestTime_IsMeasuredOnceASecond(t *testing.T) {
	t.Parallel()
	c := &ticking{local: opens, delay: 40 * time.Millisecond}
	s := newSiteOf(t, api.Options{Clock: c, Now: c.now})
	tells := func(want time.Time, measurements int) {
		t.Helper()
		got := s.get("/v1/coupons/42/time", nil)
		require.Equal(t, http.StatusOK, got.status)
		require.Equal(t, fmt.Sprintf(`{"couponId":42,"serverTime":"%s"}`+"\n", want.Format(microseconds)), got.text)
		require.Equal(t, "no-store", got.header.Get("Cache-Control"))
		require.Equal(t, measurements, c.measurements)
	}
	tells(opens.Add(time.Hour+40*time.Millisecond), 1)
	tells(opens.Add(time.Hour+40*time.Millisecond), 1)
	c.pass(980 * time.Millisecond)
	tells(opens.Add(time.Hour+1020*time.Millisecond), 1) // a second after the middle of the round trip
	c.pass(time.Microsecond)
	tells(opens.Add(time.Hour+1060*time.Millisecond+time.Microsecond), 2)

	c.away = true
	c.pass(1200 * time.Millisecond)
	tells(c.now().Add(time.Hour), 3)
	c.pass(time.Second)
	tells(c.now().Add(time.Hour), 3) // Redis was asked in vain a second ago
	c.pass(7780 * time.Millisecond)  // ten seconds after the middle
	tells(c.now().Add(time.Hour), 4)
	c.pass(time.Microsecond)
	refuses(t, timeUnknown, func(more ...string) reply {
		return s.get("/v1/coupons/42/time",
			http.Header{more[0]: {more[1]}})
	})
	require.InDelta(t, 2, s.counter("jajeong_time_refused_total", "unanswered"), 0)
	require.Equal(t, 4, c.measurements)
	c.away = false
	c.pass(time.Second)
	tells(c.now().Add(time.Hour+40*time.Millisecond), 5)

	head := s.do(http.MethodHead, "/v1/coupons/42/time", nil, nil)
	require.Equal(t, http.StatusOK, head.status)
	require.Empty(t, head.text)
}

// All requests of a shard share one measurement; those of another shard do not wait for it.
func TestTime_HangingShardDelaysOnlyItsOwnRequests(t *testing.T) {
	t.Parallel()
	hangs, reached := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(hangs) })
	var measurements atomic.Int64
	s := newSiteOf(t, api.Options{
		Clock: clock(func(ctx context.Context, couponID coupon.CouponID) (time.Time, error) {
			if couponID%2 == 0 {
				return opens, nil
			}
			if measurements.Add(1) == 1 {
				close(reached)
			}
			<-hangs
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("the measurement has no timeout")
			}
			return opens, nil
		}),
		Shard: func(couponID coupon.CouponID) string { return fmt.Sprint(couponID % 2) },
		Now:   at(opens),
	})
	t.Cleanup(release)
	const waiting = 20
	answered := make(chan int, waiting)
	ask := func(path string) { answered <- s.get(path, nil).status }
	go ask("/v1/coupons/1/time")
	<-reached
	for range waiting - 1 {
		go ask("/v1/coupons/3/time")
	}
	require.Equal(t, http.StatusOK, s.get("/v1/coupons/2/time", nil).status)
	require.Equal(t, http.StatusOK, s.get("/v1/coupons/1", nil).status)
	release()
	for range waiting {
		require.Equal(t, http.StatusOK, <-answered)
	}
	require.EqualValues(t, 1, measurements.Load())
}

// A client that hangs up does not take the measurement from those who wait for it.
func TestTime_IsMeasuredForAllWhoWait(t *testing.T) {
	t.Parallel()
	handler :=
		newHandler(api.Options{Clock: clock(func(ctx context.Context, _ coupon.CouponID) (time.Time,
			error) {
			return opens, ctx.Err()
		})})
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/coupons/1/time", nil))
	require.Equal(t, http.StatusOK, recorder.Code)
}

// While the network is busy, the better measurement stays. Later, any is better than an old one.
func TestTime_KeepsTheBetterMeasurement(t *testing.T) {
	t.Parallel()
	c := &ticking{local: opens, delay: time.Millisecond}
	s := newSiteOf(t, api.Options{Clock: c, Now: c.now})
	ask := func() time.Duration { // how far the answer is from the clock of Redis
		got := s.get("/v1/coupons/42/time", nil)
		require.Equal(t, http.StatusOK, got.status)
		told, err := time.Parse(microseconds, got.body["serverTime"].(string))
		require.NoError(t, err)
		return told.Sub(c.now().Add(time.Hour))
	}
	require.Zero(t, ask())
	c.late, c.delay = 25*time.Millisecond, 50*time.Millisecond // the answer took longer than the question
	c.pass(2 * time.Second)
	require.Zero(t, ask())
	require.Equal(t, 2, c.measurements)
	c.pass(3 * time.Second)
	require.Equal(t, 25*time.Millisecond, ask().Abs())
}
