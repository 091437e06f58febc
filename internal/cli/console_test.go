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
