package connect

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/jajeong/jajeong/internal/durability"
	"github.com/jajeong/jajeong/internal/text"
)

// family is a format for SQL that only one family of servers executes.
type family string

const (
	both    family = ""
	mysql8  family = "/*!80000 %s */"   // MySQL 8.0 and later; MariaDB skips these
	mariadb family = "/*M!100600 %s */" // MariaDB 10.6 and later; MySQL skips these
)

type variable struct {
	name string
	want string // the value as the server shows it; the items of a list may be in any order
	on   family
	set  string // the value in the SET statement; empty: want
	look string // the SQL expression that shows the value; empty: the variable itself
}

// unset marks variables that settingSQL only verifies: an ordinary account may not set them, or isolationSQL sets them.
const unset = "-"

const (
	packetVariable = "max_allowed_packet"

	unlimited = "18446744073709551615"
	// minPacket, in bytes, has room for the largest statement: 200 audit events in at most 2 MB. If a statement were
	// larger than a packet, the driver would prepare it, and the server would report a syntax error.
	minPacket = "4194304"
	charset   = "utf8mb4"
	collation = "utf8mb4_unicode_ci" // the collation of the tables
)

// Patience says how long the sessions of a pool wait for others, and how long the server waits for them.
type Patience struct {
	Locks  time.Duration // longest wait for the lock of a row or a table, in whole seconds
	Silent time.Duration // the server ends a session that neither sends nor reads for so long; in whole seconds
	Answer time.Duration // longest wait for the answer to a statement; 0: as long as it takes
}

// answer is several times as long as the slowest statements take: a lock wait, a page of 20,000 rows, a COMMIT of a
// million. A server that died without a word is left after it.
const answer = 30 * time.Second

var (
	// Settling is for settlements, restores, reports and changes by operators. In a transaction they wait for Redis,
	// which may refuse a command for some seconds. If their machine stops, others get the locks after Silent.
	Settling = Patience{Locks: 10 * time.Second, Silent: 20 * time.Second, Answer: answer}
	// Brief is for work that comes again by itself, and for which others wait.
	Brief = Patience{Locks: 2 * time.Second, Silent: 5 * time.Second, Answer: answer}
	// Migrating is for migrations: while a statement builds the index of a large table, the server sends nothing. While
	// it waits for the lock of a table, everybody else waits behind it.
	Migrating = Patience{Locks: 2 * time.Second, Silent: 5 * time.Minute}
	// Patient is for benches and tests: nobody else waits for their locks.
	Patient = Patience{Locks: 10 * time.Second, Silent: 5 * time.Minute}
)

var sqlMode = strings.Join([]string{
	"STRICT_ALL_TABLES", "NO_ZERO_DATE", "NO_ZERO_IN_DATE", "ERROR_FOR_DIVISION_BY_ZERO", "NO_ENGINE_SUBSTITUTION"},
	",")

// sessionVariables are the variables that change what SQL does or means, except those of Patience. They are set in this
// order.
var sessionVariables = []variable{
	{name: "autocommit", want: "1"},
	{name: "completion_type", want: "NO_CHAIN"}, // CHAIN would begin another transaction at each COMMIT
	{name: "transaction_isolation", want: "READ-COMMITTED", on: mysql8, set: unset},
	{name: "tx_isolation", want: "READ-COMMITTED", on: mariadb, set: unset},
	{name: "transaction_read_only", want: "0", on: mysql8, set: unset},
	{name: "tx_read_only", want: "0", on: mariadb, set: unset},

	{name: "character_set_client", want: charset},
	{name: "character_set_results", want: charset},
	{name: "character_set_connection", want: charset},
	{name: "collation_connection", want: collation},
	{name: "time_zone", want: "+00:00", set: "'+00:00'"},
	// In a session that has set the variable "timestamp", NOW() stands still.
	{name: "timestamp", want: "1", set: unset, look: "ABS(TIMESTAMPDIFF(SECOND, NOW(), SYSDATE())) <= 5"},

	{name: "sql_mode", want: sqlMode, set: "'" + sqlMode + "'"},
	{name: "foreign_key_checks", want: "1"},
	{name: "unique_checks", want: "1"},
	{name: "check_constraint_checks", want: "1", on: mariadb},
	{name: "insert_id", want: "0", set: unset},   // any other value would be the next AUTO_INCREMENT
	{name: "sql_log_bin", want: "1", set: unset}, // with 0, replicas would get no changes

	{name: "sql_select_limit", want: unlimited},
	{name: "max_join_size", want: unlimited},
	{name: "sql_big_selects", want: "1"}, // set after max_join_size, which changes sql_big_selects
	{name: "sql_safe_updates", want: "0"},
	{name: "sql_auto_is_null", want: "0"},
	{name: "div_precision_increment", want: "4"},
	{name: "group_concat_max_len", want: "1048576"},
	{name: packetVariable, want: minPacket, set: unset, look: "LEAST(@@SESSION.max_allowed_packet, " + minPacket + ")"},

	// The server must not end a statement by itself: Patience.Answer bounds it.
	{name: "max_execution_time", want: "0", on: mysql8},
	{name: "max_statement_time", want: "0", on: mariadb},
	{name: "idle_transaction_timeout", want: "0", on: mariadb}, // a settlement waits for Redis in its transaction
	{name: "idle_readonly_transaction_timeout", want: "0", on: mariadb},
	{name: "idle_write_transaction_timeout", want: "0", on: mariadb},
}

