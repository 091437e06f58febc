package connect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"

	"github.com/jajeong/jajeong/internal/sleep"
	"github.com/jajeong/jajeong/internal/text"
	migrations "github.com/jajeong/jajeong/sql"
)

// ErrMigrationBusy means that another migration has held the lock for as long as this one waits.
var ErrMigrationBusy = errors.New("another migration is under way: let it finish, then run again")

var migrationLockWait = time.Minute

// Migrate brings the schema up to date and returns the applied steps. The nights of a new database are of the given
// zone. If it is killed, the next call does the rest. It returns a *text.UsageError, and changes nothing, if the tables
// are not those of this schema. The pool must be opened with Migrating. If begun is not nil, it is called with the name
// of each step before the step.
func Migrate(ctx context.Context, db *sql.DB, zone string,
	begun func(step string)) (applied []*goose.MigrationResult, err error) {
	unlock, err := lockMigrations(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := beginVersions(ctx, db); err != nil {
		return nil, err
	}
	if applied, err = Apply(ctx, db, migrations.Files, begun); err != nil {
		return applied, err
	}
	return applied, insertFirstRows(ctx, db, zone)
}

// Apply applies the migrations of a folder that the version table does not have.
func Apply(ctx context.Context, db *sql.DB, files fs.FS, begun func(step string)) (applied []*goose.MigrationResult,
	err error) {
	provider, err := goose.NewProvider(goose.DialectMySQL, db, files,
		goose.WithTableName(migrations.VersionTable), goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	version, _, err := provider.GetVersions(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the version: %w", err)
	}
	for _, step := range provider.ListSources() {
		if step.Version <= version {
			continue
		}
		if begun != nil {
			begun(step.Path)
		}
		done, err := upByOne(ctx, db, provider)
		if err != nil {
			return applied, fmt.Errorf("migrate: %w", err)
		}
		applied = append(applied, done)
	}
	return applied, nil
}

// Errors of an ALTER.
const (
	lockWaitTimeout = 1205 // also of the lock of a table
	duplicateColumn = 1060
	duplicateKey    = 1061
	nothingToDrop   = 1091
)

// maxLockWait bounds the attempts at one migration.
const (
	maxLockWait = 15 * time.Minute
	lockPause   = time.Second
)

// upByOne applies the next migration. A change of a table waits for the transactions on it, and all others wait behind
// it: also those that one of the former needs, such as the reads of a settlement. The change therefore gives way after
// the lock wait of Migrating, and is tried again. If a process died before it recorded the change, the change is there.
// So a migration that changes a table has one statement.
func upByOne(ctx context.Context, db *sql.DB, provider *goose.Provider) (*goose.MigrationResult, error) {
	patience, cancel := context.WithTimeout(ctx, maxLockWait)
	defer cancel()
	for {
		done, err := provider.UpByOne(ctx)
		refused, ok := errors.AsType[*mysql.MySQLError](err)
		failed, _ := errors.AsType[*goose.PartialError](err)
		switch {
		case !ok || failed == nil:
			return done, err
		case slices.Contains([]uint16{duplicateColumn, duplicateKey, nothingToDrop}, refused.Number):
			_, err := db.ExecContext(ctx, migrations.RecordVersion, failed.Failed.Source.Version)
			return failed.Failed, err
		case refused.Number != lockWaitTimeout || sleep.For(patience, lockPause) != nil:
			return nil, err
		}
	}
}

// insertFirstRows inserts both rows or none.
func insertFirstRows(ctx context.Context, db *sql.DB, zone string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("insert the first rows: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err = tx.ExecContext(ctx, migrations.BeginPolicy, zone); err == nil {
		_, err = tx.ExecContext(ctx, migrations.BeginDeployment)
	}
	if err != nil {
		return fmt.Errorf("insert the first rows: %w", err)
	}
	return tx.Commit()
}

// beginVersions makes the version table before anything else. It refuses a version table of another schema, and tables
// that are there without one: they are another program's.
func beginVersions(ctx context.Context, db *sql.DB) error {
	var foreign string
	if err := db.QueryRowContext(ctx, foreignTablesSQL).Scan(&foreign); err != nil {
		return fmt.Errorf("look for tables of other programs: %w", err)
	}
	if foreign != "" {
		return text.UsageErrorf(text.ForeignTables, foreign)
	}
	if _, err := db.ExecContext(ctx, fmt.Sprintf(migrations.CreateVersions, migrations.Fingerprint())); err != nil {
		return fmt.Errorf("create the version table: %w", err)
	}
	var fingerprint string
	if err := db.QueryRowContext(ctx, migrations.ReadFingerprint).Scan(&fingerprint); err != nil {
		return fmt.Errorf("read the comment of the version table: %w", err)
	}
	if fingerprint != migrations.Fingerprint() {
		return text.UsageErrorf(text.OtherSchema)
	}
	if _, err := db.ExecContext(ctx, migrations.BeginVersions); err != nil {
		return fmt.Errorf("begin the version table: %w", err)
	}
	return nil
}

// foreignTablesSQL names the tables and views with names of ours in a database that has no version table.
var foreignTablesSQL = `
SELECT COALESCE(GROUP_CONCAT(table_name ORDER BY table_name SEPARATOR ', '), '') FROM information_schema.tables
WHERE table_schema = DATABASE() AND table_name IN ('` + strings.Join(migrations.Tables, "', '") + `') AND NOT EXISTS (
	SELECT 1 FROM information_schema.tables v WHERE v.table_schema = DATABASE()
		AND v.table_name = '` + migrations.VersionTable + `')`

const (
	// keepSessionSQL keeps the idle session that holds the lock for a day: no statement takes longer.
	keepSessionSQL = "SET SESSION wait_timeout = 86400"

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
		err = ErrMigrationBusy
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

// walletTables are the tables of wallet-api. Its account may read no others.
var walletTables = []string{"coupon", "user_coupon", "coupon_order", "coupon_log", "deployment"}

// WholeDatabase is the database of the console. A ping fails while a table is missing: pages then answer 503.
type WholeDatabase struct{ *sql.DB }

func (w WholeDatabase) PingContext(ctx context.Context) error { return CheckSchema(ctx, w.DB) }

// CheckSchema returns an error if a table is missing, or if this account may not read it. It reads no row.
func CheckSchema(ctx context.Context, db *sql.DB) error {
	return checkSchema(ctx, db, migrations.Tables)
}

// WalletDatabase is the database of wallet-api. A ping fails until it has the tables and rights that wallet-api needs.
type WalletDatabase struct {
	*sql.DB
	complete atomic.Bool
}

func (w *WalletDatabase) PingContext(ctx context.Context) error {
	if w.complete.Load() {
		return w.DB.PingContext(ctx)
	}
	err := checkSchema(ctx, w.DB, walletTables)
	w.complete.Store(err == nil)
	return err
}

func checkSchema(ctx context.Context, db *sql.DB, tables []string) error {
	if _, err := db.ExecContext(ctx, "SELECT 1 FROM "+strings.Join(tables, ", ")+" LIMIT 0"); err != nil {
		return fmt.Errorf("check schema: %w", err)
	}
	return nil
}
