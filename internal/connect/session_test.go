package connect

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/hostile"
)

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := (&MySQLSettings{MySQLDSN: dsn}).Open(Patient, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// forcedVariables are the forced variables with their values, on MariaDB or MySQL.
func forcedVariables(onMariaDB bool) map[string]string {
	all := map[string]string{}
	for _, v := range Settling.variables() {
		if v.on == both || (v.on == mariadb) == onMariaDB {
			all[v.name] = v.want
		}
	}
	return all
}

// requireForced demands that a session has the forced variables.
func requireForced(t *testing.T, db *sql.DB) {
	t.Helper()
	for _, statement := range []string{
		"DROP TABLE IF EXISTS child, parent",
		"CREATE TABLE parent (id INT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL, CHECK (n < 100)) ENGINE=InnoDB",
		"CREATE TABLE child (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES parent (id)) ENGINE=InnoDB",
		"INSERT INTO parent (n) VALUES (1), (2), (3), (4), (5)",
		"UPDATE parent SET n = n + 1",
		"UPDATE parent SET n = n + '0' WHERE id = '1' || 0", // neither concatenation nor truncation
	} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err, statement)
	}
	for _, wrong := range []string{"INSERT INTO child VALUES (77)", "INSERT INTO parent (n) VALUES (100)",
		"INSERT INTO parent (n) VALUES ('many')"} {
		_, err := db.ExecContext(t.Context(), wrong)
		require.Error(t, err, wrong)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "UPDATE parent SET n = 50 WHERE n < ?", 3)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	rows, err := mysqltx.Column[int](t.Context(), db, "SELECT a.n FROM parent a CROSS JOIN parent b")
	require.NoError(t, err)
	require.Len(t, rows, 25)
	var text, collation string
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT '심야 쿠폰', COLLATION('a')").Scan(&text, &collation))
	require.Equal(t, "심야 쿠폰", text)
	require.Equal(t, "utf8mb4_unicode_ci", collation, "that of the tables")
}

// A DSN cannot change a forced variable.
func TestSession_ForcesVariablesAgainstTheDSN(t *testing.T) {
	t.Parallel()
	handle := testenv.MySQLFor(t)
	settings := hostile.Settings(t, handle.DB)
	_, onMariaDB := settings["tx_isolation"]
	hostile := hostile.DSN(t, handle.DSN, settings)
	db := open(t, hostile)
	requireForced(t, db)

	named := forcedVariables(onMariaDB)
	raw, err := sql.Open("mysql", hostile)
	require.NoError(t, err)
	defer raw.Close()
	for _, name := range []string{"character_set_client", "character_set_results", "character_set_connection",
		"collation_connection"} {
		require.Contains(t, named, name)
	}
	for name := range settings {
		require.Contains(t, named, name, "a setting that is hostile and not forced")
		var there string
		if name == "sql_select_limit" || name == "max_statement_time" {
			continue // no query succeeds under these
		}
		_ = raw.QueryRow("SELECT @@SESSION." + name).Scan(&there)
		require.NotEqual(t, named[name], there, "%s is not hostile", name)
	}
}

// A default of the server cannot change a forced variable either.
func TestSession_ForcesVariablesAgainstServerDefaults(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{Init: hostile.Globals()})
	admin, err := sql.Open("mysql", server.DSN(""))
	require.NoError(t, err)
	defer admin.Close()
	_, err = admin.Exec("CREATE DATABASE hostile")
	require.NoError(t, err)
	// Including those that would have kept the administrator from working.
	for name, value := range hostile.Settings(t, admin) {
		_, err := admin.Exec("SET GLOBAL " + name + " = " + value)
		require.NoError(t, err, name)
	}
	db := open(t, server.DSN("hostile"))
	requireForced(t, db)
	_, err = Migrate(t.Context(), db, "Asia/Seoul", nil)
	require.NoError(t, err)
}

