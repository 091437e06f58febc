package connect_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/durability"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/topology"
	"github.com/jajeong/jajeong/internal/text"
)

// ping opens a session with these settings.
func ping(t *testing.T, s connect.MySQLSettings) error {
	t.Helper()
	db, err := s.Open(connect.Settling, zap.NewNop())
	testenv.Opened(t, db, err)
	return db.PingContext(t.Context())
}

func requireRefused(t *testing.T, err error, m text.Message, contains string) {
	t.Helper()
	require.True(t, text.Is(err, m), "%v", err)
	require.Contains(t, err.Error(), contains)
	require.Equal(t, coupon.Setup, mysqltx.ClassOf(err))
}

func TestGalera(t *testing.T) {
	t.Parallel()
	g := topology.StartGalera(t, 2)
	t.Run("is refused unless it suits", func(t *testing.T) { testSuits(t, g) })
	t.Run("a node that has left is left", func(t *testing.T) { testLeft(t, g) })
}

// A program is told at its start, not by a COMMIT at midnight.
func testSuits(t *testing.T, g *topology.Galera) {
	dsn := g.Nodes[0].DSN("mysql")
	db, err := sql.Open("mysql", dsn)
	testenv.Opened(t, db, err)
	set := func(variable string, value int) {
		_, err := db.ExecContext(t.Context(), "SET GLOBAL "+variable+" = ?", value)
		require.NoError(t, err)
	}
	requireRefused(t, ping(t, connect.MySQLSettings{MySQLDSN: dsn}), text.GaleraWriters, "GALERA_SINGLE_WRITER=true")
	one := connect.MySQLSettings{MySQLDSN: dsn, GaleraSingleWriter: true}
	require.NoError(t, ping(t, one))
	set("wsrep_max_ws_rows", 131072)
	requireRefused(t, ping(t, one), text.GaleraLimit, "wsrep_max_ws_rows of the Galera node is 131072")
	api, err := one.Open(connect.Brief, zap.NewNop())
	testenv.Opened(t, api, err)
	require.NoError(t, api.PingContext(t.Context()), "its transactions are small")
	set("wsrep_max_ws_rows", 0)
	set("wsrep_max_ws_size", 1<<30)
	requireRefused(t, ping(t, one), text.GaleraLimit, "wsrep_max_ws_size of the Galera node is 1073741824")
	set("wsrep_max_ws_size", 1<<31-1)
	require.NoError(t, ping(t, one))

	session, err := one.Open(connect.Patient, zap.NewNop())
	testenv.Opened(t, session, err)
	var waits int
	require.NoError(t, session.QueryRowContext(t.Context(), "SELECT @@SESSION.wsrep_sync_wait").Scan(&waits))
	require.Equal(t, 1, waits)
}

// The node is not ready. A transaction that it could not roll back is not committed when the node is back.
func testLeft(t *testing.T, g *topology.Galera) {
	settings := connect.MySQLSettings{MySQLDSN: g.Nodes[0].DSN("mysql"), GaleraSingleWriter: true}
	session, err := settings.Open(connect.Patient, zap.NewNop())
	testenv.Opened(t, session, err)
	g.Exec(t, 0, "CREATE TABLE mysql.left_behind (id INT PRIMARY KEY)")
	session.SetMaxOpenConns(1)
	tx, err := session.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "INSERT INTO left_behind VALUES (1)")
	require.NoError(t, err)
	require.NoError(t, g.Nodes[1].Kill())
	refused := func(err error, number uint16) bool {
		refusal, ok := errors.AsType[*mysql.MySQLError](err)
		return ok && refusal.Number == number
	}
	testenv.Eventually(t, "the node refuses statements", func() bool {
		_, err := g.On(0).ExecContext(t.Context(), "SELECT id FROM mysql.left_behind")
		return refused(err, 1047)
	})
	require.True(t, refused(tx.Rollback(), 1047))
	require.True(t, refused(session.PingContext(t.Context()), 1205))
	require.Zero(t, session.Stats().OpenConnections)

	g.Exec(t, 0, "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=1'")
	testenv.Eventually(t, "the node is back", func() bool { return session.PingContext(t.Context()) == nil })
	tx, err = session.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	var rows int
	require.NoError(t, session.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM left_behind").Scan(&rows))
	require.Zero(t, rows)
}

func TestRequireDurable(t *testing.T) {
	t.Parallel()
	r := topology.StartReplicated(t, topology.ReplicatedOptions{SemiSync: true, MariaDB: true})
	s := connect.MySQLSettings{MySQLDSN: r.Primary.DSN("mysql"), RequireDurable: true}
	db, err := sql.Open("mysql", r.Primary.DSN("mysql"))
	testenv.Opened(t, db, err)
	found := func() (all []string) {
		weak, err := durability.Look(t.Context(), durability.Of(db))
		require.NoError(t, err)
		for _, f := range weak {
			require.Equal(t, durability.Weak, f.Code)
			all = append(all, f.String())
		}
		return all
	}
	set := func(change string) {
		_, err := db.ExecContext(t.Context(), "SET GLOBAL "+change)
		require.NoError(t, err)
	}
	set("innodb_flush_log_at_trx_commit = 1")
	set("sync_binlog = 1")
	require.Empty(t, found())
	require.NoError(t, ping(t, s))
	for _, weaker := range [][3]string{{"innodb_flush_log_at_trx_commit", "2", "1"}, {"sync_binlog", "0", "1"},
		{"rpl_semi_sync_master_wait_point", "AFTER_COMMIT", "AFTER_SYNC"},
		{"rpl_semi_sync_master_timeout", "10000", "3600000"}, {"rpl_semi_sync_master_enabled", "OFF", "ON"}} {
		variable, weak, strong := weaker[0], weaker[1], weaker[2]
		set(variable + " = " + weak)
		require.Len(t, found(), 1)
		require.Contains(t, found()[0], variable+"="+weak+" → ")
		requireRefused(t, ping(t, s), text.NotDurable, found()[0])
		set(variable + " = " + strong)
	}
	require.Empty(t, found())

	// Without a replica, commits wait. The first one after the timeout makes it asynchronous.
	r.Behind(t)
	testenv.Eventually(t, "the replica has left", func() bool {
		return slices.Equal(found(), []string{"Rpl_semi_sync_master_clients=0 → >= 1"})
	})
	err = ping(t, s)
	require.ErrorContains(t, err, "Rpl_semi_sync_master_clients=0")
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err), "a replica comes back")
	set("rpl_semi_sync_master_timeout = 1")
	_, err = db.ExecContext(t.Context(), "CREATE DATABASE jajeong")
	require.NoError(t, err)
	set("rpl_semi_sync_master_timeout = 3600000")
	require.Equal(t, []string{"Rpl_semi_sync_master_status=OFF → ON", "Rpl_semi_sync_master_clients=0 → >= 1"},
		found())
	err = ping(t, s)
	require.ErrorContains(t, err, "Rpl_semi_sync_master_status=OFF")
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err), "a replica comes back")
}

// A server that does not show its variables is not said to keep what it commits.
func TestDurability_OfAServerThatShowsNothing(t *testing.T) {
	t.Parallel()
	weak, err := durability.Look(t.Context(), func(context.Context, string) (map[string]string, error) {
		return map[string]string{}, nil
	})
	require.NoError(t, err)
	var all []string
	for _, f := range weak {
		require.Equal(t, durability.Unknown, f.Code)
		all = append(all, f.Variable)
	}
	require.Equal(t, "innodb_flush_log_at_trx_commit sync_binlog rpl_semi_sync_source_enabled", strings.Join(all, " "))
}
