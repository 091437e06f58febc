package httpapi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/ops"
)

const withinTest = 10 * time.Second

// servers returns the addresses of a Front and of net/http with the same handler.
func servers(t *testing.T, handler http.Handler) map[string]string {
	t.Helper()
	within := ops.Timeouts{Header: withinTest, Read: withinTest, Write: withinTest, Idle: withinTest}
	front, plain := NewFront(handler, within, zap.NewNop()), ops.NewServer(handler, within, zap.NewNop())
	addresses := map[string]string{}
	for name, server := range map[string]portServer{"front": front, "net/http": plain} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addresses[name] = listener.Addr().String()
		if name == "front" {
			listener = NewConnections(listener.(*net.TCPListener), 100, 100, prometheus.NewRegistry())
		}
		ended := make(chan struct{})
		go func() { defer close(ended); _ = server.Serve(listener) }()
		t.Cleanup(func() { _ = server.Close(); <-ended })
	}
	return addresses
}

// echo answers with what a handler sees of a request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<10))
	_, tooLong := errors.AsType[*http.MaxBytesError](err)
	w.Header()["X-Twice"] = []string{"a", "b"}
	status := http.StatusOK
	switch r.URL.Path {
	case "/none":
		w.WriteHeader(http.StatusNotModified)
		return
	case "/panic":
		panic("on purpose")
	case "/created":
		status = http.StatusCreated
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	w.WriteHeader(status)
	for _, name := range []string{"X-User-Id", "X_user_id", "Accept-Language", "Authorization", "Host", "Content-Type"} {
		fmt.Fprintf(w, "%s=%q\n", name, r.Header[name])
	}
	fmt.Fprintf(w, "%s %s %s %s %q %v %v\n", r.Method, r.URL, r.RequestURI, r.Host, body, tooLong, err != nil)
}

// Both servers give the same answers and close the same connections, for requests as clients and proxies send them, and
// for malformed ones.
func TestFront_AnswersLikeNetHTTP(t *testing.T) {
	t.Parallel()
	at := servers(t, http.HandlerFunc(echo))
	const end = "\r\nHost: x\r\n\r\n"
	long := strings.Repeat("a", 20<<10)
	for name, sent := range map[string]string{
		"get":                  "GET /a?b=c HTTP/1.1" + end,
		"head":                 "HEAD /a HTTP/1.1" + end,
		"options":              "OPTIONS * HTTP/1.1" + end,
		"another method":       "FROBNICATE /a HTTP/1.1" + end,
		"whole address":        "GET http://x/a?b HTTP/1.1" + end,
		"escaped":              "GET /a%2Fb/%20 HTTP/1.1" + end,
		"unclean":              "GET //a/../b HTTP/1.1" + end,
		"created":              "GET /created HTTP/1.1" + end,
		"not modified":         "GET /none HTTP/1.1" + end,
		"two after another":    "GET /1 HTTP/1.1" + end + "GET /2 HTTP/1.1" + end,
		"close":                "GET /a HTTP/1.1\r\nConnection: close" + end + "GET /2 HTTP/1.1" + end,
		"old version":          "GET /a HTTP/1.0\r\n\r\n",
		"old version, kept":    "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		"body":                 "POST /a HTTP/1.1\r\nContent-Length: 2\r\nContent-Type: application/json" + end + "{}",
		"body of many bytes":   "POST /a HTTP/1.1\r\nContent-Length: 3000" + end + long[:3000],
		"chunks":               "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked" + end + "2\r\n{}\r\n0\r\n\r\nGET /2 HTTP/1.1" + end,
		"expects 100":          "POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2" + end + "{}",
		"user":                 "GET /a HTTP/1.1\r\nx-user-ID: 7\r\nACCEPT-language: ko" + end,
		"user twice":           "GET /a HTTP/1.1\r\nX-User-ID: 7\r\nX-User-ID: 8" + end,
		"twin":                 "GET /a HTTP/1.1\r\nX_User_ID: 7\r\nX-User-ID: 8" + end,
		"user with spaces":     "GET /a HTTP/1.1\r\nX-User-ID: \t 7 \t" + end,
		"space before colon":   "GET /a HTTP/1.1\r\nX-User-ID : 7" + end,
		"folded":               "GET /a HTTP/1.1\r\nX-User-ID: 7\r\n 8" + end,
		"control character":    "GET /a HTTP/1.1\r\nX-User-ID: 7\x00" + end,
		"no host":              "GET /a HTTP/1.1\r\n\r\n",
		"two hosts":            "GET /a HTTP/1.1\r\nHost: y" + end,
		"two lengths":          "POST /a HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3" + end + "{}",
		"negative length":      "POST /a HTTP/1.1\r\nContent-Length: -1" + end,
		"signed length":        "POST /a HTTP/1.1\r\nContent-Length: +2" + end + "{}",
		"chunk without length": "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked" + end + "zz\r\n",
		"no version":           "GET /a" + end,
		"no path":              "GET  HTTP/1.1" + end,
		"relative path":        "GET a HTTP/1.1" + end,
		"nonsense":             "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
		"huge header":          "GET /a HTTP/1.1\r\nX-User-ID: " + long + end,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[string]string{}
			for server, address := range at {
				got[server] = converse(t, address, sent)
			}
			require.Equal(t, got["net/http"], got["front"])
		})
	}
}

// Front refuses a few requests that net/http takes, and goes on after a panic or a body that is too long.
func TestFront_DiffersFromNetHTTP(t *testing.T) {
	t.Parallel()
	address := servers(t, http.HandlerFunc(echo))["front"]
	const end, last, refused = "\r\nHost: x\r\n\r\n", "GET /last /last x", "map[Content-Type:[text/plain; charset=utf-8]] close=true\n\nclosed"
	require.Equal(t, "400 "+refused, converse(t, address, "POST /a HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2"+end+"{}"))
	require.Equal(t, "400 "+refused, converse(t, address, "POST /a HTTP/1.1\r\nTransfer-Encoding: gzip"+end))
	require.Equal(t, "505 "+refused, converse(t, address, "GET /a HTTP/3.9"+end))
	require.Equal(t, "400 "+refused, converse(t, address, "PRI * HTTP/2.0"+end))
	require.Equal(t, "500 "+refused, converse(t, address, "GET /panic HTTP/1.1"+end))
	both := converse(t, address, "POST /a HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked"+end+"0\r\n\r\n")
	require.Contains(t, both, `POST /a /a x ""`)
	require.NotContains(t, both, last, "the connection is closed: a proxy may have read another request")
	long := converse(t, address, "POST /a HTTP/1.1\r\nContent-Length: 5120"+end+strings.Repeat("a", 5120))
	require.Contains(t, long, " true true\n")
	require.Contains(t, long, last)
}

// converse sends text and returns the responses. After the last one it sends a request that closes the connection.
func converse(t *testing.T, address, text string) (said string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(withinTest)))
	_, err = io.WriteString(conn, text+"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	for in := bufio.NewReader(conn); ; {
		method := http.MethodGet
		if text[:4] == "HEAD" && said == "" {
			method = http.MethodHead
		}
		response, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return said + "closed"
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return said + "broken"
		}
		response.Header.Del("Date")
		response.Header.Del("Content-Length") // net/http sends a long body in chunks
		if response.StatusCode >= 400 {
			body = nil // the texts differ
		}
		said += fmt.Sprintf("%d %v close=%v\n%s\n", response.StatusCode, response.Header, response.Close, body)
	}
}
