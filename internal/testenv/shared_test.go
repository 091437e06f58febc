package testenv

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestRedisForRemovesOnlyItsKeys(t *testing.T) {
	t.Parallel()
	outer := RedisFor(t)
	require.NoError(t, outer.Client.Set(t.Context(), outer.Prefix+"catalog:coupons", "{}", 0).Err())
	checkPrefixIsRemoved(t, outer.Client)
	require.EqualValues(t, 1, outer.Client.Exists(t.Context(), outer.Prefix+"catalog:coupons").Val())
}

// checkPrefixIsRemoved checks that the keys of a test are gone after its end.
func checkPrefixIsRemoved(t *testing.T, client redis.UniversalClient) {
	var keys []string
	t.Run("inner", func(t *testing.T) {
		h := RedisFor(t)
		keys = append(keys, h.Prefix+"catalog:coupons")
		for id := range 700 { // more than one batch
			keys = append(keys,
				fmt.Sprintf("%scandidates:coupon:%d", h.Prefix, id),
				fmt.Sprintf("state:{%scandidates:coupon:%d}", h.Prefix, id))
		}
		_, err := h.Client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for _, key := range keys {
				p.Set(t.Context(), key, "x", 0)
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, len(keys), countExisting(t, client, keys))
	})
	require.Zero(t, countExisting(t, client, keys))
}

func countExisting(t *testing.T, client redis.UniversalClient, keys []string) int {
	t.Helper()
	cmds, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Exists(t.Context(), key)
		}
		return nil
	})
	require.NoError(t, err)
	var existing int
	for _, cmd := range cmds {
		existing += int(cmd.(*redis.IntCmd).Val())
	}
	return existing
}

func TestRedisForOnAnExistingServer(t *testing.T) {
	theirs := PrivateRedis(t, RedisOptions{})
	t.Setenv("TEST_REDIS_ADDRS", theirs.Addr())
	client := RedisClient(t, theirs.Addr())
	require.NoError(t, client.Set(t.Context(), "theirs", "x", 0).Err())
	checkPrefixIsRemoved(t, client)
	require.Equal(t, []string{"theirs"}, client.Keys(t.Context(), "*").Val())
}

func TestMySQLForDropsItsDatabase(t *testing.T) {
	t.Parallel()
	checkDatabaseIsDropped(t)
}

func checkDatabaseIsDropped(t *testing.T) {
	outer := MySQLFor(t)
	var name string
	exists := func() (n int) {
		require.NoError(t, outer.DB.QueryRowContext(t.Context(),
			"SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = ?", name).Scan(&n))
		return n
	}
	t.Run("inner", func(t *testing.T) {
		h := MySQLFor(t)
		var zone, charset string
		var tables int
		require.NoError(t, h.DB.QueryRowContext(t.Context(),
			"SELECT DATABASE(), @@session.time_zone, @@character_set_database").Scan(&name, &zone, &charset))
		require.NoError(t, h.DB.QueryRowContext(t.Context(),
			"SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()").Scan(&tables))
		require.Regexp(t, "^jajeong_test_[a-z2-7]{12}$", name)
		require.Equal(t, "+00:00", zone)
		require.Equal(t, "utf8mb4", charset)
		require.Zero(t, tables)

		var at time.Time
		require.NoError(t, h.DB.QueryRowContext(t.Context(), "SELECT TIMESTAMP '2026-11-20 15:00:00'").Scan(&at))
		require.Equal(t, time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC), at)

		_, err := openDB(t, h.DSN).ExecContext(t.Context(), "CREATE TABLE t (id INT PRIMARY KEY)")
		require.NoError(t, err)
		require.Equal(t, 1, exists())
	})
	require.Zero(t, exists())
}

func TestEventually(t *testing.T) {
	t.Parallel()
	calls := 0
	Eventually(t, "third call", func() bool { calls++; return calls == 3 })
	require.Equal(t, 3, calls)

	failing := &recorder{TB: t, deadline: time.Now()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Eventually(failing, "it happens", func() bool { return false })
	}()
	<-done
	require.Equal(t, "never: it happens", failing.fatal)
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	deadline time.Time
	fatal    string
}

func (r *recorder) Deadline() (time.Time, bool) { return r.deadline, true }

func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
