package api_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/batch"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/recall"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
)

func TestMain(m *testing.M) {
	// A pool that was closed while its Redis was away tries once more before it notices.
	goleak.VerifyTestMain(testenv.WithServers{M: m}, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
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
	s := newSiteOf(t, api.Options{Applier: applier, Coupons: coupons, Limits: limits, Logger: zap.New(core)})
	s.logs = logs
	return s
}

// newHandler serves o; what o leaves out is the same in all tests.
func newHandler(o api.Options) http.Handler {
	if o.Standings == nil {
		o.Standings = applied{}
	}
	if o.History == nil {
		o.History = history{}
	}
	if o.Coupons == nil {
		o.Coupons = coupons{}
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
	o.Limits = cmp.Or(o.Limits, plenty)
	o.SettlesAt, o.Zone = nextMidnight, seoul
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

// deployment has every part that an application passes: MySQL, catalog, Redis, HTTP.
type deployment struct {
	*site
	redis   testenv.RedisHandle
	store   *candidates.Store
	catalog *catalog.Catalog
	exec    func(statement string, args ...any)
}

func deploy(t *testing.T) *deployment {
	t.Parallel()
	settings := connect.MySQLSettings{MySQLDSN: testenv.MySQLFor(t).DSN}
	db, err := settings.Open(zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	_, err = connect.Migrate(t.Context(), db)
	require.NoError(t, err)
	d := &deployment{redis: testenv.RedisFor(t)}
	d.store, err = candidates.NewStore(d.redis.Client, candidates.Options{KeyPrefix: d.redis.Prefix, TTL: candidates.MinTTL})
	require.NoError(t, err)
	d.catalog = catalog.New(catalog.Options{DB: db, Store: d.store, Memory: recall.New(d.store), Logger: zap.NewNop(), Now: time.Now})
	d.site = newSite(t, batch.New(d.store.ApplyAll, prometheus.NewRegistry(), time.Now), d.catalog)
	d.exec = func(statement string, args ...any) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), statement, args...)
		require.NoError(t, err)
	}
	return d
}

// coupon adds an open coupon with ten seats, three of them issued, and then changes it.
func (d *deployment) coupon(id coupon.CouponID, change string) {
	d.t.Helper()
	d.exec(`INSERT INTO coupon (id, name, total_quantity, issued_count, apply_opens_at, apply_closes_at)
VALUES (?, '자정 쿠폰', 10, 3, UTC_TIMESTAMP(6) - INTERVAL 1 HOUR, UTC_TIMESTAMP(6) + INTERVAL 1 DAY)`, id)
	if change != "" {
		d.exec("UPDATE coupon SET "+change+" WHERE id = ?", id)
	}
	require.NoError(d.t, d.catalog.Refresh(d.t.Context()))
}

func (d *deployment) state(couponID coupon.CouponID) string {
	return fmt.Sprintf("state:{%scandidates:coupon:%d}", d.redis.Prefix, couponID)
}

const microseconds = "2006-01-02T15:04:05.000000-07:00"

func TestAcceptedAndDuplicate(t *testing.T) {
	d := deploy(t)
	const largest = "18446744073709551615"
	d.coupon(7, "")
	before := time.Now().Add(-time.Minute)

	first := d.apply("7", largest)
	require.Equal(t, http.StatusAccepted, first.status, first.text)
	require.Equal(t, "application/json", first.header.Get("Content-Type"))
	require.Equal(t, "no-store", first.header.Get("Cache-Control"))
	require.Equal(t, "nosniff", first.header.Get("X-Content-Type-Options"))
	appliedAt, err := time.Parse(microseconds, first.body["appliedAt"].(string))
	require.NoError(t, err)
	require.WithinRange(t, appliedAt, before, time.Now().Add(time.Minute))
	settlesAt := nextMidnight(appliedAt).Format(microseconds)
	require.True(t, strings.HasSuffix(settlesAt, "T00:00:00.000000+09:00"))
	require.Equal(t, fmt.Sprintf(`{"status":"ACCEPTED","couponId":7,"userId":%s,"position":1,"seats":7,"appliedAt":"%s","settlesAt":"%s"}`+"\n",
		largest, first.body["appliedAt"], settlesAt), first.text)

	second := d.apply("7", "2")
	require.Equal(t, json.Number("2"), second.body["position"])

	again := d.apply("7", largest)
	require.Equal(t, http.StatusOK, again.status)
	require.Equal(t, strings.Replace(first.text, "ACCEPTED", "DUPLICATE", 1), again.text)

	require.InDelta(t, 2, d.counted("ACCEPTED"), 0)
	require.InDelta(t, 1, d.counted("DUPLICATE"), 0)
	require.InDelta(t, 0, d.counted("SOLD_OUT"), 0)
}

// refusal is the public part of a problem.
type refusal struct {
	status          int
	code            string
	retryAfter      string
	korean, english string // titles
	detail          string // a piece of the English detail
}

var (
	notOpen        = refusal{409, "NOT_OPEN", "", "아직 신청 기간이 아닙니다", "Not open yet", "have not started"}
	closed         = refusal{409, "CLOSED", "", "신청이 마감되었습니다", "Closed", "has ended"}
	paused         = refusal{409, "PAUSED", "", "신청이 일시 중단되었습니다", "Paused", "are paused"}
	alreadyIssued  = refusal{409, "ALREADY_ISSUED", "", "이미 발급받은 쿠폰입니다", "Already issued", "once per person"}
	soldOut        = refusal{409, "SOLD_OUT", "", "쿠폰이 모두 소진되었습니다", "Sold out", "have run out"}
	underReview    = refusal{409, "UNDER_REVIEW", "", "신청 내용을 확인하고 있습니다", "Under review", "is being reviewed"}
	rejected       = refusal{409, "REJECTED", "", "쿠폰을 발급해 드릴 수 없습니다", "Rejected", "cannot be issued"}
	couponUnknown  = refusal{404, "COUPON_NOT_FOUND", "", "쿠폰을 찾을 수 없습니다", "Coupon not found", "no such coupon"}
	badCouponID    = refusal{400, "INVALID_COUPON_ID", "", "쿠폰 번호가 올바르지 않습니다", "Invalid coupon id", "decimal number"}
	badUserID      = refusal{400, "INVALID_USER_ID", "", "사용자 번호가 올바르지 않습니다", "Invalid user id", "decimal number"}
	noUser         = refusal{401, "UNAUTHENTICATED", "", "로그인이 필요합니다", "Sign-in required", "sign in"}
	tooLarge       = refusal{413, "BODY_TOO_LARGE", "", "요청 본문이 너무 큽니다", "Body too large", "no request body"}
	badBody        = refusal{400, "UNREADABLE_BODY", "", "요청 본문을 읽을 수 없습니다", "Unreadable body", "no request body"}
	nothingThere   = refusal{404, "NOT_FOUND", "", "찾을 수 없는 주소입니다", "Not found", "nothing at this address"}
	wrongMethod    = refusal{405, "METHOD_NOT_ALLOWED", "", "허용되지 않는 요청 방식입니다", "Method not allowed", "Allow header"}
	internalError  = refusal{500, "INTERNAL", "", "요청을 처리하지 못했습니다", "Internal error", "on our side"}
	redisAway      = refusal{503, "UNAVAILABLE", "2", "지금은 신청을 처리할 수 없습니다", "Applications cannot be processed right now", "not known whether"}
	catalogMissing = refusal{503, "UNAVAILABLE", "5", "지금은 신청을 처리할 수 없습니다", "Applications cannot be processed right now", "is starting"}
	noWindow       = refusal{503, "UNAVAILABLE", "5", "지금은 신청을 처리할 수 없습니다", "Applications cannot be processed right now", "being made ready"}
	clockBehind    = refusal{503, "UNAVAILABLE", "5", "지금은 신청을 처리할 수 없습니다", "Applications cannot be processed right now", "are on hold"}
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
		members := 5
		if want.code == "NOT_OPEN" {
			members = 7
		}
		require.Len(t, got.body, members, "no member but those documented: %s", got.text)
	}
}

