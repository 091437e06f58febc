package settle_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/testenv"
)

// handbookLine is the only command of docs/deploy.md that begins like this.
func handbookLine(t *testing.T, begins string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/deploy.md")
	require.NoError(t, err)
	lines := regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(begins)+`.*$`).FindAllString(string(text), -1)
	require.Len(t, lines, 1, begins)
	return lines[0]
}

// types executes a line of the handbook in a folder and at a server.
func types(t *testing.T, line, folder, addr string) (format string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	line = strings.ReplaceAll(strings.ReplaceAll(line, " -h redis-replica", ""), "redis-cli", "redis-cli -h "+host+" -p "+port)
	command := exec.CommandContext(t.Context(), "/bin/sh", "-c", line)
	command.Dir = folder
	text, err := command.CombinedOutput()
	require.NoError(t, err, "%s\n%s", line, text)
	return string(text)
}

// keys is the number of keys of a server.
func keys(t *testing.T, server *testenv.Redis) int64 {
	t.Helper()
	n, err := jajeongtest.RedisAt(t, server.Addr()).Client.DBSize(t.Context()).Result()
	require.NoError(t, err)
	return n
}

// The commands of the handbook save and restore Redis. Redis does not read a snapshot beside an append-only file. Without the
// snapshot, the checker finds the gap.
func TestHandbook_RestoresRedisFromSnapshot(t *testing.T) {
	t.Parallel()
	saved := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})
	d := jajeongtest.NewWith(t, jajeongtest.Options{Redis: jajeongtest.RedisAt(t, saved.Addr())})
	d.AddUsers(between(1, 5)...)
	settled, waits := d.AddCoupon(1), d.AddCoupon(3)
	d.Apply(settled, 1, 2)
	d.SettleNow()
	d.Apply(waits, 3, 4, 5)
	d.Refresh()
	folder := t.TempDir()
	types(t, handbookLine(t, "redis-cli -h redis-replica --rdb"), folder, saved.Addr())
	found := keys(t, saved)
	require.Positive(t, found)

	in := func(appendOnly bool, name string) *testenv.Redis {
		dir := filepath.Join(folder, name)
		if _, err := os.Stat(dir); err != nil {
			require.NoError(t, os.Mkdir(dir, 0o700))
			copied, err := os.ReadFile(filepath.Join(folder, "line.rdb"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "line.rdb"), copied, 0o600))
		}
		return testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: appendOnly, Args: []string{"--dir", dir, "--dbfilename", "line.rdb"}})
	}
	require.Zero(t, keys(t, in(true, "beside")), "an append-only Redis does not read a snapshot")

	restored := in(false, "restored")
	require.Equal(t, found, keys(t, restored))
	types(t, handbookLine(t, "redis-cli CONFIG SET appendonly"), folder, restored.Addr())
	testenv.Eventually(t, 20*time.Second, "the append-only file is written", func() bool {
		said := types(t, handbookLine(t, "redis-cli INFO persistence | grep -E 'aof_enabled"), folder, restored.Addr())
		return regexp.MustCompile(`(?s)aof_enabled:1.*aof_rewrite_in_progress:0.*aof_rewrite_scheduled:0.*aof_last_bgrewrite_status:ok`).MatchString(said)
	})
	require.NoError(t, restored.Kill())
	again := in(true, "restored")
	require.Equal(t, found, keys(t, again))

	d.MoveRedis(jajeongtest.RedisAt(t, again.Addr()))
	d.Verify()
	d.MoveRedis(jajeongtest.RedisAt(t, testenv.PrivateRedis(t, testenv.RedisOptions{}).Addr()))
	require.Empty(t, d.Findings(settled))
	require.Contains(t, d.Findings(waits), ledger.PromiseLost)
}

// The clock of Redis was ahead by an hour, so that no application is accepted. The handbook names a way out: another coupon.
func TestHandbook_ReplacesCouponAfterClockAhead(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(between(1, 4)...)
	couponID := d.AddCoupon(10)
	d.Apply(couponID, 1)
	require.NoError(t, d.Redis.HSet(t.Context(), d.Key("state", couponID), "last", d.Now().Add(time.Hour).UnixMicro()).Err())
	require.Equal(t, candidates.ClockBehind, d.Answer(couponID, 2))
	d.Refresh()
	require.Equal(t, candidates.ClockBehind, d.Answer(couponID, 2), "pods and MySQL remember it")
	require.Contains(t, d.Findings(), ledger.ClockAhead)

	admin := d.CouponAdmin()
	_, err := admin.Pause(t.Context(), couponID)
	require.NoError(t, err)
	require.Equal(t, candidates.Paused, d.Answer(couponID, 2))
	_, err = admin.SetSeats(t.Context(), couponID, 1)
	require.NoError(t, err)
	now := d.Now()
	made, err := admin.Create(t.Context(), couponadmin.NewCoupon{Name: "심야", Seats: 2, Opens: now.Add(-time.Hour), Closes: now.Add(time.Hour), ValidityDays: 30, Campaign: 3})
	require.NoError(t, err)
	another := made.After.ID
	d.Refresh()
	d.Apply(another, 2)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1}, d.Issued(couponID))
	require.Equal(t, []coupon.UserID{2}, d.Issued(another))
}
