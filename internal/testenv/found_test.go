package testenv

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindMySQL(t *testing.T) {
	server := PrivateMySQL(t, MySQLOptions{})
	daemon, err := findDaemon(t.Context())
	require.NoError(t, err)

	t.Setenv("TEST_MYSQL_DSN", "")
	t.Setenv("TESTENV_MYSQLD", "")
	_, err = FindMySQL(t.Context())
	require.ErrorContains(t, err, "Set TEST_MYSQL_DSN")
	require.ErrorContains(t, err, "TESTENV_MYSQLD")

	t.Setenv("TESTENV_MYSQLD", daemon.path)
	found, err := FindMySQL(t.Context())
	require.NoError(t, err)
	require.Regexp(t, `^Tests start servers of their own with \S+: (MySQL|MariaDB) \d+\.\d+\..* at 127\.0\.0\.1:\d+\n$`, found)

	t.Setenv("TEST_MYSQL_DSN", server.DSN("mysql"))
	found, err = FindMySQL(t.Context())
	require.NoError(t, err)
	require.Regexp(t, `^Tests share the server of TEST_MYSQL_DSN: (MySQL|MariaDB) \d+\.\d+\..* at `+server.Addr()+`\nTests start servers of their own with .*\n$`, found)
	t.Run("use", checkDatabaseIsDropped)
	var left int
	require.NoError(t, openDB(t, server.DSN("")).QueryRowContext(t.Context(),
		"SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name LIKE 'jajeong%'").Scan(&left))
	require.Zero(t, left)

	require.NoError(t, server.Kill())
	_, err = FindMySQL(t.Context())
	require.ErrorContains(t, err, "TEST_MYSQL_DSN: ask "+server.Addr())
	require.ErrorContains(t, err, "Start this server")
	t.Setenv("TEST_MYSQL_DSN", "user:secret@")
	_, err = FindMySQL(t.Context())
	require.ErrorContains(t, err, "TEST_MYSQL_DSN: it is no DSN")
	require.NotContains(t, err.Error(), "secret")

	t.Setenv("TEST_MYSQL_DSN", "")
	t.Setenv("TESTENV_MYSQLD", filepath.Join(t.TempDir(), "mysqld"))
	_, err = FindMySQL(t.Context())
	require.ErrorContains(t, err, "Name a mariadbd or mysqld that exists")
}

// A mysqldump of MariaDB would fail the tests of backups of MySQL, minutes later.
func TestFindMySQL_RefusesForeignClients(t *testing.T) {
	programs := t.TempDir()
	t.Setenv("TESTENV_MYSQLD", filepath.Join(programs, "mysqld"))
	answers := func(name, version string) {
		require.NoError(t, os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\necho "+version+"\n"), 0o700))
	}
	answers("mysql", "")
	answers("mysqlbinlog", "")
	answers("mysqldump", "mysqldump from 11.8-MariaDB")
	require.ErrorContains(t, findClients(t.Context(), false), "mysqldump does not belong to the server: mysqldump from 11.8-MariaDB. Put")
	answers("mysqldump", "mysqldump  Ver 9.7.4")
	require.NoError(t, findClients(t.Context(), false))
	answers("mariadb", "")
	answers("mariadb-binlog", "")
	answers("mariadb-dump", "mariadb-dump  Ver 9.7.4")
	require.ErrorContains(t, findClients(t.Context(), true), "mariadb-dump does not belong to the server")
}
