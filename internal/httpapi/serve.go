package httpapi

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/ops"
)

// Timeouts are the timeouts of the public port. A request and its response have a few hundred bytes.
var Timeouts = ops.Timeouts{
	Header: 5 * time.Second,
	Read:   5 * time.Second,  // equal to Header, so that one deadline serves both; bodies are small
	Write:  15 * time.Second, // includes reading the body, and waiting for Redis or MySQL
	Idle:   2 * time.Minute,  // longer than a load balancer's, so that the load balancer closes the connection
}

// Before the process is ready, its checks run every readyInterval, and a failure is logged every readyLogged.
const (
	readyInterval = 100 * time.Millisecond
	readyLogged   = 10 * time.Second
)

const cannotListen = "cannot listen: free the port, or set another address"

// ServerConfig configures a Server. Every field but Ready is required.
type ServerConfig struct {
	Name        string       // such as apply, for APPLY_LISTEN and APPLY_ADMIN_LISTEN
	Handler     http.Handler // handler of the public port
	Listen      string
	Connections int // maximum of open connections that are served
	Surplus     int // maximum of further open connections, which get 503
	Admin       *ops.Admin
	AdminListen string
	Ready       func() error  // what else must be before the public port opens; nil: nothing
	Delay       time.Duration // from the stop signal until the public port closes, since load balancers notice late
	Grace       time.Duration // from the stop signal until the process ends; includes Delay
	Logger      *zap.Logger
	Metrics     prometheus.Registerer
}

type Server struct {
	ServerConfig
	public, operators *http.Server
	admin             net.Listener
}

// Listen opens the admin port, and checks that the public port is free. It logs its errors.
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
		config.Logger.Error(cannotListen, s.settings(), zap.Error(err))
		return nil, err
	}
	config.Logger.Info("admin port open; the public port opens when this process is ready", zap.Stringer("admin", s.admin.Addr()))
	return s, nil
}

func (s *Server) settings() zap.Field {
	prefix := strings.ToUpper(s.Name)
	return zap.Strings("settings", []string{prefix + "_LISTEN", prefix + "_ADMIN_LISTEN"})
}

// portFree returns an error if the address is in use: a conflict shows at the start, not when the process is ready.
func portFree(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return listener.Close()
}

// Serve serves the admin port and, once the process is ready, the public port. After ctx ends, the process reports "not
// ready", takes requests for Delay, and answers those in flight. A failed port also ends Serve. Errors are logged.
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
		s.Logger.Error(cannotListen, s.settings(), zap.Error(err))
		_ = s.operators.Close()
		return err
	}
	return s.end(ctx, delay, failed)
}

// open waits until the process is ready, and opens the public port. Until then, the log says what is missing.
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
	s.Logger.Info("listening", zap.Stringer(s.Name, listener.Addr()), zap.Stringer("admin", s.admin.Addr()))
	connections := NewConnections(listener.(*net.TCPListener), s.Connections, s.Surplus, s.Metrics)
	s.public.ConnContext = connections.Context
	return connections, nil
}

// ready may require more than /readyz.
func (s *Server) ready(ctx context.Context) error {
	if err := s.Admin.Ready(ctx); err != nil || s.Ready == nil {
		return err
	}
	return s.Ready()
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
