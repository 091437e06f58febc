package connect

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/testenv"
)

// refusal is an error reply of Redis.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

func refusedTimes(n int, answer error) func(call int) error {
	return func(call int) error {
		if call <= n {
			return answer
		}
		return nil
	}
}

func TestRetryRefused(t *testing.T) {
	t.Parallel()
	const moving, wrongKind = refusal("TRYAGAIN slot moves"), refusal("WRONGTYPE of key")
	for name, c := range map[string]struct {
		answer  func(call int) error
		stopAt  time.Duration // 0: never
		want    error
		calls   int
		between [2]time.Duration
	}{
		"RepeatsRefusedCommand": {answer: refusedTimes(3, moving), calls: 4,
			between: [2]time.Duration{262 * time.Millisecond, 438 * time.Millisecond}},
		"GivesUpAfterSevenCalls": {answer: refusedTimes(100, moving), want: moving, calls: 7,
			between: [2]time.Duration{1900 * time.Millisecond, 3200 * time.Millisecond}},
		"ReturnsOtherErrorImmediately": {answer: refusedTimes(1, wrongKind), want: wrongKind, calls: 1},
		"ReturnsRefusalWhenStopped": {answer: refusedTimes(100, moving), stopAt: time.Millisecond, want: moving,
			calls: 1, between: [2]time.Duration{time.Millisecond, time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if c.stopAt > 0 {
					defer time.AfterFunc(c.stopAt, stop).Stop()
				}
				calls, began := 0, time.Now()
				process := refusalHook{}.ProcessHook(func(context.Context,
					redis.Cmder) error {
					calls++
					return c.answer(calls)
				})
				require.Equal(t, c.want, process(ctx, redis.NewStatusCmd(ctx, "ping")))
				require.Equal(t, c.calls, calls)
				took := time.Since(began)
				require.True(t, c.between[0] <= took && took <= c.between[1], "%s", took)
			})
		})
	}
}

func TestRetryRefused_CallsNothingAfterStop(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	process := refusalHook{}.ProcessHook(func(context.Context, redis.Cmder) error { panic("called") })
	require.Equal(t, context.Canceled, process(ctx, redis.NewStatusCmd(ctx, "ping")))
}

// dsnProblems are all errors about a DSN. None repeats a part of it, since it has a password.
var dsnProblems = []string{
	"MYSQL_DSN is missing: set --mysql-dsn or MYSQL_DSN, as user:password@tcp(host:3306)/database",
	"MYSQL_DSN is not a DSN: want user:password@tcp(host:3306)/database",
	"MYSQL_DSN names no database: want user:password@tcp(host:3306)/database",
}

// byteOrderMark is what some editors write at the beginning of a file. It is no part of the user's name in a DSN.
const byteOrderMark = "\ufeff"

// A DSN that passes the check can be opened, has the required settings, and works from a file too.
func FuzzDSN(f *testing.F) {
	file := filepath.Join(f.TempDir(), "dsn")
	f.Fuzz(func(t *testing.T, dsn string) {
		direct := MySQLSettings{MySQLDSN: dsn}
		config, err := direct.config()
		if err != nil {
			require.Contains(t, dsnProblems, err.Error(), "%q", dsn)
		} else {
			db, err := direct.Open(Patient, zap.NewNop())
			require.NoError(t, err, "%q passed the check and does not open", dsn)
			require.NoError(t, db.Close())
		}
		if strings.HasSuffix(dsn, "\n") || strings.HasSuffix(dsn, "\r") {
			return
		}
		require.NoError(t, os.WriteFile(file, []byte(byteOrderMark+dsn+"\r\n"), 0o600))
		fromFile := MySQLSettings{MySQLDSNFile: file}
		other, otherErr := fromFile.config()
		require.Equal(t, err == nil, otherErr == nil, "%q is %v, from a file %v", dsn, err, otherErr)
		if err == nil {
			require.Equal(t, config.FormatDSN(), other.FormatDSN())
		}
	})
}

// A secret in a file ends with its line.
func FuzzSecretFile(f *testing.F) {
	file := filepath.Join(f.TempDir(), "secret")
	f.Fuzz(func(t *testing.T, content []byte) {
		require.NoError(t, os.WriteFile(file, content, 0o600))
		got, err := secret("REDIS_PASSWORD_FILE", file)
		if strings.Trim(strings.TrimPrefix(string(content), byteOrderMark), "\r\n") == "" {
			require.Error(t, err, "%q was read as %q", content, got)
			return
		}
		require.NoError(t, err, "%q", content)
		rest, whole := strings.CutPrefix(strings.TrimPrefix(string(content), byteOrderMark), got)
		require.True(t, whole && strings.Trim(rest, "\r\n") == "", "%q was read as %q", content, got)
		require.Equal(t, strings.TrimRight(got, "\r\n"), got)
	})
}

// Addresses that pass the check have a host and a valid port, and a client accepts them.
func FuzzRedisAddrs(f *testing.F) {
	f.Fuzz(func(t *testing.T, addrs string) {
		settings := RedisSettings{RedisAddrs: strings.Split(addrs, ",")}
		if settings.Validate() != nil {
			return
		}
		for _, addr := range settings.RedisAddrs {
			host, port, err := net.SplitHostPort(addr)
			number, portErr := strconv.ParseUint(port, 10, 16)
			require.False(t, err != nil || host == "" || portErr != nil || number == 0, "%q passed the check", addr)
		}
		client, err := settings.Open()
		require.NoError(t, err, "%q passed the check and does not open", addrs)
		require.NoError(t, client.Close())
	})
}

// It changes how long a migration waits, so it runs alone.
func TestMigrate_DoesNotWaitForEver(t *testing.T) {
	wait := migrationLockWait
	defer func() { migrationLockWait = wait }()
	migrationLockWait = 0
	m := testenv.MySQLFor(t)
	unlock, err := lockMigrations(t.Context(), m.DB)
	require.NoError(t, err)
	_, err = Migrate(t.Context(), m.DB, "Asia/Seoul", nil)
	require.ErrorIs(t, err, ErrMigrationBusy)
	require.NoError(t, unlock())
	_, err = Migrate(t.Context(), m.DB, "Asia/Seoul", nil)
	require.NoError(t, err)
}

// The only address may be one of a Cluster. The question is asked until a node says so, and not again.
func TestGuard_AsksOnceWhetherThereIsACluster(t *testing.T) {
	t.Parallel()
	answer, questions := "cluster_enabled:0", 0
	topology := &topology{}
	ask := func(node string) []redis.ClusterSlot {
		cmd := redis.NewClusterSlotsCmd(t.Context(), "cluster", "slots")
		require.NoError(t, (&guard{node: node, only: true, topology: topology}).ProcessHook(
			func(_ context.Context, cmd redis.Cmder) error {
				if info, ok := cmd.(*redis.StringCmd); ok {
					questions++
					info.SetVal("# Cluster\r\n" + answer + "\r\n")
				}
				return nil
			})(t.Context(), cmd))
		return cmd.Val()
	}
	require.Len(t, ask("a:1"), 1, "all slots are here")
	require.Len(t, ask("a:1"), 1)
	require.Equal(t, 2, questions)
	answer = "cluster_enabled:1"
	require.Empty(t, ask("a:1"), "the node says which slots there are")
	require.Empty(t, ask("a:1"))
	require.Empty(t, ask("b:1"))
	require.Equal(t, 3, questions)
}
