package cli

import (
	"fmt"
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
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/testenv"
)

// handbookLine is the one command of docs/deploy.md that begins like this.
func handbookLine(t *testing.T, begins string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/deploy.md")
	require.NoError(t, err)
	lines := regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(begins)+`.*$`).FindAllString(string(text), -1)
	require.Len(t, lines, 1, begins)
	return lines[0]
}

// types carries a line of the handbook out, in a folder and at a server.
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

// keys are how many a server holds.
func keys(t *testing.T, server *testenv.Redis) int64 {
	t.Helper()
	n, err := jajeongtest.RedisAt(t, server.Addr()).Client.DBSize(t.Context()).Result()
	require.NoError(t, err)
	return n
}

// What the handbook saves of Redis is brought back as it says: the line stands, and verify proves it. A snapshot beside an
// append-only file is not read, and without the copy verify must find who waited missing.
func TestRedisIsBroughtBackFromItsSnapshot(t *testing.T) {
	t.Parallel()
	saved := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})
	w := newWorldOn(t, *jajeongtest.RedisAt(t, saved.Addr()))
	w.users(between(1, 5)...)
	settled, waits := w.coupon(1), w.coupon(3)
	w.apply(settled, 1, 2)
	w.settleNow()
	w.apply(waits, 3, 4, 5)
	w.refresh()
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

	moveTo := func(server *testenv.Redis) {
		w.redisAs.MakeOn(jajeongtest.RedisAt(t, server.Addr()).Client)
		w.servers[1] = "--redis-addrs=" + server.Addr()
	}
	moveTo(again)
	w.verify()
	moveTo(testenv.PrivateRedis(t, testenv.RedisOptions{}))
	code, report := w.verifyCode()
	require.Equal(t, exitInvariant, code)
	for _, v := range report.Coupons {
		require.Equal(t, v.Coupon == waits, strings.Contains(fmt.Sprint(v.Findings), string(ledger.PromiseLost)), "%+v", v)
	}
}

// The clock of Redis was ahead by an hour. Nobody new gets in, and the handbook's way lets people apply all the same.
func TestTheWayOutOfAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users(between(1, 4)...)
	coupon := w.coupon(10)
	w.apply(coupon, 1)
	require.NoError(t, w.rdb.HSet(t.Context(), "state:{"+w.queue(coupon)+"}", "last", w.now().Add(time.Hour).UnixMicro()).Err())
	require.Equal(t, candidates.ClockBehind, w.answer(coupon, 2))
	w.refresh()
	require.Equal(t, candidates.ClockBehind, w.answer(coupon, 2), "pods and MySQL remember it")
	_, report := w.verifyCode()
	require.Contains(t, fmt.Sprint(report.Coupons[0].Findings), string(ledger.ClockAhead))

	w.mustChange("pause", coupon)
	require.Equal(t, candidates.Paused, w.answer(coupon, 2), "people are told")
	w.mustChange("add-seats", coupon, "--total=1")
	code, stdout, stderr := w.create("--campaign=3")
	require.Zero(t, code, stderr)
	require.Equal(t, "2", strings.TrimSpace(stdout))
	w.refresh()
	require.Equal(t, candidates.Accepted, w.answer(2, 2))
	w.settleNow()
	require.Equal(t, []uint64{1}, w.issued(coupon))
	require.Equal(t, []uint64{2}, w.issued(2))
}
