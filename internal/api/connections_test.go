package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/api"
)

// within is longer than anything takes here.
const within = 10 * time.Second

// listen serves a handler on connections as the public API does, and returns its address.
func listen(t *testing.T, most int, handler http.HandlerFunc) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	connections := api.NewConnections(listener.(*net.TCPListener), most, prometheus.NewRegistry())
	server := &http.Server{
		Handler: handler, ConnContext: connections.Context,
		ReadTimeout: within, WriteTimeout: within, IdleTimeout: within,
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(connections) }()
	return listener.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(within)))
	return conn
}

func hear(t *testing.T, in *bufio.Reader) string {
	t.Helper()
	response, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return fmt.Sprintf("%d %s", response.StatusCode, text)
}

// What comes while a request is answered is the next one, wherever the network has cut it.
func TestRequestsThatComeTooSoonAreKept(t *testing.T) {
	t.Parallel()
	asked, answered := make(chan string), make(chan struct{})
	address := listen(t, 1, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			body = []byte(err.Error())
		}
		asked <- r.URL.Path
		<-answered
		_, _ = fmt.Fprintf(w, "%s %s", r.URL.Path, body)
	})
	conn := dial(t, address)
	in := bufio.NewReader(conn)
	say := func(text string) {
		_, err := io.WriteString(conn, text)
		require.NoError(t, err)
	}
	say("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, "/1", <-asked)
	say("G")
	answered <- struct{}{}
	require.Equal(t, "200 /1 ", hear(t, in))
	say("ET /2 HTTP/1.1\r\nHost: x\r\n\r\nPOST /3 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{")
	require.Equal(t, "/2", <-asked)
	answered <- struct{}{}
	require.Equal(t, "200 /2 ", hear(t, in))
	say("}GET /4 HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, "/3", <-asked)
	answered <- struct{}{}
	require.Equal(t, "200 /3 {}", hear(t, in))
	require.Equal(t, "/4", <-asked)
	answered <- struct{}{}
	require.Equal(t, "200 /4 ", hear(t, in))
}

// Without a deadline there is nothing to read, and nothing of what comes is taken away; with one, a byte is a byte.
func TestOnlyReadsWithADeadlineTakeSomething(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	connections := api.NewConnections(listener.(*net.TCPListener), 1, prometheus.NewRegistry())
	t.Cleanup(func() { _ = connections.Close() })
	client := dial(t, listener.Addr().String())
	conn, err := connections.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(client, "ab")
	require.NoError(t, err)

	for _, want := range []string{"a", "b"} {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(within)))
		one := make([]byte, 1)
		n, err := conn.Read(one)
		require.NoError(t, err)
		require.Equal(t, want, string(one[:n]))
		require.NoError(t, conn.SetReadDeadline(time.Time{}))
		n, err = conn.Read(one)
		require.NoError(t, err)
		require.Zero(t, n)
	}
	require.NoError(t, conn.SetReadDeadline(time.Unix(1, 0)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestConnectionsFarAboveTheLimitAreClosed(t *testing.T) {
	t.Parallel()
	address := listen(t, 1, func(http.ResponseWriter, *http.Request) {})
	const let = 1 + 1024
	for range let {
		dial(t, address)
	}
	_, err := dial(t, address).Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}
