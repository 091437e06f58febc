package testenv

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAServerOfAnotherKind is one of redis-server, which this package starts here as if it did not know it.
func TestAServerOfAnotherKind(t *testing.T) {
	t.Parallel()
	program := Program{
		Name: "redis-server", Hint: "make setup", Within: 20 * time.Second,
		Files: map[string][]byte{"redis.conf": []byte("bind 127.0.0.1\n")},
		Args: func(dir string, port int) []string {
			return []string{filepath.Join(dir, "redis.conf"), "--port", strconv.Itoa(port), "--dir", dir}
		},
		Ready: func(ctx context.Context, addr string) error {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return err
			}
			return conn.Close()
		},
	}
	s := Private(t, program)
	require.NoError(t, newClient(t, s.Addr()).Ping(t.Context()).Err())
	file, err := os.Stat(filepath.Join(s.Dir(), "redis.conf"))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, file.Mode().Perm())
	pid := s.Pid()
	require.NoError(t, s.Stop())
	requireGone(t, pid)
	require.NoDirExists(t, s.Dir())

	program.Name = "no-such-server"
	_, err = Start(t.Context(), program)
	require.ErrorContains(t, err, "start no-such-server")
	require.ErrorContains(t, err, "make setup")

	program.Name, program.Path = "at-a-path", "/bin/false"
	_, err = Start(t.Context(), program)
	require.ErrorIs(t, err, errExited)

	program.Files = map[string][]byte{"no/such/folder": nil}
	_, err = Start(t.Context(), program)
	require.True(t, errors.Is(err, os.ErrNotExist))
}
