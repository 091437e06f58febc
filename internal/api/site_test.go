package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/identity"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/standing"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
)

func TestMain(m *testing.M) {
	// A pool that was closed while its Redis was away tries once more before it notices.
	goleak.VerifyTestMain(testenv.WithServers{M: m},
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// plenty are limits that no test reaches.
var plenty = api.Limits{InFlight: 1000}

var seoul = time.FixedZone("KST", 9*60*60)

func nextMidnight(t time.Time) time.Time {
	year, month, day := t.In(seoul).Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, seoul)
}

// site is the public API over real HTTP.
type site struct {
	t        *testing.T
	url      string
	client   *http.Client
	registry *prometheus.Registry
	logs     *observer.ObservedLogs
}

func newSite(t *testing.T, applier api.Applier, coupons api.Coupons) *site {
	return newLimitedSite(t, applier, coupons, plenty)
}

func newLimitedSite(t *testing.T, applier api.Applier, coupons api.Coupons, limits api.Limits) *site {
	core, logs := observer.New(zap.InfoLevel)
	s := newSiteOf(t, api.Options{Applier: applier, Coupons: coupons, Limits: limits,
		Logger: zap.New(core, zap.WithClock(testenv.Stopped{}))})
	s.logs = logs
	return s
}

// newHandler serves o; what o leaves out is the same in all tests.
func newHandler(o api.Options) http.Handler {
	if o.Identity == nil {
		o.Identity = identity.FromHeader(zap.NewNop(), identity.Anywhere()...)
	}
	if o.Queue == nil {
		o.Queue = applied{}
	}
	if o.Records == nil {
		o.Records = recorded{}
	}
	if o.Coupons == nil {
		o.Coupons = coupons{}
	}
	if o.Clock == nil {
		o.Clock = clock(func(context.Context, coupon.CouponID) (time.Time, error) {
			return opens.Add(-time.Second),
				nil
		})
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Losses == nil {
		o.Losses = standing.NewLosses(o.Now)
	}
	o.Limits = cmp.Or(o.Limits, plenty)
	o.Terms = standing.Terms{Zone: func() *time.Location { return seoul },
		IssueInterval: cmp.Or(o.Terms.IssueInterval, interval)}
	return api.New(o)
}

func newSiteOf(t *testing.T, o api.Options) *site {
	registry := prometheus.NewRegistry()
	o.Metrics = registry
	server := httptest.NewServer(newHandler(o))
	t.Cleanup(server.Close)
	client := server.Client()
	client.Transport = openapi.Transport(t, client.Transport)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &site{t: t, url: server.URL, client: client, registry: registry}
}

// reply is a response.
type reply struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

func (s *site) do(method, path string, body io.Reader, header http.Header) reply {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, body)
	require.NoError(s.t, err)
	request.Header = header
	response, err := s.client.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	r := reply{status: response.StatusCode, header: response.Header, text: string(text)}
	if len(text) > 0 {
		r.body = decode(s.t, r.text)
	}
	return r
}

func decode(t require.TestingT, text string) (body map[string]any) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&body), text)
	return body
}

func (s *site) apply(couponID, user string, more ...string) reply {
	s.t.Helper()
	header := http.Header{"X-User-Id": {user}}
	for i := 0; i < len(more); i += 2 {
		header.Add(more[i], more[i+1])
	}
	return s.do(http.MethodPost, "/v1/coupons/"+couponID+"/applications", nil, header)
}

func (s *site) counted(result string) float64 {
	s.t.Helper()
	return s.counter("jajeong_apply_requests_total", result)
}

func (s *site) counter(name, label string) float64 {
	s.t.Helper()
	families, err := s.registry.Gather()
	require.NoError(s.t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name && metric.GetLabel()[0].GetValue() == label {
				return metric.GetCounter().GetValue()
			}
		}
	}
	s.t.Fatalf("no counter %s for %s", name, label)
	return 0
}

const microseconds = "2006-01-02T15:04:05.000000-07:00"

// refusal is the public part of a problem.
type refusal struct {
	status          int
	code            string
	retryAfter      string
	korean, english string // titles
	detail          string // a piece of the English detail
}

