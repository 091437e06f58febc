package httpapi

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