// An account may lack the right to set a variable, and a proxy may ignore SET: the session is refused, and the error
// names the variable.
func TestSession_RefusesOtherVariables(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQLFor(t).DSN
	for name, value := range map[string]string{"insert_id": "7", "timestamp": "86400", "sql_log_bin": "0"} {
		config, err := mysql.ParseDSN(dsn)
		require.NoError(t, err)
		config.Params[name] = value
		err = open(t, config.FormatDSN()).PingContext(t.Context())
		var refused *SessionError
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, name, refused.Variable)
		require.True(t, refused.Setup(), "repeating does not help")
	}
	for _, onMariaDB := range []bool{true, false} {
		right := forcedVariables(onMariaDB)
		require.NoError(t, prove(Settling.variables(), right))
		for name := range right {
			other := maps.Clone(right)
			other[name] = "17"
			require.ErrorContains(t, prove(Settling.variables(), other), name+` is "17"`)
			delete(other, name)
			require.Error(t, prove(Settling.variables(), other), "%s is unknown to the server", name)
		}
	}
}

// The driver would send a zero time as '0000-00-00': an error of MySQL, and the earliest of all dates to MariaDB.
func TestSession_RefusesZeroTimes(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.MySQLFor(t).DSN)
	var zero time.Time
	for name, value := range map[string]any{"value": zero, "pointer": &zero,
		"valuer": sql.NullTime{Time: zero, Valid: true}} {
		_, err := db.ExecContext(t.Context(), "DO ?", value)
		require.ErrorIs(t, err, errZeroTime, name)
		require.ErrorIs(t, db.QueryRowContext(t.Context(), "SELECT ?", value).Err(), errZeroTime, name)
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), "DO ?", value)
		require.ErrorIs(t, err, errZeroTime, name)
		require.NoError(t, tx.Rollback())
	}
	for name, value := range map[string]any{"null": nil, "no time": (*time.Time)(nil), "no valid time": sql.NullTime{},
		"an early time": time.Unix(0, 0)} {
		_, err := db.ExecContext(t.Context(), "DO ?", value)
		require.NoError(t, err, name)
	}
}

// A smaller packet would hold the statements of a small test, and refuse those of a large coupon as syntax errors.
func TestSession_RefusesServerWithSmallPackets(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	admin, err := sql.Open("mysql", server.DSN(""))
	require.NoError(t, err)
	defer admin.Close()
	ping := func(size string) error { // in a session of its own, which begins with the size
		_, err := admin.ExecContext(t.Context(), "SET GLOBAL max_allowed_packet = "+size)
		require.NoError(t, err)
		return open(t, server.DSN("mysql")).PingContext(t.Context())
	}
	for size, is := range map[string]string{"1024": `"< `, "65536": `"65536"`} {
		err := ping(size)
		var refused *SessionError
		require.ErrorAs(t, err, &refused, size)
		require.ErrorContains(t, err, "max_allowed_packet is "+is)
		require.ErrorContains(t, err, "raise it on the MySQL server")
	}
	require.NoError(t, ping("4194304"))
}

// A server of another protocol may wait for the client to speak first, as Redis does.
func TestSession_GivesUpServerThatNeverSpeaks(t *testing.T) {
	t.Parallel()
	mysql.RegisterDialContext("silent", func(context.Context, string) (net.Conn, error) {
		ours, _ := net.Pipe()
		return ours, nil
	})
	synctest.Test(t, func(t *testing.T) { // the wait takes no time
		db, err := (&MySQLSettings{MySQLDSN: "user@silent(server)/database"}).Open(Patient, zap.NewNop())
		require.NoError(t, err)
		defer db.Close()
		began := time.Now()
		require.ErrorIs(t, db.PingContext(t.Context()), context.DeadlineExceeded)
		require.Equal(t, mysqlConnectTimeout, time.Since(began))
	})
}

// A session costs six statements: the driver reads the maximum packet and sets the character set, two statements set
// the rest, one reads the binlog settings, one verifies all. The seventh is that of the test.
func TestSession_CostsSixStatements(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.MySQLFor(t).DSN)
	var name string
	var before int
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.QueryRowContext(t.Context(), "SHOW SESSION STATUS LIKE 'Questions'").Scan(&name, &before))
	const ownParameters = 1 // of the test's DSN
	require.LessOrEqual(t, before-ownParameters, 7)
}

