package testenv

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// Schema is a kind of database that tests use one after the other.
type Schema struct {
	Name string                                      // of the kind: Schemas of one name are the same
	Make func(ctx context.Context, dsn string) error // makes the tables of an empty database
	// GRANT statements; the accounts that they name belong to the database.
	Grants string
}

// SchemaHandle is a test's share of a database server: a database with tables and accounts.
type SchemaHandle struct {
	MySQLHandle
	Accounts map[string]string // DSNs by the names in Schema.Grants
}

// SchemaFor returns a database as Schema.Make leaves it, on the server of [MySQLFor]. At the end of the test the
// database is emptied and kept for another test. A database that is then not as it was made is dropped instead: one
// with a changed table, trigger, account or right, or with other rows of its own.
func SchemaFor(t testing.TB, schema Schema) SchemaHandle {
	t.Helper()
	server := mysqlServer(t)
	d := pool.take(place{server.Addr, schema.Name})
	if d == nil {
		var err error
		if d, err = makeDatabase(t.Context(), server, schema); err != nil {
			t.Fatalf("testenv: make a database for the pool: %v\n%s", err, mysqlHint)
		}
	}
	h := SchemaHandle{Accounts: dsns(d.accounts)}
	h.MySQLHandle = openHandle(t, d.at, func(ctx context.Context) error {
		kept, err := d.restore(ctx)
		if err != nil {
			return errors.Join(err, d.drop(ctx))
		}
		if !kept {
			return d.drop(ctx)
		}
		pool.put(d)
		return nil
	})
	return h
}

// pool has the databases that no test uses.
var pool databasePool

type databasePool struct {
	mu   sync.Mutex
	idle map[place][]*pooledDatabase
}

// place is where a database is, and of which kind.
type place struct{ server, schema string }

func (p *databasePool) take(at place) *pooledDatabase {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle[at]
	if len(idle) == 0 {
		return nil
	}
	p.idle[at] = idle[:len(idle)-1]
	return idle[len(idle)-1]
}

func (p *databasePool) put(d *pooledDatabase) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle == nil {
		p.idle = map[place][]*pooledDatabase{}
	}
	at := place{d.at.Addr, d.schema}
	p.idle[at] = append(p.idle[at], d)
}

// dropAll leaves no database on a server that others use.
func (p *databasePool) dropAll(ctx context.Context) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, idle := range p.idle {
		for _, d := range idle {
			err = errors.Join(err, d.drop(ctx))
		}
	}
	p.idle = nil
	return err
}

type pooledDatabase struct {
	schema   string
	at       *mysql.Config            // as administrator
	accounts map[string]*mysql.Config // by the names in Schema.Grants
	made     databaseState
}

func makeDatabase(ctx context.Context, server *mysql.Config, schema Schema) (d *pooledDatabase, err error) {
	d = &pooledDatabase{schema: schema.Name, at: server.Clone()}
	if d.at.DBName, err = createDatabase(ctx, server); err != nil {
		return nil, err
	}
	half := d
	defer func() {
		if err != nil {
			err = errors.Join(err, half.drop(context.WithoutCancel(ctx)))
		}
	}()
	if err := schema.Make(ctx, d.at.FormatDSN()); err != nil {
		return nil, err
	}
	if d.accounts, err = makeAccounts(ctx, d.at, schema.Grants); err != nil {
		return nil, err
	}
	return d, d.alone(ctx, func(conn *sql.Conn) error {
		d.made, err = d.state(ctx, conn)
		return err
	})
}

// restore empties the database, and reports whether it is as it was made.
func (d *pooledDatabase) restore(ctx context.Context) (kept bool, err error) {
	err = d.alone(ctx, func(conn *sql.Conn) error {
		if err := EndSessions(ctx, conn); err != nil { // a process that was killed may have left a statement at work
			return err
		}
		state, err := d.state(ctx, conn)
		if err != nil || state.definition != d.made.definition {
			return err
		}
		kept = true
		for _, table := range state.used {
			if _, err := conn.ExecContext(ctx, "TRUNCATE TABLE "+quoted(table)); err != nil {
				return fmt.Errorf("empty %s, is a transaction of this test still open?: %w", table, err)
			}
		}
		return nil
	})
	return kept && err == nil, err
}

func (d *pooledDatabase) drop(ctx context.Context) error {
	return errors.Join(dropDatabase(ctx, d.at), dropAccounts(ctx, d.at, d.accounts))
}