func hasHangul(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Hangul, r) })
}

// asking applies as user for coupon.
func (s *site) asking(couponID, user string) func(more ...string) reply {
	return func(more ...string) reply { s.t.Helper(); return s.apply(couponID, user, more...) }
}

func TestApply_EveryRefusal(t *testing.T) {
	d := deploy(t)
	d.coupon(1, "apply_opens_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR")
	d.coupon(2, "apply_closes_at = UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE")
	d.coupon(3, "status = 'PAUSED'")
	for id := coupon.CouponID(4); id <= 9; id++ {
		d.coupon(id, "")
	}
	ctx, closes := t.Context(), time.Now().Add(24*time.Hour)
	for couponID, mark := range map[coupon.CouponID]coupon.Mark{4: coupon.MarkIssued, 5: coupon.MarkRejected} {
		_, err := d.store.Remove(ctx, couponID, closes, mark, []coupon.Application{{Member: "100", Arrival: 1}})
		require.NoError(t, err)
	}
	require.NoError(t, d.store.SetSold(ctx, 6, true))
	receipt, err := d.store.Apply(ctx, 7, 100)
	require.NoError(t, err)
	moved, err := d.store.Review(ctx, 7, 0, time.Time{}, []coupon.Failure{{Application: coupon.Application{Member: "100", Arrival: receipt.Arrival, Source: coupon.SourceQueue}}})
	require.NoError(t, err)
	require.Equal(t, int64(1), moved)
	require.NoError(t, d.redis.Client.Del(ctx, d.state(8)).Err())
	ahead := time.Now().Add(time.Hour).UnixMicro()
	require.NoError(t, d.redis.Client.HSet(ctx, d.state(9), "last", ahead).Err())

	for couponID, want := range map[string]refusal{
		"1": notOpen, "2": closed, "3": paused, "4": alreadyIssued, "5": rejected, "6": soldOut, "7": underReview,
		"8": noWindow, "9": clockBehind, "10": couponUnknown,
	} {
		refuses(t, want, d.asking(couponID, "100"))
	}
	require.InDelta(t, 2, d.counted("NOT_OPEN"), 0)
	require.InDelta(t, 2, d.counted("NO_WINDOW"), 0)
	require.InDelta(t, 2, d.counted("CLOCK"), 0)

	early := d.apply("1", "100")
	opensAt, err := time.Parse(microseconds, early.body["opensAt"].(string))
	require.NoError(t, err)
	serverTime, err := time.Parse(microseconds, early.body["serverTime"].(string))
	require.NoError(t, err)
	couponID, _ := d.catalog.Lookup(1)
	require.True(t, opensAt.Equal(couponID.OpensAt))
	require.WithinDuration(t, time.Now(), serverTime, time.Minute)
	require.Contains(t, early.body["opensAt"], "+09:00")
}

