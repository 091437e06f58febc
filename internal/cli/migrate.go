package cli

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/deployment"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

type migrateCmd struct {
	SettleTimeZone string `name:"settle-time-zone" env:"SETTLE_TIME_ZONE" placeholder:"ZONE"`
}

func (c *migrateCmd) Validate() error {
	if c.SettleTimeZone == "" {
		return nil
	}
	_, err := deployment.Load("SETTLE_TIME_ZONE", c.SettleTimeZone)
	return about("--settle-time-zone", err)
}

func (c *migrateCmd) run(ctx context.Context, p *program) error {
	db, err := p.MySQLSettings.Open(connect.Migrating, p.logger)
	if err != nil {
		return err
	}
	defer db.Close()
	if connect.LogsStatements(ctx, db) {
		return text.UsageErrorf(text.StatementsAreLogged)
	}
	users := p.Settings.Directory()
	if err := users.LookBefore(ctx, db); err != nil {
		return err
	}
	progress := &steps{program: p, stopClock: func() {}}
	applied, err := connect.Migrate(ctx, db, cmp.Or(c.SettleTimeZone, deployment.DefaultZone), progress.begin)
	progress.stopClock()
	err = migrationError(err)
	for _, m := range applied {
		p.view().Println(text.MigrationApplied, m.Source.Path, m.Duration.Round(time.Millisecond))
	}
	if err == nil {
		if unreadable := connect.CheckSchema(ctx, db); mysqltx.ClassOf(unreadable) == coupon.Setup {
			err = text.UsageErrorf(text.TablesMissing, unreadable)
		}
	}
	if err == nil && len(applied) == 0 {
		p.view().Println(text.SchemaUpToDate)
	}
	if err == nil {
		err = c.checkZone(ctx, p, db)
	}
	if err == nil {
		_, err = users.Look(ctx, db)
	}
	return err
}

// steps says which step of a migration is under way: on a terminal with its seconds, since a large table takes long.
type steps struct {
	*program
	stopClock func()
}

func (s *steps) begin(step string) {
	s.stopClock()
	s.view().Println(text.MigrationBegun, step)
	s.stopClock = s.countSeconds(s.Sprintf(text.Migrating, step))
}

// countSeconds shows on a terminal for how many seconds something is under way, until stop is called.
func (p *program) countSeconds(what string) (stop func()) {
	bar := output.NewProgress(p.Stderr, what)
	ended := make(chan struct{})
	var counting sync.WaitGroup
	counting.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				bar.Add(what, 1)
			case <-ended:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ended)
		counting.Wait()
		bar.End()
	})
}

// checkZone refuses another zone than that of the nights: only a new version of the policy changes it.
func (c *migrateCmd) checkZone(ctx context.Context, p *program, db mysqltx.Querier) error {
	zone, err := deployment.ReadZone(ctx, db)
	if err != nil {
		return err
	}
	if c.SettleTimeZone != "" && c.SettleTimeZone != zone.String() {
		return text.UsageErrorf(text.OtherTimeZone, c.SettleTimeZone, zone)
	}
	p.view().Println(text.NightsOfZone, zone)
	return nil
}

// migrationError gives an error its class. A migration that gave up waiting for another one may be run again.
func migrationError(err error) error {
	if errors.Is(err, connect.ErrMigrationBusy) {
		return &coupon.Error{Class: coupon.Infrastructure, Err: err}
	}
	return err
}
