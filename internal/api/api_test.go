package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
)

func TestAcceptedAndDuplicate(t *testing.T) {
	t.Parallel()
	_, _, store := privateStore(t)
	now := time.Now()
	_, _, err := store.Publish(t.Context(), coupon.Window{Coupon: 7, Opens: now.Add(-time.Hour),
		Closes: now.Add(time.Hour)}, 0)
	require.NoError(t, err)
	s := newSite(t, store, shelf{7: {ID: 7, TotalQuantity: 10, IssuedCount: 3}})
	const largest = "18446744073709551615"

	first := s.apply("7", largest)
	require.Equal(t, http.StatusAccepted, first.status, first.text)
	require.Equal(t, "application/json", first.header.Get("Content-Type"))
	require.Equal(t, "no-store", first.header.Get("Cache-Control"))
	require.Equal(t, "nosniff", first.header.Get("X-Content-Type-Options"))
	appliedAt, err := time.Parse(microseconds, first.body["appliedAt"].(string))
	require.NoError(t, err)
	require.WithinRange(t, appliedAt, now.Truncate(time.Microsecond), time.Now())
	settlesAt := nextMidnight(appliedAt).Format(microseconds)
	require.True(t, strings.HasSuffix(settlesAt, "T00:00:00.000000+09:00"))
	require.Equal(t,
		fmt.Sprintf(
			`{"status":"ACCEPTED","couponId":7,"userId":%s,"position":1,"seats":7,"withinSeats":true,`+
				`"appliedAt":"%s","cadence":"NIGHTLY","settlesAt":"%s","detail":"%s"}`+"\n",
			largest, first.body["appliedAt"], settlesAt,
			"신청이 접수되었습니다. 자정이 지나면 신청 순서대로 발급되며, 지금 순번은 남은 수량 안에 있지만 아직 발급이 확정된 것은 아닙니다."), first.text)

	second := s.apply("7", "2")
	require.Equal(t, json.Number("2"), second.body["position"])

	again := s.apply("7", largest)
	require.Equal(t, http.StatusOK, again.status)
	require.Equal(t, strings.NewReplacer("ACCEPTED", "DUPLICATE", "신청이 접수되었습니다.",
		"이미 접수된 신청이며, 처음 신청하신 순서가 적용됩니다.").Replace(first.text), again.text)

	require.InDelta(t, 2, s.counted("ACCEPTED"), 0)
	require.InDelta(t, 1, s.counted("DUPLICATE"), 0)
	require.InDelta(t, 0, s.counted("SOLD_OUT"), 0)
}

func TestApply_EveryRefusal(t *testing.T) {
	t.Parallel()
	s := newSite(t, everyAnswer, shelf{1: {ID: 1}})
	for user, want := range map[string]refusal{
		"3": notOpen, "4": closed, "5": paused, "6": underReview, "7": alreadyIssued, "8": rejected, "9": soldOut,
		"10": noWindow, "11": clockBehind, "14": lineFull,
	} {
		refuses(t, want, s.asking("1", user))
	}
	refuses(t, couponUnknown, s.asking("2", "3"))
	for _, result := range []string{"NOT_OPEN", "NO_WINDOW", "CLOCK"} {
		require.InDelta(t, 2, s.counted(result), 0, result)
	}
	early := s.apply("1", "3")
	require.Equal(t, opens.In(seoul).Format(microseconds), early.body["opensAt"])
	require.Equal(t, opens.Add(-time.Second).In(seoul).Format(microseconds), early.body["serverTime"])
}

func TestApply_FinalisedCouponIsClosedWithoutRedis(t *testing.T) {
	t.Parallel()
	refuses(t, closed, newSite(t, unreachable(t), shelf{1: {ID: 1, FinalisedAt: time.Unix(1, 0)}}).asking("1", "100"))
}

func TestApply_UnavailableBeforeTheFirstRefresh(t *testing.T) {
	t.Parallel()
	refuses(t, catalogMissing, newSite(t, unreachable(t), catalog.New(catalog.Options{})).asking("1", "100"))
}

func TestApply_UnavailableWithoutRedisAndBoundsTheLog(t *testing.T) {
	t.Parallel()
	server, _, store := privateStore(t)
	s := newSite(t, store, coupons{})
	require.NoError(t, server.Freeze())
	require.Equal(t, http.StatusServiceUnavailable, s.apply("1", "100").status, "a Redis that hangs")
	require.NoError(t, server.Thaw())
	require.NoError(t, server.Kill())
	refuses(t, redisAway, s.asking("1", "100"))
	for range 50 {
		s.apply("1", "100")
	}
	logged := s.logs.FilterMessage("apply failed").Len()
	require.Positive(t, logged)
	require.Less(t, logged, 50, "without Redis every request fails")
}

func TestApply_AnswersAfterAPanic(t *testing.T) {
	t.Parallel()
	panics := true
	s := newSite(t, applier(func(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (candidates.Receipt,
		error) {
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
	require.Equal(t, "UNAUTHENTICATED", s.apply("07", "").body["code"], "the user id is checked first")
}

// escape escapes every byte.
func escape(segment string) (escaped string) {
	for _, b := range []byte(segment) {
		escaped += fmt.Sprintf("%%%02X", b)
	}
	return escaped
}

// No call of either port takes content: what it would say is not ignored.
func TestContent_IsRefused(t *testing.T) {
	t.Parallel()
	handler, live := newProvokedHandler(nil, plenty), newLiveHandler(nil)
	for call, answers := range map[string]http.Handler{
		"POST /v1/coupons/1/applications": handler, "GET /v1/coupons/1/applications/me": handler,
		"GET /v1/coupons/1":     handler,
		"GET /v1/coupons?ids=1": handler, "GET /v1/coupons/1/time": handler, "GET /openapi.yaml": handler,
		"GET /v1/jajeong.js": handler, "GET /v1/live/coupons/1/me": live,
	} {
		openapi.RefusesContent(t, answers, call, httpapi.MaxContent, "X-User-ID", "1")
	}
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
		return reply{status: response.StatusCode, header: response.Header, text: string(body),
			body: decode(t, string(body))}
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
		"/", "/v1", "/v1/coupons/", "/v1/coupons/1/", "/v1/coupons/1/time/", "/v1/coupons/1/applications/",
		"/v1/coupons//applications", "/metrics", "/debug/pprof/",
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

func TestMetricsAreZeroFromTheStart(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	newHandler(api.Options{Applier: unreachable(t), Metrics: registry})
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
	for _, want := range []string{
		`jajeong_apply_requests_total{result="ACCEPTED"} 0`, `jajeong_apply_requests_total{result="UNAVAILABLE"} 0`,
		"jajeong_apply_duration_seconds_count 0", "jajeong_apply_in_flight 0",
		`jajeong_apply_refused_total{reason="in_flight"} 0`,
		`jajeong_standing_requests_total{result="PENDING"} 0`, "jajeong_standing_duration_seconds_count 0",
	} {
		require.Contains(t, answer.Body.String(), want)
	}
}
