// Command wallet-api shows users their coupons, and lets the checkout of a shop reserve, use and give back coupons,
// over HTTP. It needs MySQL alone. It also starts while MySQL is away: the public port opens once the process is ready.
// From then on, it answers 503 while MySQL is away.
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
	"syscall"
	"time"
	_ "time/tzdata" // the container image has no time zone files

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/deployment"
	"github.com/jajeong/jajeong/internal/durability"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/wallet"
	"github.com/jajeong/jajeong/internal/walletapi"
)

var version = "dev" // set by -ldflags "-X main.version=…"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills the process
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var s settings
	program := connect.Server{
		Name: "wallet-api", Version: version, Settings: &s, Log: &s.Log, Stdout: stdout, Stderr: stderr,
	}
	return program.Run(args, func(parsed *kong.Context, logger *zap.Logger) (failed bool, err error) {
		return begin(ctx, &s, parsed, logger)
	})
}

func begin(ctx context.Context, s *settings, parsed *kong.Context, logger *zap.Logger) (failed bool, err error) {
	surplus, err := s.HTTP.FitOpenFiles(parsed, s.MySQL.Connections(), nil, logger)
	if err != nil {
		return false, err
	}
	connect.WarnOfRisks(parsed, &s.MySQL, logger)
	pool, err := s.MySQL.Open(connect.Brief, logger)
	if err != nil {
		return false, err
	}
	defer pool.Close()
	logger.Info("starting", zap.String("version", version))
	return serve(ctx, s, surplus, &connect.Servers{MySQL: pool}, logger) != nil, nil
}

func serve(ctx context.Context, s *settings, surplus int, servers *connect.Servers, logger *zap.Logger) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(servers.Metrics())
	users := s.Identity.Open(logger.Named("identity"), time.Now)
	registry.MustRegister(users.Metrics()...)
	durable := &durability.Watch{DB: servers.MySQL, Logger: logger}
	registry.MustRegister(durable)
	admin := ops.New(ops.Config{MySQL: &connect.WalletDatabase{DB: servers.MySQL}, Durability: durable, Identity: users,
		Registry: registry})
	store := wallet.NewStore(servers.MySQL)
	public := walletapi.New(walletapi.Options{
		Identity: users, Redeem: store.Redeem, List: store.List, Connections: s.MySQL.Connections(),
		Keys: s.keys, ReserveTTL: s.ReserveTTL, Zone: (&deployment.Zone{DB: servers.MySQL, Now: time.Now}).Get,
		InFlight: maxInFlight, UserRate: s.HTTP.UserRate, Origins: s.HTTP.CORSOrigins,
		Draining: admin.Draining, Logger: logger.Named("api"), Metrics: registry, Now: time.Now,
	})
	server, err := httpapi.Listen(httpapi.ServerConfig{
		Ports: []httpapi.Port{{Name: "wallet", Handler: public, Listen: s.Listen, Connections: s.HTTP.MaxConnections,
			Surplus: surplus}},
		Admin: admin, AdminListen: s.AdminListen, Idle: ops.Idle{IsProxy: s.Identity.IsProxy, Now: time.Now},
		Delay: s.HTTP.ShutdownDelay, Logger: logger, Metrics: registry,
	})
	if err != nil {
		return err
	}
	watchKeys := func(ctx context.Context) { s.keys.Watch(ctx, logger) }
	return connect.Beside(ctx, server.Serve, watchKeys, users.Watch, durable.Run)
}
