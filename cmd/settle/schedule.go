package main

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/settle"
)

type scheduleCmd struct{}

// run stays until it is told to stop. What it does is logged, not printed: nobody sits before it.
func (scheduleCmd) run(ctx context.Context, p *program) error {
	if p.LogLevel == "warn" { // the default of the verbs that people run
		p.logger = (&connect.LogSettings{LogLevel: "info"}).Logger(p.stderr)
	}
	settler, closeAll, err := p.openSettler()
	if err != nil {
		return err
	}
	defer closeAll()
	timetable, err := settle.ParseSchedule(p.SettleSchedule, p.zone)
	if err != nil {
		return err
	}
	scheduler := &settle.Scheduler{
		Timetable: timetable, Zone: p.zone, Clock: settler.Clock, LastNight: settler.LastNight,
		Settle: func(ctx context.Context, cutoff time.Time) error {
			report, err := settler.RunOnce(ctx, settle.Order{Trigger: settle.Cron, Cutoff: cutoff})
			if err != nil {
				return err
			}
			p.logger.Info("night settled", zap.Uint64("run_id", report.Run), zap.Time("cutoff", report.Cutoff),
				zap.String("status", string(report.Status)), zap.Int("coupons", report.Total.Coupons), zap.Int("issued", report.Total.Issued))
			return report.Err()
		},
		Wait: settle.Wait, Logger: p.logger.Named("schedule"),
	}
	defer context.AfterFunc(ctx, func() {
		p.logger.Info("told to stop", zap.Duration("grace", p.ShutdownGrace))
	})()
	scheduler.Run(ctx)
	return nil
}
