package connect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/jajeong/jajeong/internal/text"
)

// family is a family of servers that has a variable.
type family string

const (
	both    family = ""
	mysql8  family = "/*!80000 %s */"   // MySQL 8.0 and later; MariaDB skips these
	mariadb family = "/*M!100600 %s */" // MariaDB 10.6 and later; MySQL skips these
)

// variable is a session variable that changes the effect or the meaning of SQL.
type variable struct {
	name string
	want string // as the server shows it; a list in any order
	on   family
	set  string // the value of SET if it is not want
	look string // the expression that shows the value if it is not the variable
}

// unset marks variables that an ordinary account may not set. They are right by default, and only verified.
const unset = "-"

const (
	packetVariable = "max_allowed_packet"

	unlimited = "18446744073709551615"
	// minPacket has room for the largest statement, which inserts 200 audit events and has 2 MB at most. The driver prepares a larger
	// statement instead, and the server reports a syntax error in it.
	minPacket = "4194304"
	charset   = "utf8mb4"
	collation = "utf8mb4_unicode_ci" // that of the tables
)

var sqlMode = strings.Join([]string{
	"STRICT_ALL_TABLES", "NO_ZERO_DATE", "NO_ZERO_IN_DATE", "ERROR_FOR_DIVISION_BY_ZERO", "NO_ENGINE_SUBSTITUTION"}, ",")

// sessionVariables are forced in this order.
var sessionVariables = []variable{
	// Transactions.
	{name: "autocommit", want: "1"},
	{name: "completion_type", want: "NO_CHAIN"}, // CHAIN would begin another transaction at each COMMIT
	{name: "transaction_isolation", want: "READ-COMMITTED", on: mysql8, set: unset},
	{name: "tx_isolation", want: "READ-COMMITTED", on: mariadb, set: unset},
	{name: "transaction_read_only", want: "0", on: mysql8, set: unset},
	{name: "tx_read_only", want: "0", on: mariadb, set: unset},

	// Texts and times.
	{name: "character_set_client", want: charset},
	{name: "character_set_results", want: charset},
	{name: "character_set_connection", want: charset},
	{name: "collation_connection", want: collation},
	{name: "time_zone", want: "+00:00", set: "'+00:00'"},
	{name: "timestamp", want: "1", set: unset, look: "ABS(TIMESTAMPDIFF(SECOND, NOW(), SYSDATE())) <= 5"}, // NOW() can be frozen

	// Errors and constraints.
	{name: "sql_mode", want: sqlMode, set: "'" + sqlMode + "'"},
	{name: "foreign_key_checks", want: "1"},
	{name: "unique_checks", want: "1"},
	{name: "check_constraint_checks", want: "1", on: mariadb},
	{name: "insert_id", want: "0", set: unset},   // the next AUTO_INCREMENT
	{name: "sql_log_bin", want: "1", set: unset}, // else replicas get no changes

	// Limits of SELECT and UPDATE.
	{name: "sql_select_limit", want: unlimited},
	{name: "max_join_size", want: unlimited},
	{name: "sql_big_selects", want: "1"}, // behind max_join_size, which changes it
	{name: "sql_safe_updates", want: "0"},
	{name: "sql_auto_is_null", want: "0"},
	{name: "div_precision_increment", want: "4"},
	{name: "group_concat_max_len", want: "1048576"},
	{name: packetVariable, want: minPacket, set: unset, look: "LEAST(@@SESSION.max_allowed_packet, " + minPacket + ")"},

	// Timeouts. mysqlIOTimeout bounds a statement; the server ends none by itself.
	{name: "innodb_lock_wait_timeout", want: strconv.Itoa(lockWaitSeconds)},
	{name: "lock_wait_timeout", want: strconv.Itoa(lockWaitSeconds)},
	{name: "wait_timeout", want: strconv.Itoa(abandonedSeconds)},
	{name: "max_execution_time", want: "0", on: mysql8},
	{name: "max_statement_time", want: "0", on: mariadb},
	{name: "idle_transaction_timeout", want: "0", on: mariadb}, // a settlement pauses for Redis
	{name: "idle_readonly_transaction_timeout", want: "0", on: mariadb},
	{name: "idle_write_transaction_timeout", want: "0", on: mariadb},
}

// isolationSQL is the same on MySQL and MariaDB; the variables have different names.
const isolationSQL = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE"

// settingSQL and provingSQL have the variables of one family in comments that only it executes.
var (
	settingSQL = "SET SESSION " + perVariable(func(v variable) string {
		switch v.set {
		case unset:
			return ""
		case "":
			return v.name + " = " + v.want
		default:
			return v.name + " = " + v.set
		}
	})
	provingSQL = "SELECT " + perVariable(func(v variable) string {
		if v.look != "" {
			return v.look + " AS " + v.name
		}
		return "@@SESSION." + v.name + " AS " + v.name
	})
)

