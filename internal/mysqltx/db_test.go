package mysqltx

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/migrated"
	"github.com/jajeong/jajeong/internal/text"
)

func TestMain(m *testing.M) { testenv.MainHostile(m) }

// newDB is a migrated database with one coupon.
func newDB(t *testing.T) *DB {
	t.Helper()
	pool := migrated.Open(t)
	_, err :=
		pool.Exec(
			"INSERT INTO coupon (name, total_quantity, apply_opens_at, apply_closes_at) VALUES ('c', 1, " +
				"'2026-11-01', '2026-12-01')")
	require.NoError(t, err)
	return New(pool)
}

// switchable leads to MySQL, or to a listener that counts connections and closes them.
type switchable struct {
	driver.Connector // to MySQL
	nowhere          driver.Connector
	shut             atomic.Bool
	turned           atomic.Int64
}

func newSwitchable(t *testing.T) *switchable {
	config, err := mysql.ParseDSN(testenv.MySQLFor(t).DSN)
	require.NoError(t, err)
	config.Logger = &mysql.NopLogger{}
	s := &switchable{}
	s.Connector, err = mysql.NewConnector(config)
	require.NoError(t, err)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.turned.Add(1)
			_ = conn.Close()
		}
	}()
	config = config.Clone()
	config.Addr = listener.Addr().String()
	s.nowhere, err = mysql.NewConnector(config)
	require.NoError(t, err)
	return s
}

func (s *switchable) Connect(ctx context.Context) (driver.Conn, error) {
	if s.shut.Load() {
		return s.nowhere.Connect(ctx)
	}
	return s.Connector.Connect(ctx)
}

func selectOne(ctx context.Context, q Querier, _ int) error {
	var one int
	return q.QueryRowContext(ctx, "SELECT 1").Scan(&one)
}

func TestOnConn_TriesOnceWhileMySQLIsAway(t *testing.T) {
	t.Parallel()
	s := newSwitchable(t)
	synctest.Test(t, func(t *testing.T) { // the pauses take no time
		pool := sql.OpenDB(s)
		pool.SetMaxIdleConns(-1) // none outlives its work
		defer pool.Close()
		d := New(pool)
		refused := func(connections int64) {
			t.Helper()
			before := s.turned.Load()
			err := d.OnConn(t.Context(), selectOne)
			require.Equal(t, connections, s.turned.Load()-before)
			require.True(t, IsAway(err), err)
			require.Equal(t, coupon.Infrastructure, ClassOf(err))
		}
		s.shut.Store(true)
		refused(maxAttempts + 1) // the last one asks whether the server refuses everything
		refused(1)
		refused(1)
		s.shut.Store(false)
		require.NoError(t, d.OnConn(t.Context(), selectOne))
		s.shut.Store(true)
		refused(maxAttempts + 1)
	})
}

func TestOnConn_RepeatsAfterTransientErrors(t *testing.T) {
	t.Parallel()
	s := newSwitchable(t)
	synctest.Test(t, func(t *testing.T) { // the pauses take no time
		pool := sql.OpenDB(s)
		defer pool.Close()
		d := New(pool)
		tries := func(failure error) (tried int) {
			err := d.OnConn(t.Context(), func(_ context.Context, _ Querier, attempt int) error {
				tried++
				require.Equal(t, tried, attempt)
				return failure
			})
			require.ErrorIs(t, err, failure)
			return tried
		}
		for number, want := range map[uint16]int{1213: maxAttempts, 1062: maxAttempts, 1146: 1, 1644: 1, 4025: 1} {
			require.Equal(t, want, tries(&mysql.MySQLError{Number: number}), number)
		}
		require.Equal(t, maxAttempts, tries(&net.OpError{Op: "read", Err: errors.New("reset")}),
			"of another server's connection")
		require.Equal(t, 1, tries(errors.New("3 rows stored, want 2")), "the program's own error")
		require.Equal(t, 1, tries(&coupon.Error{Class: coupon.Infrastructure, Err: errors.New("decided")}))
	})
}

func TestOnConn_LivingServerIsNotAway(t *testing.T) {
	t.Parallel()
	s := newSwitchable(t)
	synctest.Test(t, func(t *testing.T) { // the pauses take no time
		pool := sql.OpenDB(s)
		defer pool.Close()
		err := New(pool).OnConn(t.Context(), func(context.Context, Querier, int) error { return driver.ErrBadConn })
		require.ErrorIs(t, err, driver.ErrBadConn)
		require.False(t, IsAway(err))
	})
}

