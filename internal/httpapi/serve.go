package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/ops"
)

// Timeouts are the timeouts of the public ports except those of ops.Idle. A request and its response have a few hundred
// bytes. A stream leaves them behind when it takes its connection: each of its writes has a deadline of its own.
var Timeouts = ops.Timeouts{
	Header: 5 * time.Second,
	Read:   5 * time.Second,  // equal to Header, so that one deadline serves both; bodies are small
	Write:  15 * time.Second, // includes reading the body, and waiting for Redis or MySQL
}

// Before the process is ready, its checks run every readyInterval, and a failure is logged every readyLogged.
const (
	readyInterval = 100 * time.Millisecond
	readyLogged   = 10 * time.Second
)

const cannotListen = "cannot listen: free the port, or set another address"

// Port is a public port.
type Port struct {
	Name        string // such as apply, for APPLY_LISTEN
	Handler     http.Handler
	Listen      string
	Connections int // maximum of open connections that are served
	// Maximum of further open connections. They get 503, except on a port with streams.
	Surplus int
	// Ends the streams over some time, when the port closes; nil: the port has no streams.
	EndStreams func(over time.Duration)
}

// ServerConfig configures a Server. Every field but Ready is required.
type ServerConfig struct {
	Ports       []Port // the first one gives its name to the admin port
	Admin       *ops.Admin
	AdminListen string
	Idle        ops.Idle
	Ready       func() error  // what else must be before the public ports open; nil: nothing
	Delay       time.Duration // from the stop signal to the closing of public ports, since load balancers notice late
	Logger      *zap.Logger
	Metrics     prometheus.Registerer
}

// answerWithin is how long the process takes after Delay to answer the requests in flight and to end the streams:
// longer than Timeouts.Write, so that no request is cut off. With the usual Delay of 5 s, it fits the 30 s after
// which Kubernetes kills a container unless told otherwise.
const answerWithin = 20 * time.Second

// streamsShare is the part of answerWithin over which streams end; the rest is for the last ones to be closed.
const streamsShare = 0.8

type Server struct {
	ServerConfig
	public    []*http.Server // one for each of Ports, in their order
	streams   atomic.Int64   // open connections of the port with streams
	operators *http.Server
	admin     net.Listener
}

// Listen opens the admin port, and checks that the public ports are free. It logs its errors.
func Listen(config ServerConfig) (*Server, error) {
	s := &Server{ServerConfig: config, operators: ops.NewServer(config.Admin, ops.AdminTimeouts, config.Logger)}
	for _, p := range config.Ports {
		s.public = append(s.public, ops.NewServer(p.Handler, config.Idle.Within(Timeouts), config.Logger))
	}
	var err error
	if s.admin, err = ops.ListenAdmin(config.AdminListen, config.Logger); err == nil {
		if err = s.portsFree(); err != nil {
			_ = s.admin.Close()
		}
	}
	if err != nil {
		config.Logger.Error(cannotListen, s.settings(), zap.Error(err))
		return nil, err
	}
	config.Logger.Info("admin port open; the public ports open when this process is ready",
		zap.Stringer("admin", s.admin.Addr()))
	return s, nil
}

func (s *Server) settings() zap.Field {
	names := []string{"ADMIN_LISTEN"}
	for _, p := range s.Ports {
		names = append(names, strings.ToUpper(p.Name)+"_LISTEN")
	}
	return zap.Strings("settings", names)
}

func (s *Server) portsFree() (err error) {
	for _, p := range s.Ports {
		err = errors.Join(err, portFree(p.Listen))
	}
	return err
}

// portFree returns an error if the address is in use: a conflict shows at the start, not when the process is ready.
func portFree(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return listener.Close()
}

// Serve serves the admin port and, once the process is ready, the public ports. After ctx ends, the process reports
// "not ready", takes requests for Delay, answers those in flight, and ends the streams. A failed port also ends Serve.
// Errors are logged.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, 1+len(s.public))
	opening, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		err := s.operators.Serve(s.admin)
		stop()
		failed <- err
	}()
	delay := s.Delay
	listeners, err := s.open(opening)
	switch {
	case err == nil:
		for i, listener := range listeners {
			go func() { failed <- s.public[i].Serve(listener) }()
		}
	case opening.Err() != nil:
		delay = 0 // the public ports were never open
	default:
		s.Logger.Error(cannotListen, s.settings(), zap.Error(err))
		_ = s.operators.Close()
		return err
	}
	return s.end(ctx, delay, failed)
}

// open waits until the process is ready, and opens the public ports. Until then, the log says what is missing.
func (s *Server) open(ctx context.Context) ([]net.Listener, error) {
	tick, report := time.NewTicker(readyInterval), time.NewTicker(readyLogged)
	defer tick.Stop()
	defer report.Stop()
	for problem := s.ready(ctx); problem != nil; problem = s.ready(ctx) {
		select {
		case <-report.C:
			s.Logger.Warn("the public ports are not open yet: this process is not ready", zap.Error(problem))
		default:
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	var listeners []net.Listener
	addresses := []zap.Field{zap.Stringer("admin", s.admin.Addr())}
	for i, p := range s.Ports {
		listener, err := net.Listen("tcp", p.Listen)
		if err != nil {
			for _, open := range listeners {
				_ = open.Close()
			}
			return nil, err
		}
		addresses = append(addresses, zap.Stringer(p.Name, listener.Addr()))
		listener = s.Idle.Listen(listener)
		if p.EndStreams != nil {
			listeners = append(listeners, ops.Limit(listener, int64(p.Connections+p.Surplus), &s.streams))
			continue
		}
		connections := NewConnections(listener, p.Connections, p.Surplus, s.Metrics)
		s.public[i].ConnContext = connections.Context
		listeners = append(listeners, connections)
	}
	s.Logger.Info("listening", addresses...)
	return listeners, nil
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
		s.Logger.Info("shutting down", zap.Duration("delay", delay), zap.Duration("answer_within", answerWithin))
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
	if late := s.answerTheRest(context.WithoutCancel(ctx), answerWithin); late != nil {
		s.Logger.Error("some requests were not answered in time", zap.Error(late))
		err = late
	}
	_ = s.operators.Close()
	return err
}

// answerTheRest closes the public ports, and waits until every request is answered and every stream has ended.
func (s *Server) answerTheRest(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var closing errgroup.Group
	for i, p := range s.Ports {
		if p.EndStreams != nil {
			p.EndStreams(time.Duration(streamsShare * float64(within)))
		}
		closing.Go(func() error {
			late := s.public[i].Shutdown(ctx)
			if p.EndStreams != nil && late == nil {
				late = s.awaitStreams(ctx)
			}
			if late != nil {
				_ = s.public[i].Close()
			}
			return late
		})
	}
	return closing.Wait()
}

// awaitStreams returns when every stream has closed its connection, which net/http no longer knows.
func (s *Server) awaitStreams(ctx context.Context) error {
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	for s.streams.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
