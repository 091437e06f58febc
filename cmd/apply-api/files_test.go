package main

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

// limited is the binary that may open so many files.
func limited(t *testing.T, files int, environment ...string) *program {
	t.Helper()
	shell := exec.Command("/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0"`, files), testenv.Build(t, "./cmd/apply-api"))
	return startCommand(t, shell, anywhere(environment))
}

func TestFewFilesAreKeptForTheServersAndTheAdminPort(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	p := limited(t, 1024, "MYSQL_DSN="+migrated(t, testenv.MySQLFor(t).DSN), "REDIS_ADDRS="+redis.Addr(), "USER_RATE=0")
	p.await(listening)
	p.awaitReady(http.StatusOK)
	require.Contains(t, p.stderr.String(), `"max_connections":720,"default":16384,"open_files_limit":1024,"kept":224`)

	first := talkTo(t, p.apply)
	first.say(application(1, ""))
	require.Equal(t, http.StatusAccepted, first.hear().StatusCode)
	for range 1500 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.apply, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
	}
	testenv.Eventually(t, soon, "all of them have come", func() bool { return p.ready() == http.StatusOK && p.metric("jajeong_connections_open") >= 800 })
	first.say(application(2, ""))
	require.Equal(t, http.StatusAccepted, first.hear().StatusCode)
	require.NoError(t, redis.Restart(t.Context()))
	p.awaitReady(http.StatusOK)
	require.Less(t, p.metric("process_open_fds"), 1000.0)
}

func TestConnectionsThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	p := limited(t, 1024, "MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "MAX_CONNECTIONS=5000")
	require.Equal(t, 2, p.exit(20*time.Second))
	require.Equal(t, "apply-api: MAX_CONNECTIONS is 5000, but this process may open 1024 files, and 224 of them are kept for Redis, MySQL and the admin port: want at most 720, or raise the limit (ulimit -n, LimitNOFILE)\n", p.stderr.String())
	p = limited(t, 200, "MYSQL_DSN=u@tcp(127.0.0.1:1)/d")
	require.Equal(t, 2, p.exit(20*time.Second))
	require.Contains(t, p.stderr.String(), "this process may open 200 files")
	p = limited(t, 1024, "MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "MAX_CONNECTIONS=720")
	p.await(adminOpen)
}
