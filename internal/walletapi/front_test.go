package walletapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
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

// Every response has the id of its request; problems and log lines have it, too.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path, user string
		status             int
		message            string
	}{
		{"GET", coupons, "9", 200, ""}, {"GET", coupons, "1", 500, "request panicked"}, {"GET", coupons, "2", 503, "request failed"},
		{"GET", coupons, "", 401, ""}, {"GET", "/openapi.yaml", "", 200, ""}, {"GET", "/nothing", "", 404, ""}, {"PUT", coupons, "9", 405, ""},
		{"PUT", "/v1/orders/DONE/coupon", "", 201, ""}, {"DELETE", "/v1/orders/NOTHING/coupon", "", 204, ""},
		{"PUT", "/v1/orders/PANIC/coupon", "", 500, "request panicked"}, {"PUT", "/v1/orders/AWAY/coupon", "", 503, "request failed"},
	} {
		core, logs := observer.New(zap.InfoLevel) // for each: a handler logs only a few equal lines a second
		handler := newHandler(walletapi.Options{Keys: keysOf(t, "checkout", "k1"), Logger: zap.New(core)})
		for _, sent := range []string{"", "gateway-1", "a b"} {
			got := request(handler, c.method, c.path, "X-User-ID", c.user, "X-Request-ID", sent)
			require.Equal(t, c.status, got.Code, "%s %s: %s", c.method, c.path, got.Body)
			ids := got.Header().Values("X-Request-ID")
			require.Len(t, ids, 1)
			if sent == "gateway-1" {
				require.Equal(t, sent, ids[0])
			} else {
				require.Regexp(t, "^[0-9a-f]{16}$", ids[0])
			}
			if c.status >= 400 {
				var problem struct{ Instance string }
				require.NoError(t, json.Unmarshal(got.Body.Bytes(), &problem))
				require.Equal(t, "urn:jajeong:request:"+ids[0], problem.Instance)
			}
			all := logs.TakeAll()
			lines := slices.DeleteFunc(slices.Clone(all), func(line observer.LoggedEntry) bool { return line.Message == "order" })
			require.Equal(t, c.message != "", len(lines) == 1)
			for _, line := range lines {
				require.Equal(t, c.message, line.Message)
				require.Equal(t, ids[0], line.ContextMap()["request_id"])
			}
		}
	}
}

// Each call that may change an order is a line of the log, however many there are in a second. A call that reads is none.
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
	require.Equal(t, map[string]any{"request_id": "r1", "call": "reserve", "order_id": "DONE", "coupon_id": uint64(2), "actor": "checkout", "result": "DONE"}, lines[0].ContextMap())
	require.Equal(t, map[string]any{"request_id": "r2", "call": "release", "order_id": "NOTHING", "actor": "checkout", "result": "NOTHING"}, lines[calls].ContextMap())
}

// Pages of listed origins read wallets. No page uses a coupon: a checkout is a server.
func TestCORS(t *testing.T) {
	t.Parallel()
	handler := newHandler(walletapi.Options{Keys: keysOf(t, "checkout", "k1"), Origins: []string{shopPage}})
	for user, status := range map[string]int{"9": 200, "2": 503, "": 401} {
		got := request(handler, "GET", coupons, "X-User-ID", user, "Origin", shopPage)
		require.Equal(t, status, got.Code)
		require.Equal(t, shopPage, got.Header().Get("Access-Control-Allow-Origin"))
		require.Equal(t, "true", got.Header().Get("Access-Control-Allow-Credentials"))
		require.Contains(t, got.Header().Get("Access-Control-Expose-Headers"), "X-Request-Id, Retry-After")
		require.Contains(t, got.Header().Values("Vary"), "Origin")
		require.Empty(t, request(handler, "GET", coupons, "X-User-ID", user, "Origin", "null").Header().Get("Access-Control-Allow-Origin"))
	}
	ask := func(path, origin, method, headers string) *httptest.ResponseRecorder {
		return request(handler, http.MethodOptions, path, "Origin", origin,
			"Access-Control-Request-Method", method, "Access-Control-Request-Headers", headers)
	}
	right := ask(coupons, shopPage, "GET", "authorization")
	require.Equal(t, http.StatusNoContent, right.Code)
	require.Equal(t, shopPage, right.Header().Get("Access-Control-Allow-Origin"))
	require.Empty(t, ask(coupons, shopPage, "GET", "x-user-id").Header().Get("Access-Control-Allow-Origin"))
	require.Equal(t, http.StatusMethodNotAllowed, ask(coupons, "https://evil.example.com", "GET", "").Code)
	for _, method := range []string{"PUT", "DELETE"} {
		require.Empty(t, ask("/v1/orders/DONE/coupon", shopPage, method, "authorization").Header().Get("Access-Control-Allow-Origin"))
	}
	put := request(handler, "PUT", "/v1/orders/DONE/coupon", "Origin", shopPage)
	require.Equal(t, http.StatusCreated, put.Code)
	require.Empty(t, put.Header().Get("Access-Control-Allow-Origin"))
	for _, route := range routes {
		got := request(handler, route.method, route.path, "Origin", "https://evil.example.com")
		require.Equal(t, route.method != "GET", got.Code == http.StatusForbidden, "%v: %s", route, got.Body)
	}
	post := ask("/v1/orders/DONE/coupon/confirm", shopPage, "POST", "authorization")
	require.Empty(t, post.Header().Get("Access-Control-Allow-Origin"))
}
