package cli

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/ops"
	migrations "github.com/jajeong/jajeong/sql"
)

// pipes is a listener whose connections a test makes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A connection of the console without a request ends within 15 s, before its first request and after it.
func TestConsole_EndsConnectionsWithoutARequest(t *testing.T) {
	t.Parallel()
	for _, asks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			listener := make(pipes)
			server := ops.NewServer(http.NotFoundHandler(), consoleTimeouts, zap.NewNop())
			go func() { _ = server.Serve(listener) }()
			client, remote := net.Pipe()
			listener <- remote
			read := bufio.NewReader(client)
			if asks {
				_, err := fmt.Fprint(client, "GET / HTTP/1.1\r\nHost: console\r\n\r\n")
				require.NoError(t, err)
				response, err := http.ReadResponse(read, nil)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, response.Body)
				require.NoError(t, err)
			}
			begun := time.Now()
			_, err := read.ReadByte()
			require.ErrorIs(t, err, io.EOF)
			require.LessOrEqual(t, time.Since(begun), 15*time.Second)
			close(listener)
		})
	}
}

// The console is ready if its account can read all tables. Redis is not needed: pages show what they know without it.
func TestConsole_IsReadyWithAllTables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	logs, stop, ended := w.start([]string{"console", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--console-dev-user=kim"},
		"--mysql-dsn="+w.Operator.MySQLDSN, "--redis-addrs=127.0.0.1:1")
	admin := adminPort(t, logs)
	status, text := get(t, admin, "/readyz")
	require.Equal(t, http.StatusOK, status, text)
	for _, table := range migrations.Tables {
		w.Exec("RENAME TABLE " + table + " TO another")
		status, text = get(t, admin, "/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status, table)
		require.Contains(t, text, table)
		w.Exec("RENAME TABLE another TO " + table)
	}
	status, text = get(t, admin, "/readyz")
	require.Equal(t, http.StatusOK, status, text)
	stop()
	require.Zero(t, <-ended)
}
