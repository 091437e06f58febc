// Package migrated gives a test a database as `settle migrate` leaves it, with the accounts of sql/grants.sql.
package migrated

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/testenv"
	migrations "github.com/jajeong/jajeong/sql"
)

// Database returns a migrated database, whose account has all rights. It was emptied after another test.
func Database(t testing.TB) testenv.SchemaHandle {
	t.Helper()
	return DatabaseWith(t, Users{Grants: migrations.Grants})
}

// Open returns a migrated database with the sessions of the programs. MySQL ends none while a test waits.
func Open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := (&connect.MySQLSettings{MySQLDSN: Database(t).DSN}).Open(connect.Patient, zap.NewNop())
	if err != nil {
		t.Fatalf("migrated: open database: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Users is a shop's table of users.
type Users struct {
	DDL    string // statements before the migration, separated by semicolons; empty: the migration makes the table
	Grants string // sql/grants.sql with the names of this table
}

// DatabaseWith is Database for another table of users.
func DatabaseWith(t testing.TB, users Users) testenv.SchemaHandle {
	t.Helper()
	return testenv.SchemaFor(t, testenv.Schema{
		Name:   "migrated " + users.DDL,
		Make:   func(ctx context.Context, dsn string) error { return Migrate(ctx, dsn, users.DDL) },
		Grants: users.Grants,
	})
}

// Migrate executes statements, separated by semicolons, and migrates a database. The server may be a node of Galera.
func Migrate(ctx context.Context, dsn, ddl string) error {
	settings := &connect.MySQLSettings{MySQLDSN: dsn, GaleraSingleWriter: true}
	db, err := settings.Open(connect.Patient, zap.NewNop())
	if err != nil {
		return err
	}
	defer db.Close()
	for _, statement := range strings.FieldsFunc(ddl, func(r rune) bool { return r == ';' }) {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	_, err = connect.Migrate(ctx, db, "Asia/Seoul", nil)
	return err
}