func TestDo_InterruptedErrorNamesTheResult(t *testing.T) {
	t.Parallel()
	d := newDB(t)
	ctx, stop := context.WithCancelCause(t.Context())
	err := d.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		_, err := tx.ExecContext(ctx, "UPDATE coupon SET name = 'd'")
		stop(errors.New("SIGTERM"))
		return err
	})
	var interrupted *Interrupted
	require.ErrorAs(t, err, &interrupted)
	require.ErrorContains(t, interrupted.Cause, "SIGTERM")
	require.False(t, interrupted.CommitUnknown)
	require.Equal(t, coupon.Infrastructure, ClassOf(err))
	var name string
	require.NoError(t, d.Pool().QueryRow("SELECT name FROM coupon").Scan(&name))
	require.Equal(t, "c", name)
}

// MySQL sends an error to an idle session that it ends; MariaDB closes the connection. Another session does the work.
func TestDo_ReplacesSessionThatTheServerEnded(t *testing.T) {
	t.Parallel()
	d := newDB(t)
	var used []uint64
	err := d.Do(t.Context(), func(ctx context.Context, tx *sql.Tx, _ int) error {
		var id uint64
		if err := tx.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			return err
		}
		used = append(used, id)
		if len(used) == 1 {
			if _, err := tx.ExecContext(ctx, "SET SESSION wait_timeout = 1"); err != nil {
				return err
			}
			testenv.Eventually(t, "the server gives the session up", func() bool {
				return testenv.Sessions(t, d.Pool(), func(s testenv.Session) bool { return s.ID == id }) == 0
			})
		}
		_, err := tx.ExecContext(ctx, "UPDATE coupon SET name = 'd'")
		return err
	})
	require.NoError(t, err)
	require.Len(t, used, 2)
	require.NotEqual(t, used[0], used[1])
}

// The statement waits for a row when an administrator kills it.
func TestDo_RepeatsAfterKillQuery(t *testing.T) {
	t.Parallel()
	d := newDB(t)
	other, err := d.Pool().Begin()
	require.NoError(t, err)
	defer func() { _ = other.Rollback() }()
	_, err = other.Exec("UPDATE coupon SET name = 'd'")
	require.NoError(t, err)
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		var waiting uint64
		testenv.Eventually(t, "the transaction waits", func() bool {
			return testenv.Sessions(t, d.Pool(), func(s testenv.Session) bool {
				waits := strings.Contains(s.Statement, "SET name = 'e'")
				if waits {
					waiting = s.ID
				}
				return waits
			}) == 1
		})
		_, err := d.Pool().Exec("KILL QUERY " + strconv.FormatUint(waiting, 10))
		assert.NoError(t, err)
	}()
	attempts := 0
	err = d.Do(t.Context(), func(ctx context.Context, tx *sql.Tx, attempt int) error {
		if attempts = attempt; attempt == 2 {
			<-killed
			require.NoError(t, other.Rollback())
		}
		_, err := tx.ExecContext(ctx, "UPDATE coupon SET name = 'e'")
		return err
	})
	require.NoError(t, err)
	require.Equal(t, 2, attempts)
}

// An account that has used up its connections is not a server that is away: no application goes to the DLQ.
func TestOnConn_AccountLimitIsNotAway(t *testing.T) {
	t.Parallel()
	server := testenv.MySQLFor(t)
	config, err := mysql.ParseDSN(server.DSN)
	require.NoError(t, err)
	config.User, config.Passwd = "one_"+strconv.FormatInt(time.Now().UnixNano()%1e12, 10), "secret"
	for _, statement := range []string{
		"CREATE USER '%s'@'%%' IDENTIFIED BY 'secret' WITH MAX_USER_CONNECTIONS 1", "GRANT ALL ON *.* TO '%s'@'%%'",
	} {
		_, err := server.DB.Exec(fmt.Sprintf(statement, config.User))
		require.NoError(t, err)
	}
	t.Cleanup(func() { _, _ = server.DB.Exec(fmt.Sprintf("DROP USER '%s'@'%%'", config.User)) })
	pool, err := (&connect.MySQLSettings{MySQLDSN: config.FormatDSN()}).Open(connect.Patient, zap.NewNop())
	require.NoError(t, err)
	defer pool.Close()
	only, err := pool.Conn(t.Context())
	require.NoError(t, err)
	defer only.Close()
	err = New(pool).Once(t.Context(), func(context.Context, Querier) error { return nil })
	require.ErrorContains(t, err, "1226")
	require.Equal(t, transient, kindOf(err))
}

