// Command apply-api takes applications for coupons over HTTP. It also starts while MySQL or Redis is away: the public
// port opens once the process is ready. From then on, it answers 503 while Redis is away.
//
// After SIGTERM, it reports "not ready", but takes requests for SHUTDOWN_DELAY, since load balancers notice late. Then
// it closes the public port, answers the requests in flight and exits with 0.
//
// Exit codes: 0: ended by a signal; 1: a port failed, or requests were left unanswered; 2: wrong settings.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"
	_ "time/tzdata" // the container image has no time zone files

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/missing"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/recall"
	"github.com/jajeong/jajeong/internal/text"
)

var version = "dev" // set by -ldflags "-X main.version=…"

// gcPercent makes garbage collection rare. The heap is small, so memory stays low. GOGC overrides gcPercent.
const gcPercent = 400

const (
	exitEnded    = 0
	exitFailed   = 1
	exitSettings = 2
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills the process
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var s settings
	language := text.LanguageOf(nil, os.Getenv)
	refuse := func(err error) int { // prints each wrong setting on a line of its own
		for line := range strings.Lines(text.In(language, err)) {
			fmt.Fprintln(stderr, "apply-api:", strings.TrimSpace(line))
		}
		return exitSettings
	}
	parsed, err := connect.Parse(&s, connect.Program{Name: "apply-api", Language: language},
		args, stdout, stderr, kong.Vars{"version": version})
	if errors.Is(err, connect.ErrHelp) {
		return exitEnded
	}
	if err != nil {
		return refuse(err)
	}
	logger := s.Log.Logger(stderr)
	defer func() { _ = logger.Sync() }()
	surplus, err := s.HTTP.FitOpenFiles(parsed, s.Redis.Connections()+s.MySQL.Connections(), &s.MaxStreams, logger)
	if err != nil {
		return refuse(err)
	}
	connect.WarnOfRisks(parsed, &s.MySQL, logger)
	connect.LogRedis(logger)
	servers, err := connect.Open(&s.MySQL, connect.Brief, &s.Redis, logger)
	if err != nil {
		return refuse(err)
	}
	defer servers.Close()
	store, err := candidates.NewStore(servers.Redis, s.Candidates)
	if err != nil {
		return refuse(err)
	}
	logger.Info("starting", zap.String("version", version))
	return serve(ctx, &s, surplus, servers, store, logger)
}

func serve(ctx context.Context, s *settings, surplus int, servers *connect.Servers, store *candidates.Store, logger *zap.Logger) int {
	memory := recall.New(store)
	memory.OnPutBack = func(p recall.PutBack) { logPutBack(logger, p) }
	registry := prometheus.NewRegistry()
	losses := missing.New(missing.Options{DB: servers.MySQL, Store: store, Memory: memory, Logger: logger.Named("missing"), Now: time.Now})
	coupons := catalog.New(catalog.Options{DB: servers.MySQL, Store: store, Memory: memory, Missing: losses, Logger: logger.Named("catalog"), Now: time.Now})
	registry.MustRegister(memory.Metrics()...)
	registry.MustRegister(servers.Metrics(), store.Metrics(), coupons.Metrics(), losses,
		catalog.OpenCoupons{Catalog: coupons}, catalog.Queues{Coupons: coupons.Coupons, Stats: store, Now: time.Now,
			Zone: func(context.Context) (*time.Location, error) { return coupons.Zone(), nil }})
	users := s.Identity.Open(logger.Named("identity"), time.Now)
	registry.MustRegister(users.Metrics()...)
	admin := ops.New(ops.Config{Redis: store, MySQL: servers.MySQL, Catalog: coupons, Identity: users, Registry: registry})
	server, err := httpapi.Listen(httpapi.ServerConfig{
		Ports: ports(s, surplus, users, servers, store, coupons, losses, admin, registry, logger),
		Admin: admin, AdminListen: s.AdminListen, Ready: coupons.Published,
		Idle:  ops.Idle{IsProxy: s.Identity.IsProxy, Now: time.Now},
		Delay: s.HTTP.ShutdownDelay, Logger: logger, Metrics: registry,
	})
	if err != nil {
		return exitFailed
	}
	var refreshing sync.WaitGroup
	defer refreshing.Wait()
	refresh, stop := context.WithCancel(context.WithoutCancel(ctx)) // refresh until the last request is answered
	defer stop()
	refreshing.Go(func() { coupons.Run(refresh) })
	refreshing.Go(func() { users.Watch(refresh) })
	if s.receipts != nil {
		refreshing.Go(func() { s.receipts.Watch(refresh, logger) })
	}
	if server.Serve(ctx) != nil {
		return exitFailed
	}
	return exitEnded
}

func logPutBack(logger *zap.Logger, p recall.PutBack) {
	message := "applications put back after a failover of redis"
	if p.Err != nil {
		message = "applications not put back after a failover of redis; the next refresh tries again"
	}
	logger.Warn(message, zap.Uint64("coupon_id", uint64(p.Coupon)), zap.Int("remembered", p.Compared), zap.Int("put_back", p.Back),
		zap.Int("moved", p.Moved), zap.Error(p.Err))
}
