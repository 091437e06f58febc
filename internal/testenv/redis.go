package testenv

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv/process"
)

// RedisHint is the advice when a Redis does not start.
const RedisHint = "To install what is missing: make setup. " +
	"RedisFor also takes an existing server: TEST_REDIS_ADDRS=host:port."

// RedisOptions are the settings of a private Redis. The zero value keeps everything in memory.
type RedisOptions struct {
	// AppendOnly keeps every acknowledged write over Kill and Restart.
	AppendOnly bool
	// Args are further arguments to redis-server; the last value of a setting wins.
	Args []string
}

// Redis is a private redis-server. Its methods may be called in parallel.
type Redis struct{ *process.Server }

// StartRedis starts a redis-server and waits until it answers. After a failure nothing is left behind, and the error
// ends with the server's own log.
func StartRedis(ctx context.Context, opts RedisOptions) (*Redis, error) {
	s, err := process.Start(ctx, process.Program{
		Name:  "redis-server",
		Hint:  RedisHint,
		Files: map[string][]byte{"users.acl": nil}, // keeps users over Restart
		Args: func(dir string, port int) []string {
			return append([]string{
				"--bind", "127.0.0.1",
				"--port", strconv.Itoa(port),
				"--dir", dir,
				"--aclfile", filepath.Join(dir, "users.acl"),
				"--save", "",
				"--appendonly", map[bool]string{true: "yes", false: "no"}[opts.AppendOnly],
				// Redis writes before each answer and never waits for the disk: enough to survive a kill.
				"--appendfsync", "no",
				// A rewriting child process would outlive its killed parent.
				"--auto-aof-rewrite-percentage", "0",
				"--maxmemory-policy", "noeviction",
			}, opts.Args...)
		},
		Ready: RedisReady,
	})
	if err != nil {
		return nil, err
	}
	return &Redis{s}, nil
}

// RedisClient returns a client that repeats no command and waits for each reply until its context ends. A server may be
// slow.
func RedisClient(t testing.TB, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(redisOptions(addr))
	t.Cleanup(func() { client.Close() })
	return client
}

func redisOptions(addr string) *redis.Options {
	return &redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: time.Hour, ReadTimeout: -1,
		ContextTimeoutEnabled: true}
}

// SpeakTLS returns a second address of the server, where it speaks TLS with a certificate of a Folder and wants one of
// the client.
func (r *Redis) SpeakTLS(t testing.TB, folder string) (addr string) {
	t.Helper()
	host, port, err := net.SplitHostPort(r.Addr())
	require.NoError(t, err)
	plain, err := strconv.Atoi(port)
	require.NoError(t, err)
	file := func(name string) string { return filepath.Join(folder, name) }
	require.NoError(t, RedisClient(t, r.Addr()).Do(t.Context(), "config", "set", "tls-cert-file", file("tls.crt"),
		"tls-key-file", file("tls.key"),
		"tls-ca-cert-file", file("ca.crt"), "tls-port", process.SecondPort(plain)).Err())
	return net.JoinHostPort(host, strconv.Itoa(process.SecondPort(plain)))
}

// FailSnapshots makes every snapshot fail, as a full disk does. Redis refuses writes with MISCONF until mended, after
// which it has saved one.
func (r *Redis) FailSnapshots(t testing.TB) (mend func()) {
	t.Helper()
	client := RedisClient(t, r.Addr())
	ctx := process.PatientCleanUp(t)
	inTheWay := filepath.Join(r.Dir(), "dump.rdb") // no file can replace a folder
	mustSave := func(status string) {
		t.Helper()
		require.NoError(t, client.BgSave(ctx).Err())
		Eventually(t, "the snapshot ends with "+status, func() bool {
			info, err := client.Info(ctx, "persistence").Result()
			require.NoError(t, err)
			return strings.Contains(info, "rdb_bgsave_in_progress:0") &&
				strings.Contains(info, "rdb_last_bgsave_status:"+status)
		})
	}
	require.NoError(t, os.RemoveAll(inTheWay))
	require.NoError(t, os.Mkdir(inTheWay, 0o700))
	require.NoError(t, client.ConfigSet(ctx, "save", "3600 1000000").Err()) // only then a failure matters
	mustSave("err")
	return func() {
		t.Helper()
		require.NoError(t, os.Remove(inTheWay))
		mustSave("ok")
	}
}

// RedisReady reports whether a redis-server answers. It compares process ids, because another Redis may have taken the
// port.
func RedisReady(ctx context.Context, s process.Instance) error {
	// The port is tried first, because the client would log every refused connection.
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return err
	}
	conn.Close()

	client := redis.NewClient(redisOptions(s.Addr))
	defer client.Close()
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.Pid)) {
		return fmt.Errorf("another Redis answers at %s", s.Addr)
	}
	// A Redis that loads its file refuses everything but INFO.
	return client.Ping(ctx).Err()
}
