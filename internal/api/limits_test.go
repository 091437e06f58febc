package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/candidates"
)

var (
	tooMany   = refusal{429, "TOO_MANY_REQUESTS", "1", "요청이 너무 많습니다", "Too many requests", "too often"}
	tooCrowd  = refusal{503, "UNAVAILABLE", "1", "지금은 신청을 처리할 수 없습니다", "Applications cannot be processed right now", "was not processed"}
	leftAlone = refusal{503, "UNAVAILABLE", "2", "지금은 신청을 처리할 수 없습니다", "Applications cannot be processed right now", "cannot be received at the moment"}
)

func accepts(context.Context, uint64, uint64) (candidates.Receipt, error) {
	return candidates.Receipt{Code: candidates.Accepted, Arrival: 1, Position: 1}, nil
}

func (s *site) refused(reason string) float64 {
	s.t.Helper()
	families, err := s.registry.Gather()
	require.NoError(s.t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "jajeong_apply_refused_total" && metric.GetLabel()[0].GetValue() == reason {
				return metric.GetCounter().GetValue()
			}
		}
	}
	s.t.Fatalf("no counter for %s", reason)
	return 0
}

// What is above the limit is refused at once, whatever it asks; when an answer is given there is room again.
func TestSoManyAreAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	held, open := make(chan struct{}, 2), make(chan struct{})
	s := newLimitedSite(t, applier(func(ctx context.Context, _, _ uint64) (candidates.Receipt, error) {
		held <- struct{}{}
		<-open
		return accepts(ctx, 0, 0)
	}), coupons{}, api.Limits{InFlight: 2})
	answered := make(chan int, 2)
	for user := range 2 {
		go func() { answered <- s.apply("1", fmt.Sprint(user+1)).status }()
		<-held
	}
	refuses(t, tooCrowd, s.asking("1", "3"))
	require.Equal(t, http.StatusServiceUnavailable, s.do(http.MethodGet, "/v1/coupons/1/applications/me", nil, http.Header{"X-User-Id": {"3"}}).status)
	require.InDelta(t, 3, s.refused("in_flight"), 0)
	require.NoError(t, testutil.GatherAndCompare(s.registry, strings.NewReader(`
# HELP jajeong_apply_in_flight Requests that are being answered.
# TYPE jajeong_apply_in_flight gauge
jajeong_apply_in_flight 2
`), "jajeong_apply_in_flight"))
	close(open)
	require.Equal(t, []int{http.StatusAccepted, http.StatusAccepted}, []int{<-answered, <-answered})
	go func() { <-held }()
	require.Equal(t, http.StatusAccepted, s.apply("1", "3").status)
}

// A user may ask so often, for whatever coupon and in whatever way; the others do not notice.
func TestAUserMayAskSoOften(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	began := time.Now()
	s := newSiteOf(t, api.Options{
		Applier: applier(accepts), Standings: applied{}, History: history{}, Coupons: coupons{}, SettlesAt: nextMidnight, Zone: seoul,
		Limits: api.Limits{InFlight: 100, UserRate: 2}, Logger: zap.NewNop(), Metrics: prometheus.NewRegistry(),
		Now: func() time.Time { return began.Add(time.Duration(ahead.Load())) },
	})
	for coupon := range 3 {
		require.Equal(t, http.StatusAccepted, s.apply(fmt.Sprint(coupon+1), "7").status)
	}
	require.Equal(t, http.StatusNotFound, s.do(http.MethodGet, "/v1/coupons/1/applications/me", nil, http.Header{"X-User-Id": {"7"}}).status)
	refuses(t, tooMany, s.asking("1", "7"))
	require.Equal(t, http.StatusTooManyRequests, s.do(http.MethodGet, "/v1/coupons/1/applications/me", nil, http.Header{"X-User-Id": {"7"}}).status)
	require.InDelta(t, 3, s.refused("user_rate"), 0)
	require.InDelta(t, 2, s.counted("TOO_MANY_REQUESTS"), 0)
	require.Equal(t, http.StatusAccepted, s.apply("1", "8").status)

	ahead.Store(int64(500 * time.Millisecond))
	require.Equal(t, http.StatusAccepted, s.apply("1", "7").status)
	require.Equal(t, http.StatusTooManyRequests, s.apply("1", "7").status)
}

func TestWithoutARateAUserMayAskAnyNumberOfTimes(t *testing.T) {
	t.Parallel()
	s := newSite(t, applier(accepts), coupons{})
	for range 100 {
		require.Equal(t, http.StatusAccepted, s.apply("1", "7").status)
	}
}

// What Redis was not asked for is told apart from what it did not answer.
func TestWhatRedisWasNotAskedForIsSaid(t *testing.T) {
	t.Parallel()
	for reason, want := range map[candidates.NotAsked]refusal{
		candidates.Crowded: tooCrowd, candidates.Late: tooCrowd, candidates.Resting: leftAlone,
	} {
		s := newSite(t, applier(func(context.Context, uint64, uint64) (candidates.Receipt, error) {
			return candidates.Receipt{}, fmt.Errorf("apply: %w", reason)
		}), coupons{})
		refuses(t, want, s.asking("1", "7"))
		require.InDelta(t, 2, s.refused(string(reason)), 0)
		require.Empty(t, s.logs.All(), "an overload is counted, not logged a thousand times")
	}
	s := newSite(t, applier(func(context.Context, uint64, uint64) (candidates.Receipt, error) {
		return candidates.Receipt{}, context.DeadlineExceeded
	}), coupons{})
	refuses(t, redisAway, s.asking("1", "7"))
	require.InDelta(t, 2, s.refused("unanswered"), 0)
}

// When the process is about to end, whoever asks is sent elsewhere for the next request.
func TestConnectionsAreNotKeptAtTheEnd(t *testing.T) {
	t.Parallel()
	var draining atomic.Bool
	s := newSiteOf(t, api.Options{
		Applier: applier(accepts), Standings: applied{}, History: history{}, Coupons: coupons{}, SettlesAt: nextMidnight, Zone: seoul,
		Limits: plenty, Draining: draining.Load, Logger: zap.NewNop(), Metrics: prometheus.NewRegistry(), Now: time.Now,
	})
	closes := func(user string) bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/coupons/1/applications", nil)
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
