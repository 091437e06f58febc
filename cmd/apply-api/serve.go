package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/catalog"
)

const cannotListen = "cannot listen: free the port, or set APPLY_LISTEN or APPLY_ADMIN_LISTEN to another"

// adminOpen is logged with the address as the process starts; "listening", with both, when the public port is open.
const adminOpen = "admin port open; the public one opens once this process can serve"

// Until a process that starts can serve, it looks so often whether it can, and says so often why not.
const (
	readyEvery = 100 * time.Millisecond
	saidEvery  = 10 * time.Second
)

// free is an error when somebody has the port: that shows as the process starts, and not when it is ready to listen.
func free(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return listener.Close()
}

// awaitReady returns when the process can serve for the first time, or ctx has ended. However long Redis or MySQL are away,
// it goes on waiting: the admin port tells why, and a restart would not help.
func awaitReady(ctx context.Context, ready func(context.Context) error, logger *zap.Logger) error {
	tick, say := time.NewTicker(readyEvery), time.NewTicker(saidEvery)
	defer tick.Stop()
	defer say.Stop()
	for {
		why := ready(ctx)
		if why == nil {
			return nil
		}
		select {
		case <-say.C:
			logger.Warn("not listening yet: this process cannot serve", zap.Error(why))
		default:
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ready is nil when applicants can be answered: the process is ready, and the doors know their windows. A Redis that has just
// come up knows none until the catalog has told them.
func ready(ctx context.Context, admin *api.Admin, coupons *catalog.Catalog) error {
	if err := admin.Ready(ctx); err != nil {
		return err
	}
	if !coupons.Told() {
		return errors.New("catalog: no door has been told its window yet")
	}
	return nil
}

// serve runs the operators' site at once and the applicants' when it has been opened, until ctx ends or one of them fails.
// The operators' ends last, to say until then that the process is not ready.
func serve(ctx context.Context, applying *http.Server, open func(context.Context) (net.Listener, error), operating site, end ending, logger *zap.Logger) int {
	failed := make(chan error, 2)
	opening, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		err := operating.Serve(operating.listener)
		stop()
		failed <- err
	}()
	listener, err := open(opening)
	switch {
	case err == nil:
		go func() { failed <- applying.Serve(listener) }()
	case opening.Err() == nil:
		logger.Error(cannotListen, zap.Error(err))
		_ = operating.Close()
		return exitFailed
	default:
		end.delay = 0 // nobody sends requests to a port that is not open
	}
	return untilEnd(ctx, applying, operating, failed, end, logger)
}

// untilEnd ends both sites in the order that ending tells.
func untilEnd(ctx context.Context, applying *http.Server, operating site, failed <-chan error, end ending, logger *zap.Logger) int {
	code := exitEnded
	var err error
	select {
	case <-ctx.Done():
		logger.Info("shutting down", zap.Duration("delay", end.delay), zap.Duration("grace", end.grace))
		end.drain()
		select {
		case <-time.After(end.delay):
		case err = <-failed:
		}
	case err = <-failed:
		end.drain()
	}
	if err != nil {
		logger.Error("server failed", zap.Error(err))
		code = exitFailed
	}
	answering, cancel := context.WithTimeout(context.WithoutCancel(ctx), end.grace-end.delay)
	defer cancel()
	if err := applying.Shutdown(answering); err != nil {
		logger.Error("some requests were not answered within the grace", zap.Error(err))
		_ = applying.Close()
		code = exitFailed
	}
	_ = operating.Close()
	return code
}
