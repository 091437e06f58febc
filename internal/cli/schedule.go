package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/schedule"
	"github.com/jajeong/jajeong/internal/settle"
)

type scheduleCmd struct {
	AdminListen string `name:"admin-listen" env:"SETTLE_ADMIN_LISTEN" placeholder:"HOST:PORT"`
}

func (c *scheduleCmd) Validate() error {
	if c.AdminListen == "" {
		return nil
	}
	return connect.CheckListen("SETTLE_ADMIN_LISTEN", c.AdminListen)
}

// run settles every night until a signal stops it. It writes to the log only; nothing goes to standard output.
func (c *scheduleCmd) run(ctx context.Context, p *program) error {
	if p.LogLevel == "warn" { // the default, which would hide what a schedule does
		p.logger = (&connect.LogSettings{LogLevel: "info"}).Logger(p.Stderr)
	}
	settler, err := p.openSettler(ctx)
	if err != nil {
		return err
	}
	defer settler.Close()
	if err := settler.readable(ctx); err != nil {
		return err
	}
	closeAdmin, err := c.serveAdmin(ctx, p, settler)
	if err != nil {
		return err
	}
	defer closeAdmin()
	scheduler, err := schedule.New(schedule.Config{
		Timetable: p.timetable(), Zone: p.Zone, Clock: settler.Clock, LastNight: settler.LastNight,
		Settle: settler.night, Wait: settle.Wait, Logger: p.logger.Named("schedule"),
	})
	if err != nil {
		return err
	}
	logged := make(chan struct{})
	unneeded := context.AfterFunc(ctx, func() {
		p.logger.Info("stopping", zap.Duration("grace", p.ShutdownGrace))
		close(logged)
	})
	scheduler.Run(ctx)
	if !unneeded() {
		<-logged
	}
	return nil
}

func (s *settler) night(ctx context.Context, cutoff time.Time) (complete bool, err error) {
	report, err := s.RunOnce(ctx, settle.Order{Trigger: coupon.Cron, Cutoff: cutoff})
	if err != nil {
		return false, err
	}
	level := zap.InfoLevel
	if report.Status != coupon.RunSucceeded {
		level = zap.WarnLevel
	}
	s.Logger.Log(level, "night settled", zap.Uint64("run_id", uint64(report.Run)), zap.Time("cutoff", report.Cutoff),
		zap.String("status", string(report.Status)), zap.Int("coupons", report.Total.Coupons), zap.Int("issued", report.Total.Issued))
	return true, report.Err()
}

// readableWithin bounds how long a hanging database delays the start. A startup probe waits longer than that.
const readableWithin = 5 * time.Second

// readable fails if the table of users is set up wrongly, so that an operator learns it at the start, not at midnight.
// If the database is away, the schedule starts nevertheless: each run checks the table again.
func (s *settler) readable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readableWithin)
	defer cancel()
	_, err := s.users.Look(ctx, s.MySQL)
	if err != nil && classOf(err) != coupon.Setup {
		s.Logger.Warn("the table of users was not checked; each run checks it", zap.Error(err))
		return nil
	}
	return err
}

// serveAdmin serves the admin port until closeAdmin is called.
func (c *scheduleCmd) serveAdmin(ctx context.Context, p *program, settler *settler) (closeAdmin func(), err error) {
	if c.AdminListen == "" {
		return func() {}, nil
	}
	registry := prometheus.NewRegistry()
	prometheus.WrapRegistererWith(prometheus.Labels{"trigger": string(coupon.Cron)}, registry).MustRegister(metricsOf(settler.Settler))
	registry.MustRegister(settler.servers.Servers.Metrics(), settler.store.Metrics(), catalog.Queues{
		Coupons:   catalog.Snapshot{Store: settler.store}.Coupons,
		Stats:     settler.store,
		SettlesAt: func(arrival time.Time) time.Time { return calendar.NextCutoff(arrival, p.Zone) },
		Now:       p.Now,
	})
	admin := ops.New(ops.Config{Redis: settler.store, MySQL: settler.MySQL, Registry: registry})
	if closeAdmin, err = admin.Serve(ctx, c.AdminListen, p.logger); err != nil {
		return nil, fmt.Errorf("%w: free the port, or set SETTLE_ADMIN_LISTEN to another", err)
	}
	return closeAdmin, nil
}
