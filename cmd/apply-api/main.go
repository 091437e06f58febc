// Command apply-api takes applications for coupons over HTTP. It starts while MySQL or Redis are away, with the admin port
// open and not ready; the public port opens once it can serve. From then on it serves whatever goes away: not ready,
// answering 503, and well again without a restart.
//
// On SIGTERM it stops being ready at once, goes on taking requests for a while, since whoever sends them hears of that
// later, then takes no more connections, answers what is in flight and exits with 0.
//
// Exit codes: 0 ended as told; 1 a port could not be opened, or the end took longer than its grace; 2 wrong settings.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"
	_ "time/tzdata" // the image has no zones

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/history"
)

var version = "dev" // set by -ldflags "-X main.version=…"

// What is alive is small and what a request leaves behind is soon gone: the collector may run seldom. GOGC in the
// environment goes before.
const gcPercent = 400

const (
	exitEnded    = 0
	exitFailed   = 1
	exitSettings = 2
)

// timeouts of one connection.
type timeouts struct {
	header time.Duration // reading a request up to its body
	read   time.Duration // reading all of it
	write  time.Duration // from the end of the header until the answer is written
	idle   time.Duration // waiting for the next request
}

// An application is a few hundred bytes each way; what takes longer is not an applicant.
var (
	forApplicants = timeouts{
		header: 5 * time.Second,
		read:   5 * time.Second,  // as long, so that both share a deadline; nobody needs a body
		write:  15 * time.Second, // reading the body included, and the two seconds of an application
		idle:   2 * time.Minute,  // longer than a load balancer's, which must be the one to close
	}
	forOperators = timeouts{
		header: forApplicants.header,
		read:   forApplicants.read,
		write:  2 * time.Minute, // a profile of 30 seconds, and longer ones on request
		idle:   forApplicants.idle,
	}
)

const maxHeaderBytes = 16 << 10 // cookies and tracing of a gateway; Go's default is 1 MiB

// Between what settings may be: a slip of the hand should not switch a limit off.
const (
	leastUserRate   = 0.001
	mostUserRate    = 1_000_000
	mostConnections = 1_000_000
)

type settings struct {
	MySQL      connect.MySQLSettings `embed:""`
	Redis      connect.RedisSettings `embed:""`
	Log        connect.LogSettings   `embed:""`
	Candidates candidates.Options    `embed:""`

	Listen         string           `name:"apply-listen" env:"APPLY_LISTEN" default:":8080" placeholder:"HOST:PORT" help:"The public API. Default ${default}."`
	AdminListen    string           `name:"apply-admin-listen" env:"APPLY_ADMIN_LISTEN" default:":9090" placeholder:"HOST:PORT" help:"Liveness, readiness, metrics and profiles; never public. Default ${default}."`
	TimeZone       string           `name:"settle-time-zone" env:"SETTLE_TIME_ZONE" default:"Asia/Seoul" placeholder:"ZONE" help:"Whose midnight settles. Default ${default}."`
	UserRate       float64          `name:"user-rate" env:"USER_RATE" default:"5" placeholder:"N" help:"Requests of one user in a second that this process takes, twice as many at once and at least one; 0: any number. Default ${default}."`
	MaxInFlight    int              `name:"max-in-flight" env:"MAX_IN_FLIGHT" default:"4096" placeholder:"N" help:"Applications that wait for Redis at once, in a Cluster for each shard; more are refused. Default ${default}."`
	MaxConnections int              `name:"max-connections" env:"MAX_CONNECTIONS" default:"16384" placeholder:"N" help:"Connections that are open at once; on more, requests are refused. Default ${default}, or what the limit of open files leaves."`
	ShutdownDelay  time.Duration    `name:"shutdown-delay" env:"SHUTDOWN_DELAY" default:"5s" placeholder:"DURATION" help:"How long the process still takes requests when it is told to end and no longer ready, since load balancers hear of that later. Default ${default}."`
	ShutdownGrace  time.Duration    `name:"shutdown-grace" env:"SHUTDOWN_GRACE" default:"25s" placeholder:"DURATION" help:"How long all of the end may take, the delay included. Default ${default}."`
	Version        kong.VersionFlag `name:"version" help:"Print the version and exit."`
}

// Check tells what is impossible about the settings.
func (s *settings) Check() (problems []error) {
	problems = append(connect.CheckListen("APPLY_LISTEN", s.Listen), connect.CheckListen("APPLY_ADMIN_LISTEN", s.AdminListen)...)
	if _, err := s.zone(); err != nil {
		problems = append(problems, err)
	}
	if s.ShutdownGrace <= 0 {
		problems = append(problems, fmt.Errorf("SHUTDOWN_GRACE is %s: want a duration above zero such as 25s", s.ShutdownGrace))
	}
	if s.ShutdownDelay < 0 || s.ShutdownDelay >= s.ShutdownGrace && s.ShutdownGrace > 0 {
		problems = append(problems, fmt.Errorf("SHUTDOWN_DELAY is %s: want at least 0s and less than SHUTDOWN_GRACE, %s, such as 5s", s.ShutdownDelay, s.ShutdownGrace))
	}
	if s.UserRate != 0 && !(s.UserRate >= leastUserRate && s.UserRate <= mostUserRate) {
		problems = append(problems, fmt.Errorf("USER_RATE is %v: want %v to %d requests a second, or 0 for any number", s.UserRate, leastUserRate, mostUserRate))
	}
	if s.MaxInFlight < 1 || s.MaxInFlight > mostConnections {
		problems = append(problems, fmt.Errorf("MAX_IN_FLIGHT is %d: want 1 to %d", s.MaxInFlight, mostConnections))
	}
	if s.MaxConnections < 1 || s.MaxConnections > mostConnections {
		problems = append(problems, fmt.Errorf("MAX_CONNECTIONS is %d: want 1 to %d", s.MaxConnections, mostConnections))
	}
	return problems
}

