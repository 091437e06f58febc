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
	"github.com/jajeong/jajeong/internal/testenv"
)

// within is a timeout that no test reaches.
const within = 10 * time.Second

// listen serves a handler on connections as the public API does. open is how many are.
func listen(t *testing.T, most int, write time.Duration, handler http.HandlerFunc) (address string, open func() float64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	connections := api.NewConnections(listener.(*net.TCPListener), most, 1024, registry)
	server := &http.Server{
		Handler: handler, ConnContext: connections.Context,
		ReadTimeout: within, WriteTimeout: write, IdleTimeout: within,
	}
	t.Cleanup(func() {
		_ = server.Close()
		require.Zero(t, open(), "the end closes all")
	})
	go func() { _ = server.Serve(connections) }()
	return listener.Addr().String(), func() float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		require.Equal(t, "jajeong_connections_open", families[0].GetName())
		return families[0].GetMetric()[0].GetGauge().GetValue()
	}
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

// Bytes that arrive during a response belong to the next request, however the network splits them.
func TestConnections_KeepPipelinedRequests(t *testing.T) {
	t.Parallel()
	asked, answered := make(chan string), make(chan struct{})
	address, _ := listen(t, 1, within, func(w http.ResponseWriter, r *http.Request) {
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

// A read without a deadline returns nothing and consumes nothing.
func TestConnections_ReadNothingWithoutADeadline(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	connections := api.NewConnections(listener.(*net.TCPListener), 1, 1024, prometheus.NewRegistry())
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

// Connections above the surplus are closed, until others have closed.
func TestConnections_CloseAboveTheSurplus(t *testing.T) {
	t.Parallel()
	const most, surplus = 1, 1024
	address, open := listen(t, most, within, func(http.ResponseWriter, *http.Request) {})
	var let []net.Conn
	for range most + surplus {
		let = append(let, dial(t, address))
	}
	last := let[len(let)-1]
	_, err := io.WriteString(last, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	require.Equal(t, "200 ", hear(t, bufio.NewReader(last)))
	_, err = dial(t, address).Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	for _, conn := range let {
		require.NoError(t, conn.Close())
	}
	testenv.Eventually(t, within, "all are closed", func() bool { return open() == 0 })
}

// The write deadline of an earlier response may have passed.
func TestConnections_SetAWriteDeadlinePerResponse(t *testing.T) {
	t.Parallel()
	const short = 1500 * time.Millisecond
	address, _ := listen(t, 1, short, func(http.ResponseWriter, *http.Request) {})
	conn := dial(t, address)
	in := bufio.NewReader(conn)
	for range 2 {
		for range 2 {
			_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			require.Equal(t, "200 ", hear(t, in))
		}
		<-time.After(short)
	}
}
