package cli

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/testenv"
)

// toStream are the flags of the stream of this test.
func (w *world) toStream() []string {
	return []string{"--event-sink=redis", "--event-stream=" + w.stream()}
}

// published issues coupons to all users and waits until their events are published.
func (w *world) published(users ...coupon.UserID) coupon.CouponID {
	w.T.Helper()
	r := w.begin(append([]string{"serve", "--tasks=events"}, w.toStream()...)...)
	defer func() {
		r.stop()
		r.end()
		require.Zero(w.T, r.code, r.stderr.String())
	}()
	testenv.Eventually(w.T, "events are turned on", func() bool {
		return w.Number("SELECT COUNT(*) FROM event_relay WHERE from_at IS NOT NULL") == 1
	})
	couponID := w.AddQueue(len(users), users...)
	w.SettleNow()
	testenv.Eventually(w.T, "everything is published", func() bool {
		return w.Number("SELECT COUNT(*) FROM settlement WHERE issued_count > 0 AND published_at IS NULL") == 0
	})
	return couponID
}

func TestEvents_Replay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.published(between(1, 20)...)
	before := w.streamed()
	require.Len(t, before, 20)
	replay := func(args ...string) (int, replayed, string) {
		code, stdout, stderr := w.settle(slices.Concat([]string{"events", "replay", "--output=json"}, w.toStream(), args)...)
		var result replayed
		if stdout != "" {
			require.NoError(t, json.Unmarshal([]byte(stdout), &result), stdout)
		}
		return code, result, stderr
	}
	counts := map[string]int{events.IssuedType: 20}
	code, result, stderr := replay("--coupon="+couponID.String(), "--dry-run")
	require.Zero(t, code, stderr)
	require.Equal(t, replayed{DryRun: true, Coupons: 1, Events: 20, ByType: counts}, result)
	require.Len(t, w.streamed(), 20)

	code, result, stderr = replay("--coupon=" + couponID.String())
	require.Zero(t, code, stderr)
	require.Equal(t, replayed{Sink: "redis", Coupons: 1, Events: 20, ByType: counts}, result)
	require.Equal(t, append(before, before...), w.streamed())

	code, result, _ = replay("--from=2020-01-01 00:00", "--to=2020-01-02 00:00")
	require.Zero(t, code)
	require.Zero(t, result.Events)
	for want, args := range map[string][]string{
		"coupon 999":       {"--coupon=999"},
		"run 999":          {"--run=999"},
		"say which events": nil,
		"is not before":    {"--from=2026-01-02 00:00", "--to=2026-01-01 00:00"},
		"--coupon":         {"--coupon="},
		"--sink":           {"--coupon=1", "--sink="},
		"not a time":       {"--from=yesterday"},
	} {
		code, _, stderr := replay(args...)
		require.Equal(t, exitUse, code, "%v: %s", args, stderr)
		require.Contains(t, stderr, want, args)
	}
	code, _, stderr = w.settle("events", "replay", "--coupon=1")
	require.Equal(t, exitUse, code)
	require.Contains(t, stderr, "EVENT_SINK is none")
	code, _, stderr = w.settle("events", "replay", "--coupon="+couponID.String(), "--event-sink=redis", "--event-redis-addrs=127.0.0.1:1")
	require.Equal(t, exitInfrastructure, code, stderr)
	require.Contains(t, stderr, "safe to run it again")
	code, stdout, _ := w.settle("events", "replay", "--coupon="+couponID.String(), "--event-sink=redis", "--event-redis-addrs=127.0.0.1:1")
	require.Equal(t, exitInfrastructure, code)
	require.NotContains(t, stdout, "No event matches", "twenty events do")
}

func TestEvents_Status(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, stdout, _ := w.settle("events", "status")
	require.Zero(t, code)
	require.Contains(t, stdout, "never turned on")
	couponID := w.published(between(1, 5)...)
	w.SettleNow()
	require.NoError(t, w.Redis.XGroupCreate(t.Context(), w.stream(), "shop", "0").Err())
	w.Exec("UPDATE settlement SET published_at = NULL WHERE coupon_id = ?", couponID)
	status := func(want int, args ...string) (all []events.Status) {
		code, stdout, stderr := w.settle(append([]string{"events", "status", "--output=json"}, args...)...)
		require.Equal(t, want, code, stderr)
		require.NoError(t, json.Unmarshal([]byte(stdout), &all), stdout)
		require.Len(t, all, 1)
		require.Equal(t, 5, all[0].Issued)
		require.NotNil(t, all[0].Since)
		return all
	}
	all := status(exitDone, w.toStream()...)
	require.Equal(t, []events.Lag{{Group: "shop", Unread: 5}}, all[0].Consumers)
	require.Empty(t, status(exitDone)[0].Consumers, "without EVENT_SINK, only MySQL is read")
	all = status(exitInfrastructure, "--event-sink=redis", "--event-redis-addrs=127.0.0.1:1")
	require.NotEmpty(t, all[0].SinkError)
	_, stdout, _ = w.settle(append([]string{"events", "status"}, w.toStream()...)...)
	require.Contains(t, stdout, "shop")
}
