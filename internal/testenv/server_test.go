package testenv

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv/process"
)

func TestRedisAppendOnlySurvivesKill(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := PrivateRedis(t, RedisOptions{AppendOnly: true})
	client := RedisClient(t, r.Addr())
	require.NoError(t, client.Set(ctx, "kept", "yes", 0).Err())
	addr, pid := r.Addr(), r.Pid()

	require.NoError(t, r.Kill())
	requireGone(t, pid)
	require.Error(t, client.Ping(ctx).Err())
	require.NoError(t, r.Kill(), "again")

	require.NoError(t, r.Restart(ctx))
	require.Equal(t, addr, r.Addr())
	require.NotEqual(t, pid, r.Pid())
	require.Equal(t, "yes", client.Get(ctx, "kept").Val())
	require.NoError(t, r.Restart(ctx), "of a running server")
	require.Equal(t, "yes", client.Get(ctx, "kept").Val())
}

func TestMySQLCommitsSurviveKill(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := PrivateMySQL(t, MySQLOptions{})
	db := openDB(t, m.DSN("mysql"))
	_, err := db.ExecContext(ctx, "CREATE DATABASE kept")
	require.NoError(t, err)
	_, err = db.ExecContext(ctx, "CREATE TABLE kept.t (id INT PRIMARY KEY) ENGINE=InnoDB")
	require.NoError(t, err)
	// Each INSERT is one commit: the last one must survive, too.
	for id := range 100 {
		_, err = db.ExecContext(ctx, "INSERT INTO kept.t VALUES (?)", id)
		require.NoError(t, err)
	}

	require.NoError(t, m.Kill())
	require.Error(t, db.PingContext(ctx))
	require.NoError(t, m.Restart(ctx))
	var rows int
	require.NoError(t, db.QueryRowContext(ctx, "SELECT COUNT(*) FROM kept.t").Scan(&rows))
	require.Equal(t, 100, rows)
}

func TestFreezeAndThaw(t *testing.T) {
	t.Parallel()
	r := PrivateRedis(t, RedisOptions{})
	client := RedisClient(t, r.Addr())
	require.NoError(t, client.Ping(t.Context()).Err())

	require.NoError(t, r.Freeze())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.Error(t, client.Ping(ctx).Err())

	require.NoError(t, r.Thaw())
	require.NoError(t, client.Ping(t.Context()).Err())

	require.NoError(t, r.Freeze())
	require.NoError(t, r.Kill(), "also when frozen")
	require.Error(t, r.Freeze(), "of a server that is down")
}

func TestStopRemovesEverything(t *testing.T) {
	t.Parallel()
	r := PrivateRedis(t, RedisOptions{AppendOnly: true})
	m := PrivateMySQL(t, MySQLOptions{})
	for _, s := range []*process.Server{r.Server, m.Server} {
		pid := s.Pid()
		require.DirExists(t, s.Dir())
		require.NoError(t, s.Stop())
		requireGone(t, pid)
		require.NoDirExists(t, s.Dir())
		require.Zero(t, s.Pid())
		require.NoError(t, s.Stop(), "again")
		require.NoError(t, s.Kill())
		require.Error(t, s.Restart(t.Context()))
	}
}

func TestStartFailureShowsServerLog(t *testing.T) {
	NeedsServers(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	_, err := StartRedis(t.Context(), RedisOptions{Args: []string{"--no-such-setting", "1"}})
	require.ErrorIs(t, err, process.ErrExited)
	require.ErrorContains(t, err, "no-such-setting")
	require.ErrorContains(t, err, "make setup")
	require.ErrorContains(t, err, "TEST_REDIS_ADDRS")

	_, err = StartMySQL(t.Context(), MySQLOptions{Args: []string{"--no-such-setting=1"}})
	require.ErrorIs(t, err, process.ErrExited)
	require.ErrorContains(t, err, "no-such-setting")
	require.ErrorContains(t, err, "make setup")
	require.ErrorContains(t, err, "TEST_MYSQL_DSN")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = StartRedis(ctx, RedisOptions{})
	require.ErrorIs(t, err, context.Canceled)
	t.Setenv("TESTENV_MYSQLD", filepath.Join(tmp, "mysqld"))
	_, err = StartMySQL(t.Context(), MySQLOptions{})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "make setup")
	require.Empty(t, entries(t, tmp), "nothing left behind")
}

func TestFailedInstallationLeavesNothing(t *testing.T) {
	programs, tmp := t.TempDir(), t.TempDir()
	for name, script := range map[string]string{
		"mariadbd":           "#!/bin/sh\necho Ver 0.0-MariaDB\n",
		"mariadb-install-db": "#!/bin/sh\necho no tables today >&2\nexit 1\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(programs, name), []byte(script), 0o700))
	}
	t.Setenv("TESTENV_MYSQLD", filepath.Join(programs, "mariadbd"))
	t.Setenv("TMPDIR", tmp)
	_, err := StartMySQL(t.Context(), MySQLOptions{})
	require.ErrorContains(t, err, "run mariadb-install-db")
	require.ErrorContains(t, err, "no tables today")
	require.Empty(t, entries(t, tmp), "nothing left behind")
}

// requireGone waits until the supervisor has reaped the process.
func requireGone(t *testing.T, pid int) {
	t.Helper()
	Eventually(t, "process gone", func() bool {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	})
}

func openDB(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}
