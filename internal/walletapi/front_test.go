package walletapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/walletapi"
)

const shopPage = "https://shop.example.com"

// request sends a request with these headers to a handler.
func request(handler http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	r, recorder := httptest.NewRequest(method, path, contentOf(method)), httptest.NewRecorder()
	r.Header.Set("Authorization", "Bearer k1")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	handler.ServeHTTP(recorder, r)
	return recorder
}

// A log line has the id of its request, as the response and its problem have it.
func TestRequestIDs_AreInLogLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ method, path, user, message string }{
		{"GET", coupons, "1", "request panicked"}, {"GET", coupons, "2", "request failed"},
		{"PUT", "/v1/orders/PANIC/coupon", "", "request panicked"},
		{"PUT", "/v1/orders/AWAY/coupon", "", "request failed"},
	} {
		core, logs := observer.New(zap.InfoLevel) // for each: a handler logs only a few equal lines a second
		handler := newHandler(walletapi.Options{Keys: keysOf(t, "checkout", "k1"), Logger: zap.New(core)})
		got := request(handler, c.method, c.path, "X-User-ID", c.user, "X-Request-ID", "gateway-1")
		require.Equal(t, "gateway-1", got.Header().Get("X-Request-ID"))
		require.Contains(t, got.Body.String(), `"instance":"urn:jajeong:request:gateway-1"`)
		lines := logs.Filter(func(line observer.LoggedEntry) bool { return line.Message != "order" }).All()
		require.Len(t, lines, 1)
		require.Equal(t, c.message, lines[0].Message)
		require.Equal(t, "gateway-1", lines[0].ContextMap()["request_id"])
	}
}

// Each call that may change an order is a line of the log, however many there are in a second. A call that reads is
// none.
func TestOrders_AreLogged(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	handler := newHandler(walletapi.Options{Keys: keysOf(t, "checkout", "k1"), Logger: zap.New(core)})
	const calls = 20
	for range calls {
		request(handler, "PUT", "/v1/orders/DONE/coupon", "X-Request-ID", "r1")
		request(handler, "GET", "/v1/orders/DONE/coupon")
	}
	request(handler, "DELETE", "/v1/orders/NOTHING/coupon", "X-Request-ID", "r2")
	lines := logs.FilterMessage("order").All()
	require.Len(t, lines, calls+1)
	require.Equal(t, map[string]any{"request_id": "r1", "call": "reserve", "order_id": "DONE", "coupon_id": uint64(2),
		"actor": "checkout", "result": "DONE"}, lines[0].ContextMap())
	require.Equal(t, map[string]any{"request_id": "r2", "call": "release", "order_id": "NOTHING", "actor": "checkout",
		"result": "NOTHING"}, lines[calls].ContextMap())
}

// Pages of listed origins read wallets. No page uses a coupon: a checkout is a server.
func TestCORS(t *testing.T) {
	t.Parallel()
	handler := newHandler(walletapi.Options{Keys: keysOf(t, "checkout", "k1"), Origins: []string{shopPage}})
	for user, status := range map[string]int{"9": 200, "2": 503, "": 401} {
		got := request(handler, "GET", coupons, "X-User-ID", user, "Origin", shopPage)
		require.Equal(t, status, got.Code)
		require.Equal(t, shopPage, got.Header().Get("Access-Control-Allow-Origin"))
		require.Empty(t, request(handler, "GET", coupons, "X-User-ID", user, "Origin",
			"null").Header().Get("Access-Control-Allow-Origin"))
	}
	preflight := func(path, method string) *httptest.ResponseRecorder {
		return request(handler, http.MethodOptions, path, "Origin", shopPage, "Access-Control-Request-Method", method)
	}
	right := preflight(coupons, "GET")
	require.Equal(t, http.StatusNoContent, right.Code)
	require.Equal(t, shopPage, right.Header().Get("Access-Control-Allow-Origin"))
	const order = "/v1/orders/DONE/coupon"
	for method, path := range map[string]string{"PUT": order, "DELETE": order, "POST": order + "/confirm"} {
		require.Empty(t, preflight(path, method).Header().Get("Access-Control-Allow-Origin"))
	}
	put := request(handler, "PUT", "/v1/orders/DONE/coupon", "Origin", shopPage)
	require.Equal(t, http.StatusCreated, put.Code)
	require.Empty(t, put.Header().Get("Access-Control-Allow-Origin"))
	for _, route := range routes {
		got := request(handler, route.method, route.path, "Origin", "https://evil.example.com")
		require.Equal(t, route.method != "GET", got.Code == http.StatusForbidden, "%v: %s", route, got.Body)
	}
}
