package process

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// redisServer is a program for these tests.
var redisServer = Program{
	Name: "redis-server", Hint: "make setup",
	Files: map[string][]byte{"redis.conf": []byte("bind 127.0.0.1\n")},
	Args: func(dir string, port int) []string {
		return []string{filepath.Join(dir, "redis.conf"), "--port", strconv.Itoa(port), "--dir", dir, "--save", ""}
	},
	Ready: func(ctx context.Context, s Instance) error {
		client := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, ReadTimeout: -1,
			ContextTimeoutEnabled: true})
		defer client.Close()
		info, err := client.InfoMap(ctx, "server").Result()
		if err == nil && info["Server"]["process_id"] != strconv.Itoa(s.Pid) {
			err = fmt.Errorf("another Redis answers at %s", s.Addr)
		}
		return err
	},
}

// When this process has died, a terminal sends these signals to the supervisor before EOF on stdin.
func TestSupervisorIgnoresTerminalSignals(t *testing.T) {
	t.Parallel()
	s := StartFor(t, redisServer)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		require.NoError(t, s.sup.cmd.Process.Signal(sig))
	}
	require.NoError(t, ping(t, s))
	require.NoError(t, s.Restart(t.Context()), "which writes to the supervisor")
	require.NoError(t, s.Stop())
	require.NoDirExists(t, s.Dir())
}

// Another process binds the port between its choice and the server's own bind. The Redis that answers there must not be
// taken for this one.
func TestStartRetriesWhenPortIsTaken(t *testing.T) {
	t.Parallel()
	theirs := StartFor(t, redisServer)
	require.False(t, portFree(theirs.port))
	attempts := 0
	program := redisServer
	program.Prepare = func(_ context.Context, s *Server) error {
		if attempts++; attempts == 1 {
			s.port = theirs.port
		}
		return nil
	}
	ours := StartFor(t, program)
	require.Equal(t, 2, attempts)
	require.NotEqual(t, theirs.Addr(), ours.Addr())
	require.NoError(t, ping(t, ours))
}

// A server that is down keeps its port for Restart.
func TestPortOfKilledServerIsTakenByNoOther(t *testing.T) {
	t.Parallel()
	s := StartFor(t, redisServer)
	require.NoError(t, s.Kill())
	_, err := net.ListenPacket("udp", s.Addr())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
}

func ping(t *testing.T, s *Server) error {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, ReadTimeout: -1,
		ContextTimeoutEnabled: true})
	defer client.Close()
	return client.Ping(t.Context()).Err()
}