// After a machine has lost power during a settlement, its session must not lock the coupon's row for eight hours. A DSN
// cannot change that.
func TestSession_ServerEndsAbandonedOnes(t *testing.T) {
	t.Parallel()
	config, err := mysql.ParseDSN(testenv.MySQLFor(t).DSN)
	require.NoError(t, err)
	config.Params = map[string]string{"wait_timeout": "28800"}
	for patience, want := range map[Patience]int{Settling: 20, Brief: 5, Migrating: 300, Patient: 300} {
		db, err := (&MySQLSettings{MySQLDSN: config.FormatDSN()}).Open(patience, zap.NewNop())
		require.NoError(t, err)
		var silent, sends, receives int
		require.NoError(t, db.QueryRowContext(t.Context(),
			"SELECT @@SESSION.wait_timeout, @@SESSION.net_write_timeout, @@SESSION.net_read_timeout").Scan(&silent,
			&sends, &receives))
		require.Equal(t, []int{want, want, want}, []int{silent, sends, receives})
		require.NoError(t, db.Close())
	}

	db := open(t, config.FormatDSN())
	_, err = Migrate(t.Context(), db, "Asia/Seoul", nil)
	require.NoError(t, err)
	_, err = Migrate(t.Context(), db, "Asia/Seoul", nil)
	require.NoError(t, err, "the lock of the first migration is free")
}

// A statement that rebuilds a table is silent for as long as it takes, and a migration waits for it.
func TestPatience_BoundsAnswers(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQLFor(t).DSN
	require.Zero(t, Migrating.Answer)
	for answer, waits := range map[time.Duration]bool{time.Second: false, Migrating.Answer: true} {
		db, err := (&MySQLSettings{MySQLDSN: dsn}).Open(Patience{Locks: time.Second, Silent: time.Minute,
			Answer: answer}, zap.NewNop())
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), "DO SLEEP(2)")
		require.Equal(t, waits, err == nil, "%s: %v", answer, err)
		require.NoError(t, db.Close())
	}
}

func TestMetrics_CountConnections(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.MySQLFor(t).DSN)
	rdb, err := (&RedisSettings{RedisAddrs: testenv.RedisFor(t).Addrs}).Open()
	require.NoError(t, err)
	t.Cleanup(func() { rdb.Close() })
	require.NoError(t, rdb.Ping(t.Context()).Err())
	inUse, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer inUse.Close()

	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister((&Servers{MySQL: db, Redis: rdb}).Metrics())
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP jajeong_pool_connections Open connections, by server and state.
# TYPE jajeong_pool_connections gauge
jajeong_pool_connections{server="mysql",state="idle"} 0
jajeong_pool_connections{server="mysql",state="in_use"} 1
jajeong_pool_connections{server="redis",state="idle"} 1
jajeong_pool_connections{server="redis",state="in_use"} 0
`), "jajeong_pool_connections"))
	count, err := testutil.GatherAndCount(registry, "jajeong_pool_waits_total", "jajeong_pool_wait_seconds_total",
		"jajeong_pool_timeouts_total")
	require.NoError(t, err)
	require.Equal(t, 5, count)
}

// A server that takes no writes was the primary. All connections to it are left once one of them finds that out.
func TestSession_LeavesAReadOnlyServer(t *testing.T) {
	t.Parallel()
	db := open(t, testenv.MySQLFor(t).DSN)
	_, err := db.Exec("CREATE TABLE t (id INT PRIMARY KEY)")
	require.NoError(t, err)
	var conns [3]*sql.Conn
	var before, now [3]int
	ask := func(ids *[3]int) {
		for i := range conns {
			conns[i], err = db.Conn(t.Context())
			require.NoError(t, err)
			require.NoError(t, conns[i].QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&ids[i]))
		}
		for _, c := range conns {
			require.NoError(t, c.Close())
		}
		slices.Sort(ids[:])
	}
	ask(&before)
	ask(&now)
	require.Equal(t, before, now)

	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	require.NoError(t, err)
	_, err = tx.Exec("INSERT INTO t VALUES (1)")
	refusal, is := errors.AsType[*mysql.MySQLError](err)
	require.True(t, is)
	require.Contains(t, []uint16{1290, 1792}, refusal.Number)
	require.NoError(t, tx.Rollback())
	ask(&now)
	for _, id := range now {
		require.NotContains(t, before, id)
	}
	before = now
	ask(&now)
	require.Equal(t, before, now)
}
