package cli

import (
	"context"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

type migrateCmd struct{}

func (migrateCmd) run(ctx context.Context, p *program) error {
	db, err := p.MySQLSettings.Open(p.logger)
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
	applied, err := connect.Migrate(ctx, db)
	err = migrationError(err)
	for _, m := range applied {
		p.view().Println(text.MigrationApplied, m.Source.Path, m.Duration.Round(time.Millisecond))
	}
	if err == nil && len(applied) == 0 {
		p.view().Println(text.SchemaUpToDate)
	}
	if err == nil {
		_, err = users.Look(ctx, db)
	}
	return err
}

// migrationError classes a migration that waited in vain for another one: it may be run again.
func migrationError(err error) error {
	if errors.Is(err, connect.ErrMigrationBusy) {
		return &coupon.Error{Class: coupon.Infrastructure, Err: err}
	}
	return err
}
