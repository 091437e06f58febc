package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/durability"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/schedule"
	"github.com/jajeong/jajeong/internal/serve"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/sleep"
	"github.com/jajeong/jajeong/internal/text"
)

// The tasks of settle serve.
const (
	nightsTask  = "nights"
	issueTask   = "issue"
	eventsTask  = "events"
	journalTask = "journal"
)

var allTasks = []string{nightsTask, issueTask, journalTask, eventsTask}

type serveCmd struct {
	Tasks                     []string `name:"tasks" env:"SERVE_TASKS" default:"nights,issue,journal,events" placeholder:"TASK"`
	AdminListen               string   `name:"admin-listen" env:"ADMIN_LISTEN" placeholder:"HOST:PORT"`
	connect.IssueSettings     `embed:""`
	connect.JournalSettings   `embed:""`
	connect.RetentionSettings `embed:""`
	sinkSettings              `embed:""`
}

func (c *serveCmd) Validate() error {
	problems := []error{c.sinkSettings.Validate(), c.JournalSettings.Validate(), c.RetentionSettings.Validate()}
	for i, task := range c.Tasks {
		problems = append(problems,
			refuse(!slices.Contains(allTasks, task), text.UnknownTask, task, strings.Join(allTasks, ", ")),
			refuse(slices.Contains(c.Tasks[:i], task), text.TaskTwice, task))
	}
	if c.AdminListen != "" {
		problems = append(problems, connect.CheckListen("ADMIN_LISTEN", c.AdminListen))
	}
	if c.EventSink == connect.NoSink {
		problems = append(problems, refuse(slices.Equal(c.Tasks, []string{eventsTask}), text.NoSinkToPublish))
	}
	return errors.Join(problems...)
}