var (
	notOpen       = refusal{409, "NOT_OPEN", "", "아직 신청 기간이 아닙니다", "Not open yet", "have not started"}
	closed        = refusal{409, "CLOSED", "", "신청이 마감되었습니다", "Closed", "has ended"}
	paused        = refusal{409, "PAUSED", "", "신청이 일시 중단되었습니다", "Paused", "are paused"}
	alreadyIssued = refusal{409, "ALREADY_ISSUED", "", "이미 발급받은 쿠폰입니다", "Already issued", "once per person"}
	soldOut       = refusal{409, "SOLD_OUT", "", "쿠폰이 모두 소진되었습니다", "Sold out", "have run out"}
	lineFull      = refusal{409, "LINE_FULL", "", "대기열이 가득 찼습니다", "Line full", "applications as allowed are waiting"}
	underReview   = refusal{409, "UNDER_REVIEW", "", "신청 내용을 확인하고 있습니다", "Under review", "is being reviewed"}
	rejected      = refusal{409, "REJECTED", "", "쿠폰을 발급해 드릴 수 없습니다", "Rejected", "cannot be issued"}
	couponUnknown = refusal{404, "COUPON_NOT_FOUND", "", "쿠폰을 찾을 수 없습니다", "Coupon not found", "no such coupon"}
	badCouponID   = refusal{400, "INVALID_COUPON_ID", "", "쿠폰 번호가 올바르지 않습니다", "Invalid coupon id", "decimal number"}
	badUserID     = refusal{400, "INVALID_USER_ID", "", "고객번호가 올바르지 않습니다", "Invalid user id", "decimal number"}
	noUser        = refusal{401, "UNAUTHENTICATED", "", "로그인이 필요합니다", "Sign-in required", "sign in"}
	badBody       = refusal{400, "INVALID_BODY", "", "요청 본문이 올바르지 않습니다", "Invalid body", "takes no body"}
	nothingThere  = refusal{404, "NOT_FOUND", "", "찾을 수 없는 주소입니다", "Not found", "nothing at this address"}
	wrongMethod   = refusal{405, "METHOD_NOT_ALLOWED", "", "허용되지 않는 요청 방식입니다", "Method not allowed", "Allow header"}
	internalError = refusal{500, "INTERNAL", "", "요청을 처리하지 못했습니다", "Internal error", "on our side"}
	redisAway     = refusal{503, "UNAVAILABLE", "2", "지금은 요청을 처리할 수 없습니다", "Requests cannot be processed right now",
		"not known whether"}
	catalogMissing = refusal{503, "UNAVAILABLE", "5", "지금은 요청을 처리할 수 없습니다", "Requests cannot be processed right now",
		"is starting"}
	noWindow = refusal{503, "UNAVAILABLE", "5", "지금은 요청을 처리할 수 없습니다", "Requests cannot be processed right now",
		"being made ready"}
	clockBehind = refusal{503, "UNAVAILABLE", "5", "지금은 요청을 처리할 수 없습니다", "Requests cannot be processed right now",
		"are on hold"}
)

// refuses checks the problem in both languages; it calls ask once for each.
func refuses(t *testing.T, want refusal, ask func(more ...string) reply) {
	t.Helper()
	for _, language := range []string{"ko", "en"} {
		got := ask("Accept-Language", language)
		title, detail := want.korean, ""
		if language == "en" {
			title, detail = want.english, want.detail
		}
		require.Equal(t, want.status, got.status, got.text)
		require.Equal(t, want.code, got.body["code"])
		require.Equal(t, "urn:jajeong:problem:"+want.code, got.body["type"])
		require.Equal(t, json.Number(fmt.Sprint(want.status)), got.body["status"])
		require.Equal(t, title, got.body["title"])
		require.Contains(t, got.body["detail"], detail)
		require.Equal(t, language == "ko", hasHangul(got.body["detail"].(string)), got.text)
		require.Equal(t, "application/problem+json", got.header.Get("Content-Type"))
		require.Equal(t, language, got.header.Get("Content-Language"))
		require.Equal(t, "Accept-Language", got.header.Get("Vary"))
		require.Equal(t, "no-store", got.header.Get("Cache-Control"))
		require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
		require.Equal(t, want.retryAfter, got.header.Get("Retry-After"))
		require.Equal(t, "urn:jajeong:request:"+got.header.Get("X-Request-ID"), got.body["instance"])
		members := 6
		switch want.code {
		case "NOT_OPEN":
			members = 8
		case "LINE_FULL":
			members = 7
		}
		require.Len(t, got.body, members, "no member but those documented: %s", got.text)
	}
}

func hasHangul(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Hangul, r) })
}

// asking returns a function that applies for a coupon as a user.
func (s *site) asking(couponID, user string) func(more ...string) reply {
	return func(more ...string) reply { s.t.Helper(); return s.apply(couponID, user, more...) }
}

// coupons is a catalog that has every coupon.
type coupons struct{}

func (coupons) Loaded() bool { return true }
func (coupons) Lookup(id coupon.CouponID) (coupon.Coupon, bool) {
	return coupon.Coupon{ID: id, TotalQuantity: 10, Cadence: coupon.Nightly}, true
}

func (c coupons) Read(id coupon.CouponID) (coupon.Coupon, coupon.Reading, bool) {
	one, ok := c.Lookup(id)
	return one, coupon.Reading{}, ok
}

type clock func(ctx context.Context, couponID coupon.CouponID) (time.Time, error)

func (c clock) Time(ctx context.Context, couponID coupon.CouponID) (time.Time, error) {
	return c(ctx, couponID)
}

type applier func(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (candidates.Receipt, error)

func (a applier) Apply(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (candidates.Receipt, error) {
	return a(ctx, couponID, user)
}

func unreachable(t *testing.T) api.Applier {
	return applier(func(context.Context, coupon.CouponID, coupon.UserID) (candidates.Receipt, error) {
		t.Error("a bad request went as far as Redis")
		return candidates.Receipt{}, errors.New("unreachable")
	})
}

// privateStore is on a Redis that the test may kill.
func privateStore(t *testing.T) (*testenv.Redis, redis.UniversalClient, *candidates.Store) {
	t.Helper()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	client, store := jajeongtest.StoreAt(t, server.Addr())
	return server, client, store
}