// After a panic the connection is free for others.
func TestDo_PanicReturnsConnection(t *testing.T) {
	t.Parallel()
	d := newDB(t)
	d.Pool().SetMaxOpenConns(1)
	for range 3 {
		require.Panics(t, func() {
			_ = d.Do(t.Context(), func(context.Context, *sql.Tx, int) error { panic("a bug") })
		})
	}
	require.NoError(t, d.OnConn(t.Context(), func(context.Context, Querier, int) error { return nil }))
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	for want, numbers := range map[kind][]uint16{
		transient: {1205, 3572, 1467, 1213, 1020, 3101, 1317, 1028, 3, 1021, 1026, 1030, 1114, 1226},
		away:      {1047, 1053, 1927, 1180, 3032, 4031, 1040, 1203},
		readOnly:  {1290, 1792, 1836},
		duplicate: {1062},
		badRow:    {1265, 1366, 1644, 1048, 1172, 1242, 1451, 1452},
		check:     {3819, 4025},
		fatal:     {1044, 1045, 1054, 1142, 1146, 1206, 1, 65535},
	} {
		for _, number := range numbers {
			require.Equal(t, want, kindOf(fmt.Errorf("insert: %w", &mysql.MySQLError{Number: number})), number)
		}
	}
	for state, want := range map[string]kind{"22003": badRow, "45000": badRow, "42000": fatal, "23000": fatal,
		"HY000": fatal} {
		numbered := &mysql.MySQLError{Number: 31000, SQLState: [5]byte([]byte(state))}
		require.Equal(t, want, kindOf(numbered), state)
		numbered.Number = 1213
		require.Equal(t, transient, kindOf(numbered), state)
	}
	for _, broken := range []error{driver.ErrBadConn, mysql.ErrInvalidConn,
		&connectionError{errors.New("dial tcp: refused")}} {
		require.Equal(t, away, kindOf(fmt.Errorf("lock: %w", broken)))
	}
	require.Equal(t, transient, kindOf(fmt.Errorf("redis: %w", &net.OpError{Op: "dial", Err: errors.New("refused")})))
	require.Equal(t, own, kindOf(errors.New("2 rows, want 1")))
}

// connectorTo is a server to which no connection can be opened.
type connectorTo struct {
	driver.Connector
	err error
}

func (c connectorTo) Connect(context.Context) (driver.Conn, error) { return nil, c.err }

func TestConnecting_DistinguishesWrongSettingsFromServerThatIsAway(t *testing.T) {
	t.Parallel()
	for want, failures := range map[kind][]error{
		fatal: {
			mysql.ErrNoTLS, mysql.ErrPktTooLarge, mysql.ErrUnknownPlugin, tls.RecordHeaderError{Msg: "no TLS"},
			&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: new(x509.Certificate),
				Host: "mysql"}},
			&net.OpError{Op: "dial", Err: net.UnknownNetworkError("tpc")},
			&mysql.MySQLError{Number: 1045},
		},
		away: {
			&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, &net.DNSError{Err: "no such host"}, io.EOF,
			mysql.ErrInvalidConn,
			context.DeadlineExceeded, &mysql.MySQLError{Number: 1040},
		},
		transient: {&mysql.MySQLError{Number: 1226}},
	} {
		for _, failure := range failures {
			pool := sql.OpenDB(connectorTo{err: &connect.ConnectError{Err: fmt.Errorf("prepare session: %w", failure)}})
			err := New(pool).Once(t.Context(), func(context.Context, Querier) error { return nil })
			require.ErrorIs(t, err, failure)
			require.Equal(t, want, kindOf(err), "%T: %v", failure, failure)
			require.Equal(t, want, kindOf(pool.PingContext(t.Context())), "%T: %v", failure, failure)
			require.Equal(t, want == fatal, ClassOf(err) == coupon.Setup)
			require.NotEmpty(t, Advice(err))
			require.NoError(t, pool.Close())
		}
	}
}

func TestClassOf(t *testing.T) {
	t.Parallel()
	for number, want := range map[uint16]coupon.Class{1213: coupon.Infrastructure, 1467: coupon.Infrastructure,
		1290: coupon.Infrastructure,
		1062: coupon.Invariant, 1146: coupon.Setup, 1644: coupon.Setup, 3819: coupon.Invariant,
		4025: coupon.Invariant} {
		require.Equal(t, want, ClassOf(fmt.Errorf("x: %w", &mysql.MySQLError{Number: number})), number)
	}
	require.Equal(t, coupon.Infrastructure, ClassOf(driver.ErrBadConn))
	require.Equal(t, coupon.Infrastructure, ClassOf(&CommitUnknown{errors.New("reset")}))
	require.Equal(t, coupon.Infrastructure, ClassOf(context.DeadlineExceeded))
	require.Equal(t, coupon.Invariant, ClassOf(errors.New("2 rows, want 1")))
	require.Equal(t, coupon.Setup, ClassOf(fmt.Errorf("x: %w",
		&coupon.Error{Class: coupon.Setup, Err: errors.New("no such coupon")})))
}

func TestAdvice_NamesTheRemedy(t *testing.T) {
	t.Parallel()
	require.Equal(t, text.AdviseMigrate, Advice(&mysql.MySQLError{Number: 1146}))
	require.Equal(t, text.AdviseGrants, Advice(&mysql.MySQLError{Number: 1045}))
	require.Equal(t, text.AdviseRunAgain, Advice(driver.ErrBadConn))
	require.Empty(t, Advice(errors.New("2 rows, want 1")))
	require.Empty(t, Advice(&coupon.Error{Class: coupon.Setup, Err: errors.New("no such coupon")}))
}