func TestApply_FinalisedCouponIsClosedWithoutRedis(t *testing.T) {
	d := deploy(t)
	d.coupon(1, "finalised_at = UTC_TIMESTAMP(6)")
	refuses(t, closed, newSite(t, unreachable(t), d.catalog).asking("1", "100"))
}

func TestApply_UnavailableBeforeTheFirstRefresh(t *testing.T) {
	d := deploy(t)
	refuses(t, catalogMissing, d.asking("1", "100"))
}

// coupons is a catalog that has every coupon.
type coupons struct{}

func (coupons) Loaded() bool { return true }
func (coupons) Lookup(id coupon.CouponID) (coupon.Coupon, bool) {
	return coupon.Coupon{ID: id, TotalQuantity: 10}, true
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
	client, err := (&connect.RedisSettings{RedisAddrs: []string{server.Addr()}}).Open()
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	store, err := candidates.NewStore(client, candidates.Options{TTL: candidates.MinTTL})
	require.NoError(t, err)
	return server, client, store
}

func TestApply_UnavailableWithoutRedisAndBoundsTheLog(t *testing.T) {
	t.Parallel()
	server, _, store := privateStore(t)
	s := newSite(t, store, coupons{})
	require.NoError(t, server.Kill())
	refuses(t, redisAway, s.asking("1", "100"))
	for range 50 {
		s.apply("1", "100")
	}
	logged := s.logs.FilterMessage("apply failed").Len()
	require.Positive(t, logged)
	require.Less(t, logged, 50, "without Redis every request is a failure")
}

func TestApply_DoesNotWaitForFrozenRedis(t *testing.T) {
	t.Parallel()
	server, _, store := privateStore(t)
	s := newSite(t, store, coupons{})
	require.Equal(t, "UNAVAILABLE", s.apply("1", "100").body["code"])
	require.NoError(t, server.Freeze())
	began := time.Now()
	require.Equal(t, http.StatusServiceUnavailable, s.apply("1", "100").status)
	require.Less(t, time.Since(began), 5*time.Second)
	require.NoError(t, server.Thaw())
}