// alone calls use with a session of the administrator, which may truncate tables that others refer to.
func (d *pooledDatabase) alone(ctx context.Context, use func(*sql.Conn) error) error {
	cfg := d.at.Clone()
	maps.Copy(cfg.Params, map[string]string{
		"lock_wait_timeout": lockWait, "foreign_key_checks": "0", "sql_select_limit": "18446744073709551615",
		"sql_big_selects": "1",
	})
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return use(conn)
}

// databaseState is what a database is.
type databaseState struct {
	// Tables, views, triggers, routines, events, accounts and rights, and the rows that Schema.Make wrote.
	definition string
	filled     map[string]bool // tables in which Schema.Make wrote rows
	used       []string        // other tables that have rows, or had some
}

const (
	tablesSQL = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type = " +
		"'BASE TABLE' ORDER BY 1"
	viewsSQL = "SELECT CONCAT_WS(' ', table_name, view_definition) FROM information_schema.views WHERE " +
		"table_schema = DATABASE() ORDER BY 1"
	triggersSQL = "SELECT CONCAT_WS(' ', trigger_name, action_timing, event_manipulation, event_object_table, " +
		"action_statement) FROM information_schema.triggers WHERE trigger_schema = DATABASE() ORDER BY 1"
	routinesSQL = "SELECT CONCAT_WS(' ', routine_name, routine_definition) FROM information_schema.routines WHERE " +
		"routine_schema = DATABASE() ORDER BY 1"
	jobsSQL = "SELECT CONCAT_WS(' ', event_name, event_definition) FROM information_schema.events WHERE " +
		"event_schema = DATABASE() ORDER BY 1"
	granteesSQL = `SELECT grantee FROM information_schema.schema_privileges WHERE table_schema = DATABASE()
UNION SELECT grantee FROM information_schema.table_privileges WHERE table_schema = DATABASE()
UNION SELECT grantee FROM information_schema.column_privileges WHERE table_schema = DATABASE() ORDER BY 1`
)

// state reads the state of the database. The first time decides which tables Schema.Make has filled.
func (d *pooledDatabase) state(ctx context.Context, conn *sql.Conn) (databaseState, error) {
	s := databaseState{filled: map[string]bool{}}
	var definition strings.Builder
	note := func(query string) error {
		found, err := column(ctx, conn, query)
		var refused *mysql.MySQLError
		if errors.As(err, &refused) { // there is no such account any more
			found, err = []string{refused.Error()}, nil
		}
		definition.WriteString(strings.Join(found, "\n") + "\n")
		return err
	}
	tables, err := column(ctx, conn, tablesSQL)
	if err != nil {
		return s, err
	}
	for _, table := range tables {
		created, err := column(ctx, conn, "SHOW CREATE TABLE "+quoted(table))
		if err != nil {
			return s, err
		}
		rows, err := column(ctx, conn, "SELECT 1 FROM "+quoted(table)+" LIMIT 1")
		if err != nil {
			return s, err
		}
		plain := autoIncrement.ReplaceAllString(created[0], "")
		if d.made.filled == nil && len(rows) > 0 {
			s.filled[table] = true
		}
		if s.filled[table] || d.made.filled[table] {
			definition.WriteString(created[0] + "\n")
			if err := note("CHECKSUM TABLE " + quoted(table)); err != nil {
				return s, err
			}
			continue
		}
		definition.WriteString(plain + "\n")
		if len(rows) > 0 || plain != created[0] {
			s.used = append(s.used, table)
		}
	}
	queries := []string{"SHOW CREATE DATABASE " + quoted(d.at.DBName), viewsSQL, triggersSQL, routinesSQL, jobsSQL,
		granteesSQL}
	for _, account := range d.accounts {
		queries = append(queries, "SHOW CREATE USER "+account.User, "SHOW GRANTS FOR "+account.User)
	}
	slices.Sort(queries)
	for _, query := range queries {
		if err := note(query); err != nil {
			return s, err
		}
	}
	s.definition = definition.String()
	return s, nil
}

// autoIncrement is where a table's next id stands in its definition, if the table ever had a row.
var autoIncrement = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

// column returns the second column of a query's rows, or the only one.
func column(ctx context.Context, conn *sql.Conn, query string) (values []string, err error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	found := make([]sql.NullString, len(names))
	into := make([]any, len(names))
	for i := range found {
		into[i] = &found[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		values = append(values, found[min(1, len(found)-1)].String)
	}
	return values, rows.Err()
}

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
