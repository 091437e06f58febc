package api_test

import (
	"context"
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

func TestRequestIDs_AreInLogLines(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	handler := newHandler(api.Options{Applier: everyAnswer, Queue: everyStanding, Logger: zap.New(core)})
	for _, c := range []struct{ method, path, user, message string }{
		{"POST", "", "12", "request panicked"}, {"POST", "", "13", "apply failed"},
		{"GET", "/me", "6", "request panicked"},
		{"GET", "/me", "7", "standing unknown"},
	} {
		got := request(handler, c.method, "/v1/coupons/42/applications"+c.path, "X-User-ID", c.user, "X-Request-ID",
			"gateway-"+c.user)
		require.GreaterOrEqual(t, got.Code, 500)
		lines := logs.TakeAll()
		require.Len(t, lines, 1)
		require.Equal(t, c.message, lines[0].Message)
		require.Equal(t, "gateway-"+c.user, lines[0].ContextMap()["request_id"])
	}
}

// A browser sends cookies along with a form of any page. Only pages of the request's host and of the listed origins
// apply.
func TestOrigins_OfPagesThatApply(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	applied := 0
	handler := newHandler(api.Options{Origins: []string{shop}, Logger: zap.New(core),
		Applier: applier(func(ctx context.Context, id coupon.CouponID, user coupon.UserID) (candidates.Receipt, error) {
			applied++
			return accepts(ctx, id, user)
		})})
	const path, host = "/v1/coupons/42/applications", "example.com" // of httptest
	for _, right := range [][]string{
		nil, {"Origin", ""}, {"Origin", shop}, {"Origin", "https://" + host},
		{"Origin", shop, "Sec-Fetch-Site", "cross-site"},
		// A gateway that admits pages itself took Origin away.
		{"Sec-Fetch-Site", "cross-site"},
		{"Origin", "https://www.example.com", "Sec-Fetch-Site", "same-origin"}, // a proxy changed Host
	} {
		applied = 0
		require.Equal(t, http.StatusAccepted, request(handler, "POST", path, append(right, "X-User-ID", "7")...).Code,
			"%q", right)
		require.Equal(t, 1, applied)
	}
	for _, wrong := range [][]string{
		{"Origin", "null"}, {"Origin", "https://evil.example.com"}, {"Origin", shop + ".evil.example.com"},
		{"Origin", "https://" + host + ":8443"},
		{"Origin", "http" + strings.TrimPrefix(shop, "https")}, {"Origin", "https://" + host + "@evil.example.net"},
		{"Origin", "https://" + host, "Sec-Fetch-Site", "cross-site"},
		{"Origin", "https://www.example.com", "Sec-Fetch-Site", "same-site"},
	} {
		applied = 0
		got := request(handler, "POST", path, append(wrong, "X-User-ID", "7")...)
		require.Equal(t, http.StatusForbidden, got.Code, "%q", wrong)
		require.Contains(t, got.Body.String(), `"code":"FOREIGN_ORIGIN"`)
		require.Zero(t, applied)
		require.Equal(t, http.StatusOK, request(handler, "GET", "/v1/coupons/42", wrong...).Code,
			"reading changes nothing")
	}
	line := logs.TakeAll()[0]
	require.Equal(t, []any{"null", host}, []any{line.ContextMap()["origin"], line.ContextMap()["host"]})
}

// A page of a listed origin reads every response, problems included. No other page does.
func TestCORS(t *testing.T) {
	t.Parallel()
	handler := newHandler(api.Options{Applier: everyAnswer, Queue: everyStanding, Origins: []string{shop}})
	ask := func(method, path, origin, preflight string) *httptest.ResponseRecorder {
		return request(handler, method, path, "X-User-ID", "3", "Origin", origin, "Access-Control-Request-Method",
			preflight)
	}
	const apply = "/v1/coupons/42/applications"
	for call, status := range map[string]int{"POST " + apply: 409, "GET /v1/coupons/42": 200, "GET /nothing": 404} {
		method, path, _ := strings.Cut(call, " ")
		got := ask(method, path, shop, "")
		require.Equal(t, status, got.Code)
		require.Equal(t, shop, got.Header().Get("Access-Control-Allow-Origin"))
		requireNoCORS(t, ask(method, path, "https://evil.example.com", ""))
	}
	require.Equal(t, http.StatusNoContent, ask(http.MethodOptions, apply, shop, "POST").Code)
	requireNoCORS(t, ask(http.MethodOptions, apply, shop, "DELETE"))
	other := ask(http.MethodOptions, apply, "https://evil.example.com", "POST")
	require.Equal(t, http.StatusMethodNotAllowed, other.Code)
	requireNoCORS(t, other)
}

func requireNoCORS(t *testing.T, got *httptest.ResponseRecorder) {
	t.Helper()
	for name := range got.Header() {
		require.False(t, strings.HasPrefix(name, "Access-Control-"), name)
	}
}
