package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/ops"
)

// A client that still sends its request reads the response, and then the end of the connection. A reset could take the
// response from it.
func TestListeners_EndAnUnreadRequestWithoutAReset(t *testing.T) {
	t.Parallel()
	never := func(netip.Addr) bool { return false }
	idle := ops.Idle{IsProxy: never, Now: time.Now}
	for name, wrap := range map[string]func(net.Listener) net.Listener{
		"apply": func(l net.Listener) net.Listener {
			return NewConnections(idle.Listen(l), 1, 0, prometheus.NewRegistry())
		},
		"live":    func(l net.Listener) net.Listener { return ops.Limit(idle.Listen(l), 1, new(atomic.Int64)) },
		"console": func(l net.Listener) net.Listener { return idle.Listen(ops.Limit(l, 1, new(atomic.Int64))) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			refuse := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) }
			server := ops.NewServer(http.HandlerFunc(refuse), ops.Timeouts{Header: time.Minute, Read: time.Minute,
				Write: time.Minute, Idle: time.Minute}, zap.NewNop())
			t.Cleanup(func() { _ = server.Close() })
			go func() { _ = server.Serve(wrap(listener)) }()
			client, err := net.Dial("tcp", listener.Addr().String())
			require.NoError(t, err)
			defer client.Close()
			const sent = 64 << 10 // more than the server has read
			_, err = fmt.Fprintf(client, "POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: %d\r\n\r\n%s", 16*sent,
				strings.Repeat("x", sent))
			require.NoError(t, err)
			in := bufio.NewReader(client)
			response, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode)
			_, err = in.ReadByte()
			require.ErrorIs(t, err, io.EOF)
		})
	}
}

// A request that is not answered in time is cut off, and told to the caller, whose exit code is then 1.
func TestServer_CutsOffWhatIsNotAnsweredInTime(t *testing.T) {
	t.Parallel()
	asked, end := make(chan struct{}), make(chan struct{})
	public := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-end
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = public.Serve(listener) }()
	answer := make(chan error, 1)
	go func() {
		response, err := http.Get("http://" + listener.Addr().String())
		if err == nil {
			err = response.Body.Close()
		}
		answer <- err
	}()
	<-asked
	s := &Server{ServerConfig: ServerConfig{Ports: []Port{{Name: "apply"}}}, public: []*http.Server{public}}
	require.ErrorIs(t, s.answerTheRest(t.Context(), time.Millisecond), context.DeadlineExceeded)
	close(end)
	require.Error(t, <-answer, "cut off")
}