// run performs the tasks until a signal stops it. It writes to the log only; nothing goes to standard output.
func (c *serveCmd) run(ctx context.Context, p *program) error {
	s, err := p.openToStay(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	settler, err := p.settlerOf(s)
	if err != nil {
		return err
	}
	if err := settler.readable(ctx); err != nil {
		return err
	}
	metrics := prometheus.NewRegistry()
	brief, err := p.MySQLSettings.Open(connect.Brief, p.logger)
	if err != nil {
		return err
	}
	defer brief.Close()
	tasks, closeTasks, err := c.prepare(p, settler, mysqltx.NewBrief(brief), metrics)
	defer closeTasks()
	if err != nil {
		return err
	}
	durable := &durability.Watch{DB: brief, Logger: p.logger}
	metrics.MustRegister(durable)
	closeAdmin, err := c.serveAdmin(ctx, p, settler, durable, metrics)
	if err != nil {
		return err
	}
	defer closeAdmin()
	logged := make(chan struct{})
	unneeded := context.AfterFunc(ctx, func() {
		p.logger.Info("stopping", zap.Duration("grace", p.Grace))
		close(logged)
	})
	p.logger.Info("serving", zap.Strings("tasks", namesOf(tasks)))
	_ = connect.Beside(ctx, func(ctx context.Context) error {
		serve.Runner{Now: p.Now, Logger: p.logger}.Run(ctx, tasks...)
		return nil
	}, durable.Run)
	if !unneeded() {
		<-logged
	}
	return nil
}

func namesOf(tasks []serve.Task) (names []string) {
	for _, task := range tasks {
		names = append(names, task.Name)
	}
	return names
}

// prepare makes the tasks and registers their metrics. brief has sessions for what comes again by itself. closeTasks
// closes the sink.
func (c *serveCmd) prepare(p *program, s *settler, brief *mysqltx.DB,
	metrics *prometheus.Registry) (tasks []serve.Task, closeTasks func(), err error) {
	closeTasks = func() {}
	for _, name := range c.Tasks {
		task := serve.Task{Name: name}
		switch name {
		case nightsTask:
			task.Run, err = p.nights(s)
			ofNights := prometheus.WrapRegistererWith(prometheus.Labels{"trigger": string(coupon.Cron)}, metrics)
			ofNights.MustRegister(metricsOf(s.Settler))
		case issueTask:
			var issue *serve.Issue
			if issue, err = c.issue(p, s, brief); err == nil {
				task.Run = issue.Run
				metrics.MustRegister(issue)
			}
		case journalTask:
			var writing *serve.Journal
			if writing, err = c.journal(p, s, brief); err == nil {
				task.Run = writing.Run
				metrics.MustRegister(writing)
			}
		case eventsTask:
			if c.EventSink == connect.NoSink {
				continue
			}
			var publishing *serve.Events
			if publishing, closeTasks, err = c.eventsTask(p, s, brief); err == nil {
				task.Run = publishing.Run
				metrics.MustRegister(publishing)
			}
		}
		if err != nil {
			return nil, closeTasks, err
		}
		tasks = append(tasks, task)
	}
	return tasks, closeTasks, nil
}

func (p *program) nights(s *settler) (run func(ctx context.Context) error, err error) {
	var last history.Nonce
	scheduler, err := schedule.New(schedule.Config{
		Timetable: p.timetable(), Zone: s.zone.Get, Clock: s.Clock, LastNight: s.LastNight,
		Kept: func(ctx context.Context) (bool, error) { return s.HasEnded(ctx, last) },
		Settle: func(ctx context.Context, cutoff time.Time) (complete bool, err error) {
			last, complete, err = s.night(ctx, cutoff)
			return complete, err
		},
		Away: func(err error) bool { return classOf(err) == coupon.Infrastructure },
		Wait: sleep.For, Logger: p.logger.Named("schedule"),
	})
	if err != nil {
		return nil, err
	}
	return scheduler.Run, nil
}

func (c *serveCmd) issue(p *program, s *settler, brief *mysqltx.DB) (*serve.Issue, error) {
	return serve.New(serve.Config{
		Coupons: serve.MySQL{DB: s.MySQL, Users: s.users}, Store: s.store, Issuer: s, Interval: c.IssueInterval,
		Parallel: p.SettleParallel, Locks: brief, Now: p.Now, Logger: p.logger.Named(issueTask),
	})
}

func (c *serveCmd) journal(p *program, s *settler, brief *mysqltx.DB) (*serve.Journal, error) {
	return serve.NewJournal(serve.JournalConfig{
		DB: brief, Store: s.store, Restorer: s.restorer(p.Now), Cleaner: s, RowsPerSecond: c.JournalRowsPerSecond,
		Now: p.Now, Logger: p.logger.Named(journalTask),
	})
}

func (s *settler) night(ctx context.Context, cutoff time.Time) (run history.Nonce, complete bool, err error) {
	report, err := s.RunOnce(ctx, settle.Order{Trigger: coupon.Cron, Cutoff: cutoff})
	if err != nil {
		return run, false, err
	}
	level := zap.InfoLevel
	if report.Status != coupon.RunSucceeded {
		level = zap.WarnLevel
	}
	s.Logger.Log(level, "night settled", zap.Uint64("run_id", uint64(report.Run)), zap.Time("cutoff", report.Cutoff),
		zap.String("status", string(report.Status)), zap.Int("coupons", report.Total.Coupons),
		zap.Int("issued", report.Total.Issued))
	return report.Nonce, true, report.Err()
}

// readableWithin bounds how long a hanging database delays the start. A startup probe waits longer than that.
const readableWithin = 5 * time.Second

// readable fails if the table of users is set up wrongly or the schema is not up to date, so that an operator learns it
// at the start, not at midnight. If the database is away, the tasks start nevertheless: each run checks what it reads.
func (s *settler) readable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readableWithin)
	defer cancel()
	_, err := s.users.Look(ctx, s.MySQL)
	if err == nil {
		err = connect.CheckSchema(ctx, s.MySQL)
	}
	if err != nil && classOf(err) != coupon.Setup {
		s.Logger.Warn("the tables were not checked at the start; each run checks what it reads", zap.Error(err))
		return nil
	}
	return err
}

// serveAdmin serves the admin port until closeAdmin is called.
func (c *serveCmd) serveAdmin(ctx context.Context, p *program, s *settler, durable *durability.Watch,
	metrics *prometheus.Registry) (closeAdmin func(), err error) {
	if c.AdminListen == "" {
		return func() {}, nil
	}
	metrics.MustRegister(s.servers.Servers.Metrics(), s.store.Metrics(), catalog.Queues{
		Coupons: catalog.Snapshot{Store: s.store}.Coupons,
		Stats:   s.store,
		Zone:    s.zone.Get,
		Now:     p.Now,
	})
	admin := ops.New(ops.Config{Redis: s.store, MySQL: s.MySQL, Durability: durable, Registry: metrics})
	if closeAdmin, err = admin.Serve(ctx, c.AdminListen, p.logger); err != nil {
		return nil, fmt.Errorf("%w: free the port, or set ADMIN_LISTEN to another", err)
	}
	return closeAdmin, nil
}
