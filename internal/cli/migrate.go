package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/connect"
)

type migrateCmd struct{}

func (migrateCmd) run(ctx context.Context, p *program) error {
	db, err := p.MySQLSettings.Open(p.logger)
	if err != nil {
		return err
	}
	defer db.Close()
	if connect.LogsStatements(ctx, db) {
		return wrong(logsStatements)
	}
	users := p.Settings.Directory()
	if err := users.LookBefore(ctx, db); err != nil {
		return err
	}
	applied, err := connect.Migrate(ctx, db)
	for _, m := range applied {
		fmt.Fprintln(p.stdout, p.say(words{"%s 적용, %s", "applied %s in %s"}, m.File, m.Took.Round(time.Millisecond)))
	}
	if err == nil && len(applied) == 0 {
		fmt.Fprintln(p.stdout, p.say(words{"스키마가 최신입니다", "the schema is up to date"}))
	}
	if err == nil {
		_, err = users.Look(ctx, db)
	}
	return err
}