func perVariable(sql func(variable) string) string {
	var all strings.Builder
	for _, v := range sessionVariables {
		part := sql(v)
		if part == "" {
			continue
		}
		if all.Len() > 0 {
			part = ", " + part
		}
		if v.on != both {
			part = fmt.Sprintf(string(v.on), part)
		}
		all.WriteString(part)
	}
	return all.String()
}

type session struct{ driver.Connector }

func (s session) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, mysqlConnectTimeout) // config.Timeout bounds the dialing only
	defer cancel()
	conn, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, &ConnectError{err}
	}
	err = prepare(ctx, conn)
	if errors.Is(err, mysql.ErrPktTooLarge) {
		err = &SessionError{packetVariable, minPacket, fmt.Sprintf("< %d", len(settingSQL))}
	}
	if err != nil {
		_ = conn.Close()
		return nil, &ConnectError{fmt.Errorf("prepare session: %w", err)}
	}
	return conn, nil
}

// ConnectError is an error of opening a session. If it is of the network, MySQL is away; else a setting is wrong.
type ConnectError struct{ Err error }

func (e *ConnectError) Error() string { return "connect to mysql: " + e.Err.Error() }
func (e *ConnectError) Unwrap() error { return e.Err }

// Connecting is for packages that do not import this one.
func (*ConnectError) Connecting() {}

func prepare(ctx context.Context, conn driver.Conn) error {
	for _, statement := range []string{isolationSQL, settingSQL} {
		if _, err := conn.(driver.ExecerContext).ExecContext(ctx, statement, nil); err != nil {
			return err
		}
	}
	if err := logRows(ctx, conn); err != nil {
		return fmt.Errorf("log rows: %w", err)
	}
	found, err := firstRow(ctx, conn, provingSQL)
	if err != nil {
		return err
	}
	return prove(found)
}

// firstRow returns the first row of a query by column, or values "<nil>" without a row.
func firstRow(ctx context.Context, conn driver.Conn, query string) (map[string]string, error) {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	values := make([]driver.Value, len(rows.Columns()))
	if err := rows.Next(values); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	found := map[string]string{}
	for i, name := range rows.Columns() {
		if text, ok := values[i].([]byte); ok {
			values[i] = string(text)
		}
		found[name] = fmt.Sprint(values[i])
	}
	return found, nil
}

// SessionError is a variable that was not set, as by a proxy that answers SET by itself: SQL could have another meaning.
type SessionError struct{ Variable, Want, Is string }

func (e *SessionError) Error() string { return e.In(text.English) }

func (e *SessionError) In(l text.Language) string {
	if e.Variable == packetVariable {
		return l.Sprintf(text.PacketTooSmall, e.Variable, e.Is, e.Want)
	}
	return l.Sprintf(text.WrongSession, e.Variable, e.Is, e.Want)
}

// Setup reports that repeating cannot help.
func (e *SessionError) Setup() bool { return true }

func prove(found map[string]string) error {
	known := mysql8
	if _, ok := found["tx_isolation"]; ok {
		known = mariadb
	}
	for _, v := range sessionVariables {
		is, ok := found[v.name]
		if v.on != both && v.on != known {
			continue
		}
		if !ok {
			is = "unknown"
		}
		if !sameList(is, v.want) {
			return &SessionError{v.name, v.want, is}
		}
	}
	return nil
}

// sameList compares lists in any order; any other value is a list of one.
func sameList(a, b string) bool {
	items := func(list string) []string { return slices.Sorted(strings.SplitSeq(list, ",")) }
	return slices.Equal(items(a), items(b))
}

// InnoDB takes no writes at READ COMMITTED from a session with a binary log of statements.
const (
	binlogSQL  = "SELECT @@log_bin + 0 AS logs, @@SESSION.binlog_format AS format"
	logRowsSQL = "SET SESSION binlog_format = 'ROW'"
)

const (
	unknownVariable = 1193 // error numbers
	accessDenied    = 1227

	binlogTimeout = 3 * time.Second
)

// logRows makes the server log changes as rows, if the account may set that; otherwise the session can only read.
func logRows(ctx context.Context, conn driver.Conn) error {
	found, err := firstRow(ctx, conn, binlogSQL)
	if err == nil && isStatements(found["logs"], found["format"]) {
		_, err = conn.(driver.ExecerContext).ExecContext(ctx, logRowsSQL, nil)
	}
	refusal, ok := errors.AsType[*mysql.MySQLError](err)
	if ok && (refusal.Number == unknownVariable || refusal.Number == accessDenied) {
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
