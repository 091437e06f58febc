package testenv

import (
	"context"
	"database/sql"
	"strconv"
	"testing"
)

// Session is what a database server says of one of its sessions.
type Session struct {
	ID             uint64
	Command, State string
	Statement      string // as it came, cut nowhere
}

// Sessions returns how many sessions in db's database are as the test asks. SHOW tells of them, since MySQL keeps
// information_schema.PROCESSLIST in three bytes a character: to read it fails while a statement of anybody holds an emoji.
func Sessions(t testing.TB, db *sql.DB, as func(Session) bool) (n int) {
	t.Helper()
	found, err := sessions(t.Context(), db)
	if err != nil {
		t.Fatalf("testenv: ask for the sessions: %v", err)
	}
	for _, s := range found {
		if as(s) {
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
		told := map[string]string{}
		for i, name := range columns {
			told[name] = values[i].String
		}
		if told["db"] != own {
			continue
		}
		id, err := strconv.ParseUint(told["Id"], 10, 64)
		if err != nil {
			return nil, err
		}
		found = append(found, Session{ID: id, Command: told["Command"], State: told["State"], Statement: told["Info"]})
	}
	return found, rows.Err()
}