// variables returns sessionVariables with those of a pool.
func (p Patience) variables() []variable {
	seconds := func(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
	return append(slices.Clone(sessionVariables),
		variable{name: "innodb_lock_wait_timeout", want: seconds(p.Locks)},
		variable{name: "lock_wait_timeout", want: seconds(p.Locks)},
		variable{name: "wait_timeout", want: seconds(p.Silent)},
		variable{name: "net_write_timeout", want: seconds(p.Silent)}, // while it sends a result
		variable{name: "net_read_timeout", want: seconds(p.Silent)})  // while it receives a statement
}

// isolationSQL has the same syntax on MySQL and MariaDB; the names of the isolation variables differ.
const isolationSQL = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE"

// settingSQL sets variables. Each family of servers skips those of the other.
func settingSQL(all []variable) string {
	return "SET SESSION " + perVariable(all, func(v variable) string {
		switch v.set {
		case unset:
			return ""
		case "":
			return v.name + " = " + v.want
		default:
			return v.name + " = " + v.set
		}
	})
}

// provingSQL reads variables.
func provingSQL(all []variable) string {
	return "SELECT " + perVariable(all, func(v variable) string {
		if v.look != "" {
			return v.look + " AS " + v.name
		}
		return "@@SESSION." + v.name + " AS " + v.name
	})
}

func perVariable(variables []variable, sql func(variable) string) string {
	var all strings.Builder
	for _, v := range variables {
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

type session struct {
	driver.Connector
	variables      []variable
	settles        bool // transactions may be large
	singleWriter   bool
	requireDurable bool
	leavings       *atomic.Int64 // how often the pool has left its server
}

func (s session) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, mysqlConnectTimeout) // config.Timeout bounds only the dialing
	defer cancel()
	leavings := s.leavings.Load()
	conn, err := s.open(ctx)
	if err != nil {
		return nil, &ConnectError{err}
	}
	err = s.prepare(ctx, conn)
	if errors.Is(err, mysql.ErrPktTooLarge) {
		err = &SessionError{packetVariable, minPacket, fmt.Sprintf("< %d", len(settingSQL(s.variables)))}
	}
	if err != nil {
		_ = conn.Close()
		return nil, &ConnectError{fmt.Errorf("prepare session: %w", err)}
	}
	return &strictConn{mysqlConn: conn.(mysqlConn), ofGalera: s.singleWriter, opened: leavings,
		leavings: s.leavings}, nil
}

// open opens a connection. By TLS 1.3, a server refuses a certificate after the handshake, and the driver does not tell
// why the connection ended. A server that has just died does not answer again: one that ends a second connection like
// the first refuses.
func (s session) open(ctx context.Context) (driver.Conn, error) {
	for again := false; ; again = true {
		var asked bool
		conn, err := s.Connector.Connect(context.WithValue(ctx, askedKey{}, &asked))
		ended := errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn)
		if !asked || !ended {
			return conn, tlsProblem(err, text.MySQLTLSFails)
		}
		if again {
			return nil, text.UsageErrorf(text.MySQLTLSFails, err)
		}
	}
}

// askedKey is for a *bool: the server has asked for the certificate of this client.
type askedKey struct{}

// noteAsked notes in ctx that the server asks for a certificate. It changes the config of one connection.
func noteAsked(ctx context.Context, one *mysql.Config) error {
	if one.TLS == nil || one.TLS.GetClientCertificate == nil {
		return nil
	}
	read := one.TLS.GetClientCertificate
	one.TLS.GetClientCertificate = func(of *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		*ctx.Value(askedKey{}).(*bool) = true
		return read(of)
	}
	return nil
}

// mysqlConn has all interfaces of the driver's connection. database/sql looks for each of them.
type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// strictConn refuses a zero time, and leaves a server that is no primary any more: see left.go.
type strictConn struct {
	mysqlConn
	ofGalera bool          // GALERA_SINGLE_WRITER: reads wait until the node has applied what others committed
	left     bool          // database/sql does not use the connection again
	opened   int64         // the leavings when it was opened: after others, it is not used again either
	leavings *atomic.Int64 // of its pool
}

