package testenv

import (
	"context"
	"database/sql"
	"strconv"
	"testing"
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

func sessions(ctx context.Context, db *sql.DB) (found []Session, err error) {
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
