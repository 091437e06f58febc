package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/language"
)

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sent []string
		kept bool
	}{
		"none":            {nil, false},
		"usual":           {[]string{"7f3a-B.c_9"}, true},
		"one character":   {[]string{"x"}, true},
		"longest":         {[]string{strings.Repeat("a", 64)}, true},
		"too long":        {[]string{strings.Repeat("a", 65)}, false},
		"empty":           {[]string{""}, false},
		"twice":           {[]string{"a", "b"}, false},
		"space":           {[]string{"a b"}, false},
		"quotes":          {[]string{`a"b`}, false},
		"Korean":          {[]string{"쿠폰"}, false},
		"line break":      {[]string{"a\r\nSet-Cookie: x=1"}, false},
		"list":            {[]string{"a,b"}, false},
		"other separator": {[]string{"a:b"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request, recorder := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
			request.Header["X-Request-Id"] = c.sent
			var seen string
			Identified(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = RequestID(r) })).
				ServeHTTP(recorder, request)
			require.Equal(t, []string{seen}, recorder.Header().Values("X-Request-ID"))
			if c.kept {
				require.Equal(t, c.sent[0], seen)
			} else {
				require.Regexp(t, "^[0-9a-f]{16}$", seen)
			}
		})
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	for text, right := range map[string]bool{
		"https://shop.example.com": true, "http://localhost:5173": true, "https://[::1]:8443": true,
		"https://쇼핑.example":        false,
		"https://shop.example.com/": false, "https://shop.example.com:443": false, "http://shop.example.com:80": false,
		"shop.example.com":         false,
		"https://Shop.example.com": false, "*": false, "https://*.example.com": false, "null": false, "": false,
		"ftp://shop.example.com": false,
		"capacitor://localhost":  true, "ionic://localhost": true, "capacitor://": false,
		"capacitor://localhost/": false, "file://localhost": false,
		"https://user@shop.example.com": false, "https://shop.example.com?x": false,
		"https://shop.example.com#x": false, "https://": false,
	} {
		require.Equal(t, right, isOrigin(text), text)
	}
}

// Pages of listed origins may use an API with its methods; nobody may send X-User-ID.
func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	const shop = "https://shop.example.com"
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		SetLanguage(w.Header(), language.Korean)
		w.WriteHeader(http.StatusTeapot)
	})
	ask := func(handler http.Handler, method string, headers ...string) *http.Response {
		request, recorder := httptest.NewRequest(method, "/", nil), httptest.NewRecorder()
		for i := 0; i < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		handler.ServeHTTP(recorder, request)
		return recorder.Result()
	}
	allowed := CrossOrigin([]string{shop, "capacitor://localhost"}, api, http.MethodGet, http.MethodPost)

	simple := ask(allowed, http.MethodGet, "Origin", shop)
	require.Equal(t, http.StatusTeapot, simple.StatusCode)
	require.Equal(t, shop, simple.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "true", simple.Header.Get("Access-Control-Allow-Credentials"))
	require.Equal(t, "X-Request-Id, Retry-After, Etag, Www-Authenticate",
		simple.Header.Get("Access-Control-Expose-Headers"))
	require.Equal(t, []string{"Origin", "Accept-Language"}, simple.Header.Values("Vary"))

	for _, origin := range []string{"https://evil.example.com", "null", "https://shop.example.com.evil.com",
		"http://shop.example.com"} {
		other := ask(allowed, http.MethodGet, "Origin", origin)
		require.Equal(t, http.StatusTeapot, other.StatusCode)
		require.Empty(t, other.Header.Get("Access-Control-Allow-Origin"), origin)
		require.Contains(t, other.Header.Values("Vary"), "Origin")
	}
	require.Equal(t, http.StatusTeapot, ask(allowed, http.MethodGet).StatusCode, "no browser")
	for _, origin := range []string{"https://evil.example.com", "null", ""} {
		other := ask(allowed, http.MethodOptions, "Origin", origin, "Access-Control-Request-Method", http.MethodPost)
		require.Equal(t, http.StatusTeapot, other.StatusCode, "the answer of the API to %q", origin)
		require.Equal(t, []string{"Origin", "Accept-Language"}, other.Header.Values("Vary"))
		require.Empty(t, other.Header.Get("Access-Control-Allow-Origin"))
	}

	preflight := func(method, headers string) *http.Response {
		return ask(allowed, http.MethodOptions, "Origin", shop, "Access-Control-Request-Method", method,
			"Access-Control-Request-Headers", headers)
	}
	right := preflight(http.MethodPost, "authorization,last-event-id,x-request-id")
	require.Equal(t, http.StatusNoContent, right.StatusCode)
	require.Equal(t, shop, right.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "POST", right.Header.Get("Access-Control-Allow-Methods"))
	require.Equal(t, "600", right.Header.Get("Access-Control-Max-Age"))
	for _, headers := range []string{"if-none-match", "traceparent", "content-type,traceparent", "x-user-id-of-mine"} {
		require.Equal(t, headers, preflight(http.MethodPost, headers).Header.Get("Access-Control-Allow-Headers"))
	}
	app := ask(allowed, http.MethodGet, "Origin", "capacitor://localhost")
	require.Equal(t, "capacitor://localhost", app.Header.Get("Access-Control-Allow-Origin"))
	require.Empty(t, preflight(http.MethodPost, "x-user-id").Header.Get("Access-Control-Allow-Origin"))
	require.Empty(t, preflight(http.MethodPost, "authorization, X-User-ID").Header.Get("Access-Control-Allow-Headers"))
	require.Empty(t, preflight(http.MethodDelete, "").Header.Get("Access-Control-Allow-Origin"))

	without := CrossOrigin(nil, api)
	plain := ask(without, http.MethodGet, "Origin", shop)
	require.Equal(t, []string{"Accept-Language"}, plain.Header.Values("Vary"))
	require.Empty(t, plain.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, http.StatusTeapot, ask(without, http.MethodOptions, "Origin", shop,
		"Access-Control-Request-Method", "POST").StatusCode)
}
