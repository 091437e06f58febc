package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"
	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/testenv/migrated"
)

// The sessions are those of connect.Migrating, which have no time limit for an answer.
func TestMigrate_WaitsForItsStatements(t *testing.T) {
	t.Parallel()
	m := migrated.Database(t)
	config, err := mysql.ParseDSN(m.DSN)
	require.NoError(t, err)
	var set []string
	proxy := faultproxy.New(t, func(turn faultproxy.Turn) faultproxy.Action {
		if bytes.Contains(turn.Request, []byte("SET SESSION autocommit")) {
			set = append(set, string(turn.Request))
		}
		return faultproxy.Pass()
	}, config.Addr)
	succeeds(t)(settleBare(t, "migrate",
		"--mysql-dsn="+strings.Replace(m.DSN, "("+config.Addr+")", "("+proxy.Addr+")", 1)))
	proxy.Turns()
	require.NotEmpty(t, set)
	for _, variables := range set {
		require.Contains(t, variables, "wait_timeout = 300")
		require.Contains(t, variables, "lock_wait_timeout = 2,")
	}
}

// A step may rebuild a large table for minutes: a terminal shows that it is still under way.
func TestMigrate_CountsTheSecondsOfAStep(t *testing.T) {
	t.Parallel()
	screen, terminal, err := pty.Open()
	require.NoError(t, err)
	defer screen.Close()
	synctest.Test(t, func(*testing.T) {
		stop := (&program{Process: Process{Stderr: terminal}}).countSeconds("applying a step, seconds:")
		time.Sleep(3500 * time.Millisecond)
		stop()
	})
	require.NoError(t, terminal.Close())
	shown, _ := io.ReadAll(screen) // its end is an error on Linux
	require.Regexp(t, `seconds: \[0\] .*seconds: \[1\] .*seconds: \[2\] .*seconds: \[3\] `, string(shown))
}
