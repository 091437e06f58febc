package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

const shop = "https://shop.example.com"

// request sends a request with these headers to a handler.
func request(handler http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	r, recorder := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	handler.ServeHTTP(recorder, r)
	return recorder
}

// Every response has one id, and a problem has the same one. An id that could break a header or a log line is replaced.
func TestRequestIDs_AreInEveryResponse(t *testing.T) {
	t.Parallel()
	handler := newProvokedHandler(nil, plenty)
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"POST", "/v1/coupons/42/applications", 202}, {"GET", "/v1/coupons/42", 200}, {"GET", "/v1/coupons/42/time", 200},
		{"GET", "/openapi.yaml", 200}, {"GET", "/v1/jajeong.js", 200}, {"POST", "/v1/coupons/x/applications", 400}, {"GET", "/nothing", 404}, {"GET", "//x", 404},
		{"DELETE", "/v1/coupons/42", 405}, {"OPTIONS", "/v1/coupons/42", 405},
	} {
		for _, sent := range []string{"", "a-B.7_", "bad id", "a\r\nSet-Cookie: x=1", strings.Repeat("a", 65)} {
			got := request(handler, c.method, c.path, "X-User-ID", "1", "X-Request-ID", sent)
			require.Equal(t, c.status, got.Code, "%s %s", c.method, c.path)
			ids := got.Header().Values("X-Request-ID")
			require.Len(t, ids, 1)
			if sent == "a-B.7_" {
				require.Equal(t, sent, ids[0])
			} else {
				require.Regexp(t, "^[0-9a-f]{16}$", ids[0])
			}
			if got.Code >= 400 {
				var problem struct{ Instance string }
				require.NoError(t, json.Unmarshal(got.Body.Bytes(), &problem))
				require.Equal(t, "urn:jajeong:request:"+ids[0], problem.Instance)
			}
		}
	}
	tag := request(handler, "GET", "/v1/coupons/42").Header().Get("ETag")
	unchanged := request(handler, "GET", "/v1/coupons/42", "If-None-Match", tag, "X-Request-ID", "again")
	require.Equal(t, http.StatusNotModified, unchanged.Code)
	require.Equal(t, "again", unchanged.Header().Get("X-Request-ID"))
}

func TestRequestIDs_AreInLogLines(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	handler := newHandler(api.Options{Applier: everyAnswer, Queue: everyStanding, Logger: zap.New(core)})
	for _, c := range []struct{ method, path, user, message string }{
		{"POST", "", "12", "request panicked"}, {"POST", "", "13", "apply failed"}, {"GET", "/me", "6", "request panicked"},
		{"GET", "/me", "7", "standing unknown"},
	} {
		got := request(handler, c.method, "/v1/coupons/42/applications"+c.path, "X-User-ID", c.user, "X-Request-ID", "gateway-"+c.user)
		require.GreaterOrEqual(t, got.Code, 500)
		lines := logs.TakeAll()
		require.Len(t, lines, 1)
		require.Equal(t, c.message, lines[0].Message)
		require.Equal(t, "gateway-"+c.user, lines[0].ContextMap()["request_id"])
	}
}

// A page of a listed origin reads every response, problems included. No other page does.
func TestCORS(t *testing.T) {
	t.Parallel()
	handler := newHandler(api.Options{Applier: everyAnswer, Queue: everyStanding, Origins: []string{shop}})
	for _, c := range []struct {
		method, path, user string
		status             int
	}{
		{"POST", "/v1/coupons/42/applications", "1", 202}, {"POST", "/v1/coupons/42/applications", "3", 409}, {"GET", "/v1/coupons/42", "", 200},
		{"GET", "/nothing", "", 404},
	} {
		got := request(handler, c.method, c.path, "X-User-ID", c.user, "Origin", shop)
		require.Equal(t, c.status, got.Code)
		require.Equal(t, shop, got.Header().Get("Access-Control-Allow-Origin"))
		require.Equal(t, "true", got.Header().Get("Access-Control-Allow-Credentials"))
		require.Contains(t, got.Header().Get("Access-Control-Expose-Headers"), "X-Request-Id, Retry-After")
		for _, origin := range []string{"", "null", "https://evil.example.com", shop + ".evil.example.com"} {
			other := request(handler, c.method, c.path, "X-User-ID", c.user, "Origin", origin)
			if c.method != "POST" || origin == "" {
				require.Equal(t, c.status, other.Code)
			}
			requireNoCORS(t, other)
			require.Contains(t, other.Header().Values("Vary"), "Origin")
		}
	}
}

