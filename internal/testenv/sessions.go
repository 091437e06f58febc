package testenv

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Session is a row of the database server's process list.
type Session struct {
	ID             uint64
	Command, State string
	Statement      string // complete
}

// Sessions counts the sessions in db's database that match. It reads SHOW PROCESSLIST, because MySQL's
// information_schema.PROCESSLIST has three bytes per character: a SELECT fails while any statement contains an emoji.
func Sessions(t testing.TB, db *sql.DB, match func(Session) bool) (n int) {
	t.Helper()
	found, err := sessions(t.Context(), db)
	if err != nil {
		t.Fatalf("testenv: ask for the sessions: %v", err)
	}
	for _, s := range found {
		if match(s) {
			n++
		}
	}
	return n
}

// EndSessions ends all other sessions in the database of db, and returns when they have ended. It needs a connection
// of its own.
func EndSessions(ctx context.Context, db *sql.Conn) error {
	var own uint64
	if err := db.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&own); err != nil {
		return err
	}
	tick := time.NewTicker(shortestPause)
	defer tick.Stop()
	for {
		found, err := sessions(ctx, db)
		found = slices.DeleteFunc(found, func(s Session) bool { return s.ID == own })
		if err != nil || len(found) == 0 {
			return err
		}
		for _, s := range found {
			if _, err := db.ExecContext(ctx, fmt.Sprintf("KILL %d", s.ID)); err != nil && !isNoSuchThread(err) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d sessions do not end: %w", len(found), ctx.Err())
		case <-tick.C:
		}
	}
}

func isNoSuchThread(err error) bool {
	var refused *mysql.MySQLError
	return errors.As(err, &refused) && refused.Number == 1094
}

// querier is a pool or a connection.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func sessions(ctx context.Context, db querier) (found []Session, err error) {
	var own string
	if err := db.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&own); err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, "SHOW FULL PROCESSLIST")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values := make([]sql.NullString, len(columns)) // MariaDB has one more
	into := make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := map[string]string{}
		for i, name := range columns {
			row[name] = values[i].String
		}
		if row["db"] != own {
			continue
		}
		id, err := strconv.ParseUint(row["Id"], 10, 64)
		if err != nil {
			return nil, err
		}
		found = append(found, Session{ID: id, Command: row["Command"], State: row["State"], Statement: row["Info"]})
	}
	return found, rows.Err()
}
