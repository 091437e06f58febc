package ops_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
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

type pipe struct {
	net.Conn
	from string
}

func (p pipe) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(p.from)) }

func TestIdle_EndsConnectionsWithoutARequest(t *testing.T) {
	t.Parallel()
	const header = 5 * time.Second
	for _, test := range []struct {
		from  string
		asks  bool
		after time.Duration
	}{
		{"10.0.0.7:1234", true, 4020 * time.Second},
		{"[::ffff:10.0.0.7]:1234", true, 4020 * time.Second},
		{"192.0.2.1:1234", true, 15 * time.Second},
		{"10.0.0.7:1234", false, header}, // nobody waits for a first request for long
		{"192.0.2.1:1234", false, header},
	} {
		synctest.Test(t, func(t *testing.T) {
			proxies := netip.MustParsePrefix("10.0.0.0/8")
			idle := ops.Idle{IsProxy: proxies.Contains, Now: time.Now}
			listener := make(pipes)
			server := ops.NewServer(http.NotFoundHandler(),
				idle.Within(ops.Timeouts{Header: header, Read: header, Write: time.Minute}), zap.NewNop())
			go func() { _ = server.Serve(idle.Listen(listener)) }()
			client, remote := net.Pipe()
			listener <- pipe{remote, test.from}
			read := bufio.NewReader(client)
			if test.asks {
				_, err := fmt.Fprint(client, "GET / HTTP/1.1\r\nHost: shop\r\n\r\n")
				require.NoError(t, err)
				response, err := http.ReadResponse(read, nil)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, response.Body)
				require.NoError(t, err)
			}
			begun := time.Now()
			_, err := read.ReadByte()
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, test.after, time.Since(begun), "%+v", test)
			close(listener)
		})
	}
}
