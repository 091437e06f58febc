package ops

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
)

// Timeouts bound one connection.
type Timeouts struct {
	Header time.Duration // reading a request up to its body
	Read   time.Duration // reading all of a request
	Write  time.Duration // from the end of the header until the response is written
	Idle   time.Duration // waiting for the next request
}

var AdminTimeouts = Timeouts{
	Header: 5 * time.Second,
	Read:   5 * time.Second,
	Write:  2 * time.Minute, // a profile takes 30 seconds, or longer on request
	Idle:   2 * time.Minute,
}

// maxHeaderBytes leaves space for the cookies and tracing headers of a gateway.
const maxHeaderBytes = 16 << 10

func NewServer(handler http.Handler, within Timeouts, logger *zap.Logger) *http.Server {
	errorLog, _ := zap.NewStdLogAt(logger.Named("http"), zap.WarnLevel) // the only error is an unknown level
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: within.Header,
		ReadTimeout:       within.Read,
		WriteTimeout:      within.Write,
		IdleTimeout:       within.Idle,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          errorLog,

		DisableGeneralOptionsHandler: true, // the handler also answers "OPTIONS *"
	}
}

// Serve serves the admin port until stop is called. The process is not ready once ctx has ended.
func (a *Admin) Serve(ctx context.Context, address string, logger *zap.Logger) (stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on the admin port: %w", err)
	}
	context.AfterFunc(ctx, a.Drain)
	server := NewServer(a, AdminTimeouts, logger)
	logger.Info("listening", zap.Stringer("admin", listener.Addr()))
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("admin port failed; the process continues without it", zap.Error(err))
		}
	}()
	return func() { _ = server.Close(); <-served }, nil
}