// A browser sends cookies along with a form of any page. Only pages of the request's host and of the listed origins apply.
func TestOrigins_OfPagesThatApply(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	applied := 0
	handler := newHandler(api.Options{Origins: []string{shop}, Logger: zap.New(core), Applier: applier(func(ctx context.Context, id coupon.CouponID, user coupon.UserID) (candidates.Receipt, error) {
		applied++
		return accepts(ctx, id, user)
	})})
	const path, host = "/v1/coupons/42/applications", "example.com" // of httptest
	for _, right := range [][]string{
		nil, {"Origin", ""}, {"Origin", shop}, {"Origin", "https://" + host}, {"Origin", shop, "Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "cross-site"},                                       // a gateway that admits pages itself took Origin away
		{"Origin", "https://www.example.com", "Sec-Fetch-Site", "same-origin"}, // a proxy changed Host
	} {
		applied = 0
		require.Equal(t, http.StatusAccepted, request(handler, "POST", path, append(right, "X-User-ID", "7")...).Code, "%q", right)
		require.Equal(t, 1, applied)
	}
	for _, wrong := range [][]string{
		{"Origin", "null"}, {"Origin", "https://evil.example.com"}, {"Origin", shop + ".evil.example.com"}, {"Origin", "https://" + host + ":8443"},
		{"Origin", "http" + strings.TrimPrefix(shop, "https")}, {"Origin", "https://" + host + "@evil.example.net"},
		{"Origin", "https://" + host, "Sec-Fetch-Site", "cross-site"}, {"Origin", "https://www.example.com", "Sec-Fetch-Site", "same-site"},
	} {
		applied = 0
		got := request(handler, "POST", path, append(wrong, "X-User-ID", "7")...)
		require.Equal(t, http.StatusForbidden, got.Code, "%q", wrong)
		require.Contains(t, got.Body.String(), `"code":"FOREIGN_ORIGIN"`)
		require.Zero(t, applied)
		require.Equal(t, http.StatusOK, request(handler, "GET", "/v1/coupons/42", wrong...).Code, "reading changes nothing")
	}
	line := logs.TakeAll()[0]
	require.Equal(t, []any{"null", host}, []any{line.ContextMap()["origin"], line.ContextMap()["host"]})
}

func TestCORS_Preflights(t *testing.T) {
	t.Parallel()
	handler := newHandler(api.Options{Origins: []string{shop}})
	ask := func(origin, method, headers string) *httptest.ResponseRecorder {
		return request(handler, http.MethodOptions, "/v1/coupons/42/applications", "Origin", origin,
			"Access-Control-Request-Method", method, "Access-Control-Request-Headers", headers)
	}
	right := ask(shop, "POST", "authorization,x-request-id")
	require.Equal(t, http.StatusNoContent, right.Code)
	require.Equal(t, shop, right.Header().Get("Access-Control-Allow-Origin"))
	require.Equal(t, "authorization,x-request-id", right.Header().Get("Access-Control-Allow-Headers"))
	require.Equal(t, "600", right.Header().Get("Access-Control-Max-Age"))
	require.Regexp(t, "^[0-9a-f]{16}$", right.Header().Get("X-Request-ID"))
	requireNoCORS(t, ask(shop, "POST", "x-user-id"))
	requireNoCORS(t, ask(shop, "DELETE", ""))
	other := ask("https://evil.example.com", "POST", "")
	require.Equal(t, http.StatusMethodNotAllowed, other.Code)
	require.Equal(t, "POST", other.Header().Get("Allow"))
	requireNoCORS(t, other)
}

func requireNoCORS(t *testing.T, got *httptest.ResponseRecorder) {
	t.Helper()
	for name := range got.Header() {
		require.False(t, strings.HasPrefix(name, "Access-Control-"), name)
	}
}
