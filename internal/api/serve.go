package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/ops"
)

// Timeouts are those of the public port, where a request and its response are a few hundred bytes.
var Timeouts = ops.Timeouts{
	Header: 5 * time.Second,
	Read:   5 * time.Second,  // the same as Header, so that both share a deadline; no body is needed
	Write:  15 * time.Second, // includes reading the body, and the two seconds of an application
	Idle:   2 * time.Minute,  // longer than that of a load balancer, which must be the one to close
}

// Until the process is ready for the first time, its checks run every readyInterval and are logged every readyLogged.
const (
	readyInterval = 100 * time.Millisecond
	readyLogged   = 10 * time.Second
)

const cannotListen = "cannot listen: free the port, or set APPLY_LISTEN or APPLY_ADMIN_LISTEN to another"

// ServerConfig is what a Server serves. Every field is required.
type ServerConfig struct {
	Handler     http.Handler // of the public port
	Listen      string
	Connections int // open connections that are served
	Surplus     int // further open connections that are answered 503
	Admin       *ops.Admin
	AdminListen string
	WindowsSent func() bool   // whether Redis has the windows of the coupons
	Delay       time.Duration // from the stop signal until the public port closes: load balancers notice late
	Grace       time.Duration // from the stop signal until the end, Delay included
	Logger      *zap.Logger
	Metrics     prometheus.Registerer
}

type Server struct {
	ServerConfig
	public, operators *http.Server
	admin             net.Listener
}

// Listen opens the admin port, and checks that the public port is free. It logs failures.
func Listen(config ServerConfig) (*Server, error) {
	s := &Server{
		ServerConfig: config,
		public:       ops.NewServer(config.Handler, Timeouts, config.Logger),
		operators:    ops.NewServer(config.Admin, ops.AdminTimeouts, config.Logger),
	}
	var err error
	s.admin, err = net.Listen("tcp", config.AdminListen)
	if err == nil {
		if err = portFree(config.Listen); err != nil {
			_ = s.admin.Close()
		}
	}
	if err != nil {
		config.Logger.Error(cannotListen, zap.Error(err))
		return nil, err
	}
	config.Logger.Info("admin port open; the public port opens when this process is ready", zap.Stringer("admin", s.admin.Addr()))
	return s, nil
}

// portFree finds a conflict at the start instead of at the first readiness.
func portFree(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return listener.Close()
}

// Serve serves the admin port, and the public port from the first readiness on, until ctx ends or a port fails. Then the
// process is not ready, takes requests for Delay, and answers the requests in flight. Serve logs its errors.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, 2)
	opening, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		err := s.operators.Serve(s.admin)
		stop()
		failed <- err
	}()
	delay := s.Delay
	listener, err := s.open(opening)
	switch {
	case err == nil:
		go func() { failed <- s.public.Serve(listener) }()
	case opening.Err() != nil:
		delay = 0 // the public port was never open
	default:
		s.Logger.Error(cannotListen, zap.Error(err))
		_ = s.operators.Close()
		return err
	}
	return s.end(ctx, delay, failed)
}

// open opens the public port at the first readiness. Until then the admin port shows the reason.
func (s *Server) open(ctx context.Context) (net.Listener, error) {
	tick, report := time.NewTicker(readyInterval), time.NewTicker(readyLogged)
	defer tick.Stop()
	defer report.Stop()
	for problem := s.ready(ctx); problem != nil; problem = s.ready(ctx) {
		select {
		case <-report.C:
			s.Logger.Warn("the public port is not open yet: this process is not ready", zap.Error(problem))
		default:
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	listener, err := net.Listen("tcp", s.ServerConfig.Listen)
	if err != nil {
		return nil, err
	}
	s.Logger.Info("listening", zap.Stringer("apply", listener.Addr()), zap.Stringer("admin", s.admin.Addr()))
	connections := NewConnections(listener.(*net.TCPListener), s.Connections, s.Surplus, s.Metrics)
	s.public.ConnContext = connections.Context
	return connections, nil
}

// ready also requires the windows in Redis, which a new Redis gets from the catalog.
func (s *Server) ready(ctx context.Context) error {
	if err := s.Admin.Ready(ctx); err != nil {
		return err
	}
	if !s.WindowsSent() {
		return errors.New("catalog: no window has been sent to Redis yet")
	}
	return nil
}

func (s *Server) end(ctx context.Context, delay time.Duration, failed <-chan error) (err error) {
	select {
	case <-ctx.Done():
		s.Logger.Info("shutting down", zap.Duration("delay", delay), zap.Duration("grace", s.Grace))
		s.Admin.Drain()
		select {
		case <-time.After(delay):
		case err = <-failed:
		}
	case err = <-failed:
		s.Admin.Drain()
	}
	if err != nil {
		s.Logger.Error("server failed", zap.Error(err))
	}
	answering, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Grace-delay)
	defer cancel()
	if late := s.public.Shutdown(answering); late != nil {
		s.Logger.Error("some requests were not answered within the grace", zap.Error(late))
		_ = s.public.Close()
		err = late
	}
	_ = s.operators.Close()
	return err
}
