package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/batch"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/handover"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/identity"
	"github.com/jajeong/jajeong/internal/live"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/standing"
)

// ports returns the public port and the live port.
func ports(s *settings, surplus int, users *identity.Identity, servers *connect.Servers, store *candidates.Store,
	memory *handover.Memory, coupons *catalog.Catalog,
	admin *ops.Admin, registry *prometheus.Registry, logger *zap.Logger) []httpapi.Port {
	records, losses := standing.Records{DB: servers.MySQL}, standing.NewLosses(time.Now)
	options := api.Options{
		Identity: users,
		Applier:  applier(s, servers, store, memory, registry),
		Queue:    store,
		Records:  records,
		Losses:   losses,
		Coupons:  coupons,
		Clock:    store,
		Receipts: s.receipts,
		Shard:    store.Shard,
		Terms:    standing.Terms{Zone: coupons.Zone, IssueInterval: s.Issue.IssueInterval},
		Limits:   api.Limits{InFlight: maxInFlight, UserRate: s.HTTP.UserRate},
		Origins:  s.HTTP.CORSOrigins,
		Draining: admin.Draining,
		Logger:   logger.Named("api"),
		Metrics:  registry,
		Now:      time.Now,
	}
	streams := live.New(live.Options{
		Store: store, Records: records, Losses: losses, Coupons: coupons, Terms: options.Terms, Max: s.MaxStreams,
		Logger: logger.Named("live"), Metrics: registry, Now: time.Now,
	})
	return []httpapi.Port{
		{Name: "apply", Handler: api.New(options), Listen: s.Listen, Connections: s.HTTP.MaxConnections,
			Surplus: surplus},
		{Name: "live", Handler: api.NewLive(options, streams), Listen: s.LiveListen, Connections: s.MaxStreams,
			Surplus: httpapi.SurplusStreams(s.MaxStreams), EndStreams: streams.Drain},
	}
}

// applier sends applications to Redis and, with ACCEPT_AFTER=journal, to MySQL.
func applier(s *settings, servers *connect.Servers, store *candidates.Store, memory *handover.Memory,
	registry *prometheus.Registry) api.Applier {
	batches := batch.New(store.ApplyAll, registry, time.Now)
	if s.AcceptAfter != acceptAfterJournal {
		return batches
	}
	return handover.Commit(batches, memory, servers.MySQL, registry, time.Now)
}