func (s *settings) zone() (*time.Location, error) {
	zone, err := time.LoadLocation(s.TimeZone)
	if err != nil || s.TimeZone == "" || s.TimeZone == "Local" {
		return nil, fmt.Errorf("SETTLE_TIME_ZONE is %q: want a zone of the IANA database such as Asia/Seoul", s.TimeZone)
	}
	return zone, nil
}

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var s settings
	parsed, err := connect.Parse(&s, "apply-api", "Takes applications for first-come-first-served coupons.", args, stdout, stderr,
		[]string{"APPLY_", "SETTLE_"}, kong.Vars{"version": version})
	switch {
	case errors.Is(err, connect.ErrHelp):
		return exitEnded
	case err != nil:
		return refuse(stderr, err)
	}
	zone, err := s.zone()
	if err != nil {
		return refuse(stderr, err)
	}
	logger := s.Log.Logger(stderr)
	more, err := s.fitConnections(given(parsed), logger)
	if err != nil {
		return refuse(stderr, err)
	}
	connect.LogRedis(logger)
	defer func() { _ = logger.Sync() }()
	servers, err := connect.Open(&s.MySQL, &s.Redis, logger)
	if err != nil {
		return refuse(stderr, err)
	}
	defer servers.Close()
	store, err := candidates.NewStore(servers.Redis, s.Candidates)
	if err != nil {
		return refuse(stderr, err)
	}

	store.OnPutBack = func(p candidates.PutBack) {
		fields := []zap.Field{zap.Uint64("coupon_id", p.Coupon), zap.Int("remembered", p.Compared), zap.Int("put_back", p.Back), zap.Int("moved", p.Moved), zap.Error(p.Err)}
		if p.Err != nil {
			logger.Warn("people could not be put back after another redis server took over, and are tried again", fields...)
			return
		}
		logger.Warn("people put back after another redis server took over", fields...)
	}
	registry := prometheus.NewRegistry()
	coupons := catalog.New(catalog.Options{DB: servers.MySQL, Store: store, Logger: logger.Named("catalog"), Now: time.Now})
	settlesAt := func(arrival time.Time) time.Time { return calendar.NextCutoff(arrival, zone) }
	registry.MustRegister(servers.Metrics(), store.Metrics(), store.PutBackMetrics(), coupons.Metrics(),
		catalog.Queues{Coupons: coupons.Coupons, Heads: store, SettlesAt: settlesAt, Now: time.Now})
	admin := api.NewAdmin(api.AdminOptions{Redis: store, MySQL: servers.MySQL, Catalog: coupons, Registry: registry})
	public := api.New(api.Options{
		Applier:   candidates.NewBatcher(store, registry, time.Now),
		Standings: store,
		History:   history.Reader{DB: servers.MySQL},
		Coupons:   coupons,
		Shard:     store.Shard,
		SettlesAt: settlesAt,
		Zone:      zone,
		Limits:    api.Limits{InFlight: s.MaxInFlight, UserRate: s.UserRate},
		Draining:  admin.Draining,
		Logger:    logger.Named("api"),
		Metrics:   registry,
		Now:       time.Now,
	})

	adminListener, err := net.Listen("tcp", s.AdminListen)
	if err := errors.Join(err, free(s.Listen)); err != nil {
		logger.Error(cannotListen, zap.Error(err))
		return exitFailed // the process ends, and with it a listener that was opened
	}
	logger.Info(adminOpen, zap.String("version", version), zap.Stringer("admin", adminListener.Addr()))

	var refreshing sync.WaitGroup
	defer refreshing.Wait()
	serving, served := context.WithCancel(context.WithoutCancel(ctx)) // doors go on being told until the last request is answered
	defer served()
	refreshing.Go(func() { coupons.Run(serving) })

	applying := newServer(public, forApplicants, logger)
	operating := site{newServer(admin, forOperators, logger), adminListener}
	open := func(ctx context.Context) (net.Listener, error) {
		if err := awaitReady(ctx, func(ctx context.Context) error { return ready(ctx, admin, coupons) }, logger); err != nil {
			return nil, err
		}
		listener, err := net.Listen("tcp", s.Listen)
		if err != nil {
			return nil, err
		}
		logger.Info("listening", zap.String("version", version),
			zap.Stringer("apply", listener.Addr()), zap.Stringer("admin", adminListener.Addr()))
		connections := api.NewConnections(listener.(*net.TCPListener), s.MaxConnections, more, registry)
		applying.ConnContext = connections.Context
		return connections, nil
	}
	return serve(ctx, applying, open, operating, ending{admin.Drain, s.ShutdownDelay, s.ShutdownGrace}, logger)
}

// refuse prints every wrong setting on a line of its own.
func refuse(stderr io.Writer, err error) int {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(stderr, "apply-api:", strings.TrimSpace(line))
	}
	return exitSettings
}

func newServer(handler http.Handler, within timeouts, logger *zap.Logger) *http.Server {
	errorLog, _ := zap.NewStdLogAt(logger.Named("http"), zap.WarnLevel) // only an unknown level is an error
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: within.header,
		ReadTimeout:       within.read,
		WriteTimeout:      within.write,
		IdleTimeout:       within.idle,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          errorLog,

		DisableGeneralOptionsHandler: true, // "OPTIONS *" is no address of ours either
	}
}

// site is a server at its address.
type site struct {
	*http.Server
	listener net.Listener
}

// ending is how the process ends: it says that it is not ready, goes on taking requests for a while, since whoever sends them
// hears of that later, and answers what is in flight.
type ending struct {
	drain        func()
	delay, grace time.Duration
}
