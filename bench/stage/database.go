package stage

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/testenv"
)

// databaseArgs are typical of production: durable commits, a buffer pool for all tables, and a redo log that does not
// stall. MariaDB and MySQL name the size of the redo log differently.
var databaseArgs = []string{
	"--innodb-buffer-pool-size=2G", "--loose-innodb-log-file-size=1G", "--loose-innodb-redo-log-capacity=1G",
	"--innodb-flush-log-at-trx-commit=1", "--max-allowed-packet=64M", "--local-infile=1",
}

// Database is a started server, or that of TEST_MYSQL_DSN.
type Database struct {
	Version string
	server  *testenv.MySQL // nil with TEST_MYSQL_DSN
	config  *mysql.Config
	made    int
}

func startDatabase(ctx context.Context) (d *Database, err error) {
	d = new(Database)
	dsn := os.Getenv("TEST_MYSQL_DSN")
	if dsn == "" {
		if d.server, err = testenv.StartMySQL(ctx, testenv.MySQLOptions{Args: databaseArgs}); err != nil {
			return nil, err
		}
		dsn = d.server.DSN("")
	}
	if d.config, err = mysql.ParseDSN(dsn); err == nil {
		err = d.ask(ctx)
	}
	if err != nil {
		d.close()
	}
	return d, err
}

func (d *Database) ask(ctx context.Context) error {
	db, err := sql.Open("mysql", d.DSN(""))
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&d.Version); err != nil {
		return fmt.Errorf("read the version of MySQL: %w", err)
	}
	if !strings.Contains(d.Version, "MariaDB") {
		d.Version = "MySQL " + d.Version
	}
	_, err = db.ExecContext(ctx, "SET GLOBAL local_infile = 1")
	return err
}

func (d *Database) close() {
	if d.server != nil {
		_ = d.server.Stop()
	}
}

// Server is nil with TEST_MYSQL_DSN.
func (d *Database) Server() *testenv.MySQL { return d.server }

// MySQLPid is 0 with TEST_MYSQL_DSN.
func (d *Database) MySQLPid() int {
	if d.server == nil {
		return 0
	}
	return d.server.Pid()
}

// DSN returns the DSN of a database.
func (d *Database) DSN(name string) string {
	config := d.config.Clone()
	config.DBName, config.AllowNativePasswords = name, true
	return config.FormatDSN()
}

// fresh creates a database with the tables of the product. drop removes it.
func (d *Database) fresh(ctx context.Context) (db *sql.DB, dsn string, drop func(), err error) {
	admin, err := sql.Open("mysql", d.DSN(""))
	if err != nil {
		return nil, "", nil, err
	}
	d.made++
	name := fmt.Sprintf("jajeong_bench_%d_%d", os.Getpid(), d.made)
	drop = func() {
		if db != nil {
			_ = db.Close()
		}
		_, _ = admin.Exec("DROP DATABASE IF EXISTS " + name)
		_ = admin.Close()
	}
	if _, err = admin.ExecContext(ctx, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err == nil {
		err = migrate(ctx, d.DSN(name))
	}
	if err == nil {
		db, err = sql.Open("mysql", d.DSN(name))
	}
	if err != nil {
		drop()
	}
	return db, d.DSN(name), drop, err
}

func migrate(ctx context.Context, dsn string) error {
	product, err := (&connect.MySQLSettings{MySQLDSN: dsn}).Open(connect.Patient, zap.NewNop())
	if err != nil {
		return err
	}
	defer product.Close()
	_, err = connect.Migrate(ctx, product, "Asia/Seoul", nil)
	return err
}

// Execer is a pool or a transaction.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// LoadData writes rows into a table, such as "t (id, name)", by LOAD DATA LOCAL INFILE.
func LoadData(ctx context.Context, db Execer, into string, rows func(w io.Writer) error) error {
	reader, writer := io.Pipe()
	go func() {
		out := bufio.NewWriterSize(writer, 1<<20)
		err := rows(out)
		if err == nil {
			err = out.Flush()
		}
		_ = writer.CloseWithError(err)
	}()
	handler := fmt.Sprintf("rows-%p", reader) // the driver has one list for all callers
	mysql.RegisterReaderHandler(handler, func() io.Reader { return reader })
	defer mysql.DeregisterReaderHandler(handler)
	_, err := db.ExecContext(ctx, "LOAD DATA LOCAL INFILE 'Reader::"+handler+"' INTO TABLE "+into)
	if err != nil {
		return fmt.Errorf("load %s: %w", into, err)
	}
	return nil
}

// InTransaction commits what do does, unless it returns an error.
func InTransaction(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// ErrorNumber is the number of an error of MySQL, and 0 for others.
func ErrorNumber(err error) uint16 {
	if refusal, is := errors.AsType[*mysql.MySQLError](err); is {
		return refusal.Number
	}
	return 0
}

// Each calls do with each row of a query.
func Each(ctx context.Context, db *sql.DB, do func(*sql.Rows) error, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Column returns the only column of a query.
func Column[T any](ctx context.Context, db *sql.DB, query string, args ...any) (all []T, err error) {
	err = Each(ctx, db, func(rows *sql.Rows) error {
		var one T
		err := rows.Scan(&one)
		all = append(all, one)
		return err
	}, query, args...)
	return all, err
}