var errZeroTime = errors.New("a zero time is no value for a statement")

// CheckNamedValue refuses a zero time. The driver would send '0000-00-00', which MySQL refuses in a comparison and
// MariaDB takes for a date before all others. Statements that are prepared are not checked; Jajeong has none.
func (c *strictConn) CheckNamedValue(value *driver.NamedValue) error {
	if err := c.mysqlConn.CheckNamedValue(value); err != nil {
		return err
	}
	if at, is := value.Value.(time.Time); is && at.IsZero() {
		return errZeroTime
	}
	return nil
}

// ConnectError says that no session was opened. If it wraps a network error, MySQL is away; else a setting is wrong.
type ConnectError struct{ Err error }

func (e *ConnectError) Error() string { return "connect to mysql: " + e.Err.Error() }
func (e *ConnectError) Unwrap() error { return e.Err }

// Connecting lets a package recognise a ConnectError without importing this package.
func (*ConnectError) Connecting() {}

func (s session) prepare(ctx context.Context, conn driver.Conn) error {
	for _, statement := range []string{isolationSQL, settingSQL(s.variables)} {
		if _, err := conn.(driver.ExecerContext).ExecContext(ctx, statement, nil); err != nil {
			return err
		}
	}
	server, err := shown(ctx, conn, serverSQL)
	if err != nil && !errors.As(err, new(*mysql.MySQLError)) { // no proxy has to show variables
		return err
	}
	if err := logRows(ctx, conn, server); err != nil {
		return fmt.Errorf("log rows: %w", err)
	}
	found, err := firstRow(ctx, conn, provingSQL(s.variables))
	if err != nil {
		return err
	}
	if err := prove(s.variables, found); err != nil {
		return err
	}
	return s.suit(ctx, conn, server)
}

// firstRow returns the values of the first row by column name. If there is no row, every value is "<nil>".
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

// SessionError says that a session variable has a wrong value, for example because a proxy dropped the SET.
type SessionError struct{ Variable, Want, Is string }

func (e *SessionError) Error() string { return e.In(text.English) }

func (e *SessionError) In(l text.Language) string {
	if e.Variable == packetVariable {
		return l.Sprintf(text.PacketTooSmall, e.Variable, e.Is, e.Want)
	}
	return l.Sprintf(text.WrongSession, e.Variable, e.Is, e.Want)
}

// Setup tells that a setting is wrong: repeating does not help.
func (e *SessionError) Setup() bool { return true }

func prove(all []variable, found map[string]string) error {
	known := mysql8
	if _, ok := found["tx_isolation"]; ok {
		known = mariadb
	}
	for _, v := range all {
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

// sameList compares two comma-separated lists. The order of the items does not matter.
func sameList(a, b string) bool {
	items := func(list string) []string { return slices.Sorted(strings.SplitSeq(list, ",")) }
	return slices.Equal(items(a), items(b))
}

// InnoDB refuses writes at READ COMMITTED while the format of the binary log is STATEMENT.
const (
	binlogSQL  = "SELECT @@log_bin + 0 AS logs, @@SESSION.binlog_format AS format"
	logRowsSQL = "SET SESSION binlog_format = 'ROW'"

	statementFormat = "STATEMENT"
)

const (
	unknownVariable = 1193 // error number of MySQL
	accessDenied    = 1227 // error number of MySQL

	binlogTimeout = 3 * time.Second
)

// logRows sets the format of the binary log to ROW. If the account may not set it, the session can read but not write.
func logRows(ctx context.Context, conn driver.Conn, server map[string]string) error {
	if !durability.IsOn(server["log_bin"]) || !strings.EqualFold(server["binlog_format"], statementFormat) {
		return nil
	}
	_, err := conn.(driver.ExecerContext).ExecContext(ctx, logRowsSQL, nil)
	refusal, ok := errors.AsType[*mysql.MySQLError](err)
	if ok && (refusal.Number == unknownVariable || refusal.Number == accessDenied) {
		return nil
	}
	return err
}

// LogsStatements reports whether the server answers that its binary log format is STATEMENT: it then refuses writes.
func LogsStatements(ctx context.Context, db *sql.DB) bool {
	ctx, cancel := context.WithTimeout(ctx, binlogTimeout)
	defer cancel()
	var logs, format string
	return db.QueryRowContext(ctx, binlogSQL).Scan(&logs, &format) == nil && logs == "1" &&
		strings.EqualFold(format, statementFormat)
}
