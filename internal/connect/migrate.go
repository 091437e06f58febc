package connect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"

	migrations "github.com/jajeong/jajeong/sql"
)

// migrationLockWait must be shorter than mysqlIOTimeout, which bounds the waiting statement.
const migrationLockWait = time.Minute

// Migrate brings the schema up to date and returns the applied steps. If it is killed, the next call does the rest.
func Migrate(ctx context.Context, db *sql.DB) (applied []*goose.MigrationResult, err error) {
	unlock, err := lockMigrations(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := dropEmptyVersions(ctx, db); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectMySQL, db, migrations.Files,
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	if applied, err = provider.Up(ctx); err != nil {
		return applied, fmt.Errorf("migrate: %w", err)
	}
	return applied, nil
}

const (
	// keepSessionSQL keeps the idle session that holds the lock for 3600 s, the time limit of the Kubernetes Job.
	keepSessionSQL = "SET SESSION wait_timeout = 3600"

	lockSQL   = "SELECT GET_LOCK(CONCAT('jajeong.migrate.', LEFT(SHA2(DATABASE(), 256), 32)), ?)"
	unlockSQL = "DO RELEASE_LOCK(CONCAT('jajeong.migrate.', LEFT(SHA2(DATABASE(), 256), 32)))"
)

// lockMigrations takes a lock that ends with its session. goose locks only after it has created its version table.
func lockMigrations(ctx context.Context, db *sql.DB) (unlock func() error, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var got sql.NullInt64
	if _, err = conn.ExecContext(ctx, keepSessionSQL); err == nil {
		err = conn.QueryRowContext(ctx, lockSQL, int(migrationLockWait.Seconds())).Scan(&got)
	}
	if err == nil && got.Int64 != 1 {
		err = fmt.Errorf("another migration has held the lock for %s: let it finish, then run again", migrationLockWait)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return func() error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), unlockSQL)
		return errors.Join(err, conn.Close())
	}, nil
}

const versionsTableSQL = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'goose_db_version'"

// dropEmptyVersions removes an empty version table: goose was killed after creating it, and cannot continue from there.
func dropEmptyVersions(ctx context.Context, db *sql.DB) error {
	var tables, versions int
	if err := db.QueryRowContext(ctx, versionsTableSQL).Scan(&tables); err != nil || tables == 0 {
		return err
	}
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM goose_db_version").Scan(&versions); err != nil || versions > 0 {
		return err
	}
	_, err := db.ExecContext(ctx, "DROP TABLE goose_db_version")
	return err
}

// schemaSQL names every table of the migrations but the table of users, and the columns that later migrations added.
// Columns come first: this account may have no right yet to read a table that a migration will create.
var schemaSQL = []string{
	"SELECT version, cadence, line_limit, frozen, discount_percent, discount_max_won, minimum_won FROM coupon LIMIT 0",
	"SELECT nonce FROM settlement_run LIMIT 0",
	"SELECT twice, counted_since, erased, erased_rejected FROM promise LIMIT 0",
	"SELECT seq, hash, user_salt, user_hash FROM audit_event LIMIT 0",
	"SELECT order_id, seq FROM user_coupon LIMIT 0",
	"SELECT first_user_coupon_id, published_at FROM settlement LIMIT 0",
	"SELECT 1 FROM application_outcome, audit_head, run_coupon, settled, coupon_order, coupon_log, purged_coupon, event_relay, line_journal, journal, policy, approval LIMIT 0",
}

// walletSchemaSQL names the tables and columns that wallet-api reads. Its account may read no others.
var walletSchemaSQL = []string{
	"SELECT discount_percent, discount_max_won, minimum_won FROM coupon LIMIT 0",
	"SELECT order_id, seq FROM user_coupon LIMIT 0",
	"SELECT 1 FROM coupon_order, coupon_log LIMIT 0",
}

// CheckSchema returns an error if a table or column is missing, or if this account may not read it. It reads no row.
func CheckSchema(ctx context.Context, db *sql.DB) error { return checkSchema(ctx, db, schemaSQL) }

// WalletDatabase is the database of wallet-api. A ping fails until it has the tables and rights that wallet-api needs.
type WalletDatabase struct {
	*sql.DB
	complete atomic.Bool
}

func (w *WalletDatabase) PingContext(ctx context.Context) error {
	if w.complete.Load() {
		return w.DB.PingContext(ctx)
	}
	err := checkSchema(ctx, w.DB, walletSchemaSQL)
	w.complete.Store(err == nil)
	return err
}

func checkSchema(ctx context.Context, db *sql.DB, queries []string) error {
	for _, query := range queries {
		if _, err := db.ExecContext(ctx, query); err != nil {
			return fmt.Errorf("check schema: %w", err)
		}
	}
	return nil
}