func TestApply_AnswersAfterAPanic(t *testing.T) {
	t.Parallel()
	panics := true
	s := newSite(t, applier(func(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (candidates.Receipt, error) {
		if panics {
			panic("boom")
		}
		return accepts(ctx, couponID, user)
	}), coupons{})
	refuses(t, internalError, s.asking("1", "100"))
	logged := s.logs.FilterMessage("request panicked").All()
	require.NotEmpty(t, logged)
	require.Equal(t, "boom", logged[0].ContextMap()["panic"])
	require.Contains(t, logged[0].ContextMap()["stack"], "api.(*server).apply")
	require.InDelta(t, 2, s.counted("INTERNAL"), 0)
	panics = false
	require.Equal(t, http.StatusAccepted, s.apply("1", "100").status)
}

var badIDs = []string{
	"0", "00", "07", "+7", "-7", "7.0", "7e3", "0x7", "1_0", "seven", "７", "٧", "7 7", "7,8", "7;8",
	"18446744073709551616", "99999999999999999999999", "null", "7\u200b", strings.Repeat("1", 5000),
}

func TestIDsAreCanonicalDecimals(t *testing.T) {
	t.Parallel()
	s := newSite(t, unreachable(t), coupons{})
	for _, id := range badIDs {
		got := s.apply("1", id)
		require.Equal(t, "INVALID_USER_ID", got.body["code"], "user %q", id)
		got = s.apply(escape(id), "1")
		require.Equal(t, "INVALID_COUPON_ID", got.body["code"], "coupon %q", id)
		if len(id) > 3 {
			require.NotContains(t, got.text, id, "input is not repeated")
		}
	}
	for _, id := range []string{"%20", "7%20", "%207", "7%00", "7%2F8", "%2B7", "7%0A", "%2e%2e"} {
		require.Equal(t, "INVALID_COUPON_ID", s.apply(id, "1").body["code"], "coupon %q", id)
	}
	refuses(t, badUserID, s.asking("1", "07"))
	refuses(t, badCouponID, s.asking("07", "1"))
	refuses(t, badUserID, func(more ...string) reply { return s.apply("1", "7", append(more, "X-User-ID", "7")...) })
	refuses(t, noUser, s.asking("1", ""))
	refuses(t, noUser, s.asking("1", "  "))
	refuses(t, noUser, func(more ...string) reply {
		return s.do(http.MethodPost, "/v1/coupons/1/applications", nil, http.Header{more[0]: {more[1]}})
	})
	require.Equal(t, "UNAUTHENTICATED", s.apply("07", "").body["code"], "who asks is looked at first")
}

// escape escapes every byte.
func escape(segment string) (escaped string) {
	for _, b := range []byte(segment) {
		escaped += fmt.Sprintf("%%%02X", b)
	}
	return escaped
}

func TestApply_IgnoresTheBody(t *testing.T) {
	t.Parallel()
	s := newSite(t, applier(accepts), coupons{})
	post := func(body io.Reader, more ...string) reply {
		header := http.Header{"X-User-Id": {"7"}}
		if len(more) > 0 {
			header.Set(more[0], more[1])
		}
		return s.do(http.MethodPost, "/v1/coupons/1/applications", body, header)
	}
	for _, body := range []string{"", "{}", "not json", strings.Repeat("a", 1024)} {
		require.Equal(t, http.StatusAccepted, post(strings.NewReader(body)).status)
	}
	for _, size := range []int{1025, 100_000} {
		refuses(t, tooLarge, func(more ...string) reply { return post(strings.NewReader(strings.Repeat("a", size)), more...) })
	}
	// Without a length, in chunks.
	refuses(t, tooLarge, func(more ...string) reply {
		return post(io.MultiReader(strings.NewReader(strings.Repeat("a", 1025))), more...)
	})
}

func TestApply_RefusesBrokenBody(t *testing.T) {
	t.Parallel()
	s := newSite(t, unreachable(t), coupons{})
	refuses(t, badBody, func(more ...string) reply {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "POST /v1/coupons/1/applications HTTP/1.1\r\nHost: x\r\nX-User-ID: 7\r\n%s: %s\r\n"+
			"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\nno chunk\r\n\r\n", more[0], more[1])
		require.NoError(t, err)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return reply{status: response.StatusCode, header: response.Header, text: string(body), body: decode(t, string(body))}
	})
}

