package testenv

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv/process"
)

func TestStopRemovesEverything(t *testing.T) {
	t.Parallel()
	r := PrivateRedis(t, RedisOptions{AppendOnly: true})
	pid := r.Pid()
	require.DirExists(t, r.Dir())
	require.NoError(t, r.Stop())
	requireGone(t, pid)
	require.NoDirExists(t, r.Dir())
	require.Zero(t, r.Pid())
	require.NoError(t, r.Stop(), "again")
	require.NoError(t, r.Kill())
	require.Error(t, r.Restart(t.Context()))
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
