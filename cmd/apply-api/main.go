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
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"
	_ "time/tzdata" // the container image has no time zone files

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/durability"
	"github.com/jajeong/jajeong/internal/handover"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/ops"
)

var version = "dev" // set by -ldflags "-X main.version=…"

// gcPercent makes garbage collection rare. The heap is small, so memory stays low. GOGC overrides gcPercent.
const gcPercent = 400

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
	program := connect.Server{
		Name: "apply-api", Version: version, Settings: &s, Log: &s.Log, Stdout: stdout, Stderr: stderr,
	}
	return program.Run(args, func(parsed *kong.Context, logger *zap.Logger) (failed bool, err error) {
		return begin(ctx, &s, parsed, logger)
	})
}

func begin(ctx context.Context, s *settings, parsed *kong.Context, logger *zap.Logger) (failed bool, err error) {
	surplus, err := s.HTTP.FitOpenFiles(parsed, s.Redis.Connections()+s.MySQL.Connections(), &s.MaxStreams, logger)
	if err != nil {
		return false, err
	}
	connect.WarnOfRisks(parsed, &s.MySQL, logger)
	connect.LogRedis(logger)
	servers, err := connect.Open(&s.MySQL, connect.Brief, &s.Redis, logger)
	if err != nil {
		return false, err
	}
	defer servers.Close()
	store, err := candidates.NewStore(servers.Redis, s.Candidates)
	if err != nil {
		return false, err
	}
	logger.Info("starting", zap.String("version", version))
	return serve(ctx, s, surplus, servers, store, logger) != nil, nil
}

func serve(ctx context.Context, s *settings, surplus int, servers *connect.Servers, store *candidates.Store,
	logger *zap.Logger) error {
	memory := handover.New(store, candidates.HandOverTime, time.Now, logger.Named("handover"))
	store.Recorder = memory
	registry := prometheus.NewRegistry()
	coupons := catalog.New(catalog.Options{DB: servers.MySQL, Store: store, Memory: memory,
		Logger: logger.Named("catalog"), Now: time.Now})
	registry.MustRegister(memory.Metrics()...)
	registry.MustRegister(coupons.Metrics()...)
	registry.MustRegister(servers.Metrics(), store.Metrics(), catalog.OpenCoupons{Catalog: coupons},
		catalog.Queues{Coupons: coupons.Coupons, Stats: store, Now: time.Now,
			Zone: func(context.Context) (*time.Location, error) { return coupons.Zone(), nil }})
	users := s.Identity.Open(logger.Named("identity"), time.Now)
	registry.MustRegister(users.Metrics()...)
	durable := &durability.Watch{DB: servers.MySQL, Logger: logger}
	registry.MustRegister(durable)
	admin := ops.New(ops.Config{Redis: store, MySQL: servers.MySQL, Durability: durable, Catalog: coupons,
		Identity: users, Registry: registry})
	server, err := httpapi.Listen(httpapi.ServerConfig{
		Ports: ports(s, surplus, users, servers, store, memory, coupons, admin, registry, logger),
		Admin: admin, AdminListen: s.AdminListen, Ready: coupons.Published,
		Idle:  ops.Idle{IsProxy: s.Identity.IsProxy, Now: time.Now},
		Delay: s.HTTP.ShutdownDelay, Logger: logger, Metrics: registry,
	})
	if err != nil {
		return err
	}
	works := []func(context.Context){coupons.Run, users.Watch, memory.Run, durable.Run}
	if s.receipts != nil {
		works = append(works, func(ctx context.Context) { s.receipts.Watch(ctx, logger) })
	}
	err = connect.Beside(ctx, server.Serve, works...)
	if lost := memory.Close(context.WithoutCancel(ctx), servers.MySQL); lost != nil {
		logger.Error("answers not handed over; if redis has lost them, too, nobody knows them", zap.Error(lost))
	}
	return err
}
