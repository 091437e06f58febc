package connect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pressly/goose/v3"

	migrations "github.com/jajeong/jajeong/sql"
)

// migrationLockWait is how long a migration waits for another one to finish.
const migrationLockWait = 5 * time.Minute

// Migration is one step that was applied.
type Migration struct {
	Version int64
	File    string
	Took    time.Duration
}

// Migrate brings the schema up to date and returns what it applied, nothing when it was up to date. Several at once
// are serialised; one that was killed half way is repaired by running again.
func Migrate(ctx context.Context, db *sql.DB) ([]Migration, error) {
	provider, err := goose.NewProvider(goose.DialectMySQL, db, migrations.Files,
		goose.WithSessionLocker(namedLock{}), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	results, err := provider.Up(ctx)
	var applied []Migration
	for _, r := range results {
		applied = append(applied, Migration{Version: r.Source.Version, File: r.Source.Path, Took: r.Duration})
	}
	if err != nil {
		return applied, fmt.Errorf("migrate: %w", err)
	}
	return applied, nil
}

// namedLock serialises migrations of one database. The server frees it when the session that holds it ends, however
// that happens.
type namedLock struct{}

const lockName = "CONCAT('jajeong.migrate.', LEFT(SHA2(DATABASE(), 256), 32))"

func (namedLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	var got sql.NullInt64
	err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+lockName+", ?)", int(migrationLockWait.Seconds())).Scan(&got)
	if err != nil {
		return fmt.Errorf("lock migrations: %w", err)
	}
	if got.Int64 != 1 {
		return errors.New("another migration has held the lock for 5 minutes: let it finish, then run again")
	}
	return nil
}

func (namedLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, "DO RELEASE_LOCK("+lockName+")"); err != nil {
		return fmt.Errorf("unlock migrations: %w", err)
	}
	return nil
}
