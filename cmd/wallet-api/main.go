// Command wallet-api shows users their coupons, and lets the checkout of a shop reserve, use and give back coupons, over HTTP.
// It needs MySQL alone. It also starts while MySQL is away: the public port opens once the process is ready. From then on, it
// answers 503 while MySQL is away.
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
	"strings"
	"sync"
	"syscall"
	"time"
	_ "time/tzdata" // the container image has no time zone files

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/deployment"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/wallet"
	"github.com/jajeong/jajeong/internal/walletapi"
)

var version = "dev" // set by -ldflags "-X main.version=…"

const (
	exitEnded    = 0
	exitFailed   = 1
	exitSettings = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills the process
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var s settings
	language := text.LanguageOf(nil, os.Getenv)
	refuse := func(err error) int { // prints each wrong setting on a line of its own
		for line := range strings.Lines(text.In(language, err)) {
			fmt.Fprintln(stderr, "wallet-api:", strings.TrimSpace(line))
		}
		return exitSettings
	}
	parsed, err := connect.Parse(&s, connect.Program{Name: "wallet-api", Language: language},
		args, stdout, stderr, kong.Vars{"version": version})
	if errors.Is(err, connect.ErrHelp) {
		return exitEnded
	}
	if err != nil {
		return refuse(err)
	}
	logger := s.Log.Logger(stderr)
	defer func() { _ = logger.Sync() }()
	surplus, err := s.HTTP.FitOpenFiles(parsed, s.MySQL.Connections(), nil, logger)
	if err != nil {
		return refuse(err)
	}
	connect.WarnOfRisks(parsed, &s.MySQL, logger)
	pool, err := s.MySQL.Open(connect.Brief, logger)
	if err != nil {
		return refuse(err)
	}
	defer pool.Close()
	logger.Info("starting", zap.String("version", version))
	return serve(ctx, &s, surplus, &connect.Servers{MySQL: pool}, logger)
}

func serve(ctx context.Context, s *settings, surplus int, servers *connect.Servers, logger *zap.Logger) int {
	registry := prometheus.NewRegistry()
	registry.MustRegister(servers.Metrics())
	users := s.Identity.Open(logger.Named("identity"), time.Now)
	registry.MustRegister(users.Metrics()...)
	admin := ops.New(ops.Config{MySQL: &connect.WalletDatabase{DB: servers.MySQL}, Identity: users, Registry: registry})
	store := wallet.NewStore(servers.MySQL)
	public := walletapi.New(walletapi.Options{
		Identity: users, Redeem: store.Redeem, List: store.List, Connections: s.MySQL.Connections(),
		Keys: s.keys, ReserveTTL: s.ReserveTTL, Zone: (&deployment.Zone{DB: servers.MySQL, Now: time.Now}).Get,
		InFlight: maxInFlight, UserRate: s.HTTP.UserRate, Origins: s.HTTP.CORSOrigins,
		Draining: admin.Draining, Logger: logger.Named("api"), Metrics: registry, Now: time.Now,
	})
	server, err := httpapi.Listen(httpapi.ServerConfig{
		Ports: []httpapi.Port{{Name: "wallet", Handler: public, Listen: s.Listen, Connections: s.HTTP.MaxConnections, Surplus: surplus}},
		Admin: admin, AdminListen: s.AdminListen, Idle: ops.Idle{IsProxy: s.Identity.IsProxy, Now: time.Now},
		Delay: s.HTTP.ShutdownDelay, Logger: logger, Metrics: registry,
	})
	if err != nil {
		return exitFailed
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	watch, stop := context.WithCancel(context.WithoutCancel(ctx)) // until the last request is answered
	defer stop()
	watching.Go(func() { s.keys.Watch(watch, logger) })
	watching.Go(func() { users.Watch(watch) })
	if server.Serve(ctx) != nil {
		return exitFailed
	}
	return exitEnded
}
