package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
)

func TestScheduleSettlesTheLastNightAtOnceAndStopsWhenTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seoul, err := time.LoadLocation("Asia/Seoul")
	require.NoError(t, err)
	midnight := calendar.DefaultCutoff(w.now(), seoul)
	coupon := w.couponBetween(10, midnight.Add(-time.Hour), midnight.Add(48*time.Hour))
	w.users(1)
	w.stand(coupon, "1", midnight.Add(-time.Minute))

	for n := range 2 { // started again, it settles the night again, which changes nothing
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan int)
		go func() { ended <- run(ctx, append([]string{"schedule"}, w.servers...), io.Discard, io.Discard) }()
		testenv.Eventually(t, 20*time.Second, "the night is settled", func() bool {
			return len(w.ids("SELECT id FROM settlement_run WHERE status = 'SUCCEEDED'")) == n+1
		})
		stop()
		require.Zero(t, <-ended)
	}
	require.Len(t, w.ids("SELECT id FROM settlement_run WHERE trigger_kind = 'CRON' AND cutoff = ?", midnight.UTC()), 2)
	require.Equal(t, []uint64{1}, w.issued(coupon))
	w.verify()
}

// What is served for operators comes with the schedule and goes with it, and tells whether nights can be settled.
func TestScheduleServesOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reader, logs := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"schedule", "--admin-listen=127.0.0.1:0"}, w.servers...), io.Discard, logs)
		logs.Close()
	}()
	var listening struct{ Admin string }
	for lines := bufio.NewScanner(reader); listening.Admin == "" && lines.Scan(); {
		_ = json.Unmarshal(lines.Bytes(), &listening)
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	require.NotEmpty(t, listening.Admin)
	get := func(path string) (int, string) {
		response, err := http.Get("http://" + listening.Admin + path)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
	status, _ := get("/livez")
	require.Equal(t, http.StatusOK, status)
	status, text := get("/readyz")
	require.Equal(t, http.StatusOK, status, text)
	require.NotContains(t, text, "catalog")
	testenv.Eventually(t, 20*time.Second, "the night is told", func() bool {
		_, text := get("/metrics")
		return strings.Contains(text, `jajeong_run_status{status="SUCCEEDED",trigger="CRON"} 1`) && strings.Contains(text, `jajeong_pool_connections{`)
	})
	stop()
	require.Zero(t, <-ended)
	_, err := http.Get("http://" + listening.Admin + "/livez")
	require.Error(t, err)
}

// An address that cannot be had is told at once: a schedule that nobody watches is none.
func TestScheduleNeedsItsAdminAddress(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { taken.Close() })
	for address, want := range map[string]int{taken.Addr().String(): exitInfrastructure, "nowhere": exitUse} {
		code, _, stderr := settleBare(t, "schedule", "--mysql-dsn=u:p@tcp(127.0.0.1:1)/x", "--admin-listen="+address)
		require.Equal(t, want, code)
		require.Contains(t, stderr, "SETTLE_ADMIN_LISTEN")
	}
}

// Nobody sits before it: that a night was not settled whole must not stand among what went well.
func TestAScheduleWarnsOfANightThatWasNotSettledWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	midnight := calendar.DefaultCutoff(w.now(), speaker(text.English).zone)
	coupon := w.couponBetween(10, midnight.Add(-time.Hour), midnight.Add(48*time.Hour))
	w.users(1)
	w.stand(coupon, "1", midnight.Add(-time.Minute))
	require.NoError(t, w.rdb.HIncrBy(t.Context(), "state:{"+w.queue(coupon)+"}", "accepted", 1).Err()) // somebody is lost
	reader, logs := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"schedule"}, w.servers...), io.Discard, logs)
		logs.Close()
	}()
	levels := map[string]string{}
	for lines := bufio.NewScanner(reader); lines.Scan(); {
		var line struct{ Level, Msg string }
		_ = json.Unmarshal(lines.Bytes(), &line)
		levels[line.Msg] = line.Level
		if line.Msg == "night settled" {
			stop()
		}
	}
	require.Zero(t, <-ended)
	require.Equal(t, []string{"warn", "warn"}, []string{levels["coupon not settled"], levels["night settled"]})
}
