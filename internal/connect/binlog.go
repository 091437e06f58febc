package connect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// InnoDB takes no writes at READ COMMITTED from a session with a binary log of statements.
const (
	binlogSQL  = "SELECT @@log_bin + 0, @@SESSION.binlog_format"
	logRowsSQL = "SET SESSION binlog_format = 'ROW'"
)

const (
	unknownVariable = 1193 // error numbers
	accessDenied    = 1227

	binlogTimeout = 3 * time.Second
)

// logRows makes the server log changes as rows, if the account may set that; otherwise the session can only read.
func logRows(ctx context.Context, conn driver.Conn) error {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, binlogSQL, nil)
	if isNumber(err, unknownVariable) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read binlog_format: %w", err)
	}
	found := make([]driver.Value, 2)
	err = rows.Next(found)
	if end := rows.Close(); err == nil {
		err = end
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read binlog_format: %w", err)
	}
	if !isStatements(asText(found[0]), asText(found[1])) {
		return nil
	}
	_, err = conn.(driver.ExecerContext).ExecContext(ctx, logRowsSQL, nil)
	if isNumber(err, accessDenied) {
		return nil
	}
	return err
}

// LogsStatements reports whether the server logs statements, and therefore refuses every write. It is false if the server
// does not answer.
func LogsStatements(ctx context.Context, db *sql.DB) bool {
	ctx, cancel := context.WithTimeout(ctx, binlogTimeout)
	defer cancel()
	var logs, format string
	return db.QueryRowContext(ctx, binlogSQL).Scan(&logs, &format) == nil && isStatements(logs, format)
}

func isStatements(logs, format string) bool {
	return logs == "1" && strings.EqualFold(format, "STATEMENT")
}

func isNumber(err error, number uint16) bool {
	numbered, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && numbered.Number == number
}

func asText(v driver.Value) string {
	if bytes, ok := v.([]byte); ok {
		return string(bytes)
	}
	return fmt.Sprint(v)
}
