package cli

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	migrations "github.com/jajeong/jajeong/sql"
)

// The console is ready if its account can read all tables. Redis is not needed: pages show what they know without it.
func TestConsole_IsReadyWithAllTables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	logs, stop, ended := w.start([]string{"console", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0",
		"--console-dev-user=kim"},
		"--mysql-dsn="+w.Operator.MySQLDSN, "--redis-addrs=127.0.0.1:1")
	admin := adminPort(t, logs)
	status, text := get(t, admin, "/readyz")
	require.Equal(t, http.StatusOK, status, text)
	for _, table := range migrations.Tables {
		w.Exec("RENAME TABLE " + table + " TO another")
		status, text = get(t, admin, "/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status, table)
		require.Contains(t, text, table)
		w.Exec("RENAME TABLE another TO " + table)
	}
	status, text = get(t, admin, "/readyz")
	require.Equal(t, http.StatusOK, status, text)
	stop()
	require.Zero(t, <-ended)
}

// A wrong file of keys ends the console at once: without it, it would refuse every program.
func TestConsole_WrongKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, stdout, stderr := w.settle("console", "--listen=127.0.0.1:0", "--console-dev-user=kim",
		"--admin-keys-file=/nonexistent/keys")
	requireWrongUse(t, "ADMIN_KEYS_FILE", code, stdout, stderr)
	code, stdout, stderr = w.settle("console", "--console-dev-user=kim", "--admin-keys-file=/nonexistent/keys",
		"--admin-api-listen=nowhere")
	requireWrongUse(t, "ADMIN_API_LISTEN", code, stdout, stderr)
}