func TestOtherPathsAndMethods(t *testing.T) {
	t.Parallel()
	s := newSite(t, unreachable(t), coupons{})
	for _, method := range []string{"GET", "PUT", "DELETE", "PATCH", "OPTIONS", "CUSTOM"} {
		refuses(t, wrongMethod, func(more ...string) reply {
			got := s.do(method, "/v1/coupons/1/applications", nil, http.Header{more[0]: {more[1]}})
			require.Equal(t, "POST", got.header.Get("Allow"))
			return got
		})
	}
	head := s.do("HEAD", "/v1/coupons/1/applications", nil, nil)
	require.Equal(t, http.StatusMethodNotAllowed, head.status)
	require.Empty(t, head.text)
	for _, path := range []string{
		"/", "/v1", "/v1/coupons/1", "/v1/coupons/1/applications/", "/v1/coupons//applications", "/metrics", "/debug/pprof/",
		"/v1/../v1/coupons/1/applications", "//evil.example/", "/V1/coupons/1/applications", "/<script>",
	} {
		for _, method := range []string{"GET", "POST"} {
			refuses(t, nothingThere, func(more ...string) reply {
				got := s.do(method, path, nil, http.Header{more[0]: {more[1]}, "X-User-Id": {"7"}})
				require.NotContains(t, got.text, "script")
				return got
			})
		}
	}
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	s := newSite(t, unreachable(t), coupons{})
	for accept, want := range map[string]string{
		"":                                 "ko",
		"*":                                "ko",
		"fr":                               "ko",
		"fr, de;q=0.5":                     "ko",
		"ko":                               "ko",
		"ko-KR,ko;q=0.9,en-US;q=0.8":       "ko",
		"KO-kr":                            "ko",
		"en":                               "en",
		"en-GB":                            "en",
		"en-US,en;q=0.9,ko;q=0.8":          "en",
		"ko;q=0.1, en;q=0.9":               "en",
		"fr, en;q=0.5, ko;q=0.1":           "en",
		"ja, en":                           "en",
		"!!!":                              "ko",
		"en;q=nonsense":                    "ko",
		strings.Repeat("en,", 1000) + "en": "ko",
	} {
		require.Equal(t, want, s.apply("0", "1", "Accept-Language", accept).header.Get("Content-Language"), accept)
	}
	got := s.apply("0", "1", "Accept-Language", "fr", "Accept-Language", "en")
	require.Equal(t, "en", got.header.Get("Content-Language"), "several headers are one list")
}

func FuzzApplyHeaders(f *testing.F) {
	f.Add("7", "ko-KR,ko;q=0.9")
	f.Add("07", "en;q=0.1, *;q=0")
	f.Add("18446744073709551615", "x-y-z")
	f.Add("", "en-u-ca-gregory")
	handler := newHandler(api.Options{Applier: applier(accepts)})
	f.Fuzz(func(t *testing.T, id, accept string) {
		request := httptest.NewRequest(http.MethodPost, "/v1/coupons/"+escape(id+"1")+"/applications", nil)
		request.Header["X-User-Id"] = []string{id}
		request.Header["Accept-Language"] = []string{accept}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		body := decode(t, recorder.Body.String())
		switch recorder.Code {
		case http.StatusAccepted: // both ids come back to the letter
			require.Equal(t, id, fmt.Sprint(body["userId"]))
			require.Equal(t, id+"1", fmt.Sprint(body["couponId"]))
		case http.StatusBadRequest, http.StatusUnauthorized:
			require.Contains(t, []string{"ko", "en"}, recorder.Header().Get("Content-Language"), accept)
		default:
			t.Errorf("%q, %q: status %d", id, accept, recorder.Code)
		}
	})
}

func TestMetricsAreZeroFromTheStart(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	newHandler(api.Options{Applier: unreachable(t), Metrics: registry})
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
	for _, want := range []string{
		`jajeong_apply_requests_total{result="ACCEPTED"} 0`, `jajeong_apply_requests_total{result="UNAVAILABLE"} 0`,
		"jajeong_apply_duration_seconds_count 0", "jajeong_apply_in_flight 0", `jajeong_apply_refused_total{reason="in_flight"} 0`,
		`jajeong_standing_requests_total{result="PENDING"} 0`, "jajeong_standing_duration_seconds_count 0",
	} {
		require.Contains(t, answer.Body.String(), want)
	}
}
