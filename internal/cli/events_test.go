package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/testenv"
)

const toStream = "--event-sink=redis"

// published issues coupons to all users and waits until their events are published.
func (w *world) published(users ...coupon.UserID) (couponID coupon.CouponID) {
	w.T.Helper()
	w.serveEvents("everything is published", func() bool {
		if w.Number("SELECT COUNT(*) FROM event_relay WHERE from_at IS NOT NULL") == 0 {
			return false // events are not turned on yet
		}
		if couponID == 0 {
			couponID = w.AddQueue(len(users), users...)
			w.SettleNow()
		}
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
	replay := func(args ...string) (code int, stdout, stderr string) {
		return w.settle(append([]string{"events", "replay", "--output=json", toStream}, args...)...)
	}
	replays := func(want replayed, args ...string) {
		t.Helper()
		var result replayed
		require.NoError(t, json.Unmarshal([]byte(succeeds(t)(replay(args...))), &result))
		require.Equal(t, want, result)
	}
	counts, all := map[string]int{events.IssuedType: 20}, "--coupon="+couponID.String()
	replays(replayed{DryRun: true, Coupons: 1, Events: 20, ByType: counts}, all, "--dry-run")
	require.Len(t, w.streamed(), 20)
	replays(replayed{Sink: "redis", Coupons: 1, Events: 20, ByType: counts}, all)
	require.Equal(t, append(before, before...), w.streamed())

	require.NoError(t, w.Redis.Del(t.Context(), w.stream()).Err())
	for range 300 { // long ago
		require.NoError(t, w.Redis.XAdd(t.Context(),
			&redis.XAddArgs{Stream: w.stream(), ID: "1-*", Values: []any{"event", "{}"}}).Err())
	}
	succeeds(t)(replay(all))
	require.EqualValues(t, 320, w.Redis.XLen(t.Context(), w.stream()).Val(), "a replay removes nothing")
	replays(replayed{Sink: "redis", ByType: map[string]int{}}, "--from=2020-01-01 00:00", "--to=2020-01-02 00:00")
	for want, args := range map[string][]string{
		"coupon 999":       {"--coupon=999"},
		"run 999":          {"--run=999"},
		"say which events": nil,
		"is not before":    {"--from=2026-01-02 00:00", "--to=2026-01-01 00:00"},
		"not a time":       {"--from=yesterday"},
	} {
		refused(t, want)(replay(args...))
	}
	refused(t, "EVENT_SINK is none")(w.settle("events", "replay", "--coupon=1"))
	code, stdout, stderr := w.settle("events", "replay", all, toStream, "--event-redis-addrs="+nowhere)
	require.Equal(t, exitInfrastructure, code, stderr)
	require.Contains(t, stderr, "safe to run it again")
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
	all := status(exitDone, toStream)
	require.Equal(t, []events.Lag{{Group: "shop", Unread: 5}}, all[0].Consumers)
	require.Empty(t, status(exitDone)[0].Consumers, "without EVENT_SINK, only MySQL is read")
	all = status(exitInfrastructure, "--event-sink=redis", "--event-redis-addrs=127.0.0.1:1")
	require.NotEmpty(t, all[0].SinkError)
	_, stdout, _ = w.settle("events", "status", toStream)
	require.Contains(t, stdout, "shop")
}

// serveEvents runs `settle serve` until a condition holds, and returns its log.
func (w *world) serveEvents(what string, until func() bool) string {
	w.T.Helper()
	r := w.begin("serve", "--tasks=events", toStream)
	testenv.Eventually(w.T, what, until)
	r.stop()
	r.end()
	require.Zero(w.T, r.code, r.stderr.String())
	return r.stderr.String()
}

// Somebody deletes a stream with the events of two hours. The log and the status name a replay, and the notice stays
// until exactly that has run: not a part of it, a dry run, one that fails, or one to another Redis or stream.
func TestEvents_MayBeLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.published(between(1, 20)...)
	w.Exec("UPDATE settlement SET published_at = published_at - INTERVAL 2 HOUR, settled_at = settled_at - INTERVAL " +
		"2 HOUR")
	w.Exec("UPDATE user_coupon SET issued_at = issued_at - INTERVAL 2 HOUR")
	recent := w.published(between(21, 23)...)
	require.NoError(t, w.Redis.Del(t.Context(), w.stream()).Err())
	log := w.serveEvents("the relay has noticed", func() bool {
		return w.Number("SELECT COUNT(*) FROM event_relay WHERE may_lack_from IS NOT NULL") == 1 &&
			w.Number("SELECT COUNT(*) FROM settlement WHERE published_at IS NULL") == 0
	})
	require.Len(t, w.streamed(), 3, "the last ten minutes are published again")

	status := func(args ...string) (*events.Gap, string) {
		var all []events.Status
		stdout := succeeds(t)(w.settle("events", "status", "--output=json"))
		require.NoError(t, json.Unmarshal([]byte(stdout), &all), stdout)
		code, stdout, stderr := w.settle(append([]string{"events", "status"}, args...)...)
		require.Zero(t, code, stderr)
		return all[0].MayLack, stdout
	}
	gap, table := status()
	require.NotNil(t, gap)
	require.Contains(t, table, "redis may lack events")
	require.Contains(t, table, gap.Replay+"\n")
	_, korean := status("--lang=ko")
	require.Contains(t, korean, "발생한 이벤트가 빠져 있을 수 있습니다")
	require.Contains(t, korean, gap.Replay+"\n")
	require.Equal(t, 1, strings.Count(log, gap.Replay), log)

	w.servers[0] = "--mysql-dsn=" + w.Accounts["jajeong_operator"]
	named := strings.Fields(gap.Replay)[1:]
	replay := func(command []string) (code int, stderr string) {
		code, _, stderr = w.settle(append(command, toStream)...)
		return code, stderr
	}
	for name, command := range map[string][]string{
		"of one coupon": append(slices.Clone(named), "--coupon="+old.String()),
		"counted":       append(slices.Clone(named), "--dry-run"),
		"of a part":     {"events", "replay", "--from=" + gap.From.Add(time.Minute).Format(time.RFC3339)},
		"that failed":   append(slices.Clone(named), "--event-redis-addrs=127.0.0.1:1"),
		"to another Redis": append(slices.Clone(named),
			"--event-redis-addrs="+testenv.PrivateRedis(t, testenv.RedisOptions{}).Addr()),
	} {
		code, stderr := replay(command)
		require.Equal(t, name == "that failed", code != exitDone, "%s: %s", name, stderr)
		if code == exitDone && name != "counted" {
			require.Contains(t, stderr, "redis may lack events", name)
		}
		still, _ := status()
		require.Equal(t, gap, still, name)
	}
	code, stderr := replay(named)
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "All events that redis may have lacked are published again.")
	none, table := status()
	require.Nil(t, none)
	require.NotContains(t, table, "may lack")
	for _, couponID := range []coupon.CouponID{old, recent} {
		for _, user := range w.Issued(couponID) {
			require.Contains(t, w.streamed(), fmt.Sprintf("/coupons/%d issued-%d", couponID, user))
		}
	}
}

// MySQL goes back to before a confirmation that consumers know. The account of an operator names it. What settle user
// forget and settle purge have deleted is no finding.
func TestEvents_Verify(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(between(1, 7)...)
	var ended, other coupon.CouponID
	w.serveEvents("everything is published", func() bool {
		if w.Number("SELECT COUNT(*) FROM event_relay WHERE from_at IS NOT NULL") == 0 {
			return false // events are not turned on yet
		}
		if other == 0 {
			ended, other = w.ended(), w.ended()
		}
		return w.Number("SELECT COUNT(*) FROM coupon_log WHERE published_at IS NULL") == 0
	})
	w.servers[0] = "--mysql-dsn=" + w.Accounts["jajeong_operator"]
	verify := func(want int, args ...string) (found events.Verified) {
		t.Helper()
		code, stdout, stderr := w.settle(unless(args, "events", "verify", "--output=json", toStream,
			"--from=2020-01-01 00:00")...)
		require.Equal(t, want, code, "%s%s", stdout, stderr)
		require.NoError(t, json.Unmarshal([]byte(stdout), &found), stdout)
		return found
	}
	require.Equal(t, 2, w.forgets("1").Remains.Coupons)
	found := verify(exitDone)
	require.Empty(t, found.Missing)
	require.Equal(t, len(w.streamed()), found.Events)
	require.False(t, found.Complete, "the stream began later")
	require.WithinDuration(t, time.Now(), *found.CoveredFrom, time.Minute)

	row := w.Number("SELECT id FROM user_coupon WHERE coupon_id = ? AND user_id = 1", other)
	at := w.Number("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', at) FROM coupon_log WHERE user_coupon_id = ? AND "+
		"seq = 2", row)
	w.Exec("DELETE FROM coupon_log WHERE user_coupon_id = ? AND seq = 2", row)
	found = verify(exitInvariant)
	require.Len(t, found.Missing, 1)
	order, m := other.String()+"-1", found.Missing[0]
	require.Equal(t, fmt.Sprintf("/coupons/%d 1-2-%d", other, at), m.Source+" "+m.ID)
	require.Equal(t, order, *m.Order)
	require.EqualValues(t, 12_000, *m.Amount)
	require.EqualValues(t, 3_000, *m.Discount)
	later := time.Now().Add(time.Minute).Format(time.RFC3339)
	require.Zero(t, verify(exitDone, "--from="+later).Events)
	require.Empty(t, verify(exitDone, "--to=2020-01-02 00:00").Missing)

	require.Equal(t, []coupon.CouponID{ended, other}, w.purge("--yes").Purged)
	found = verify(exitDone)
	require.Equal(t, len(w.streamed()), found.Events)
	require.Equal(t, found.Events, found.Purged)
	require.NoError(t, w.Redis.Del(t.Context(), w.stream()).Err())
	found = verify(exitDone)
	require.Nil(t, found.CoveredFrom)

	refused(t, "EVENT_SINK is none")(w.settle("events", "verify", "--from=2026-01-01 00:00"))
	refused(t, "--from")(w.settle("events", "verify", toStream))
	refused(t, "is not before")(w.settle("events", "verify", toStream, "--from=2026-01-02 00:00",
		"--to=2026-01-01 00:00"))
	refused(t, "not a time")(w.settle("events", "verify", toStream, "--from=yesterday"))
	away := []string{"events", "verify", toStream, "--from=2026-01-01 00:00"}
	code, _, stderr := w.settle(append(away, "--event-redis-addrs="+nowhere)...)
	require.Equal(t, exitInfrastructure, code, stderr)
	w.servers[0] = "--mysql-dsn=root@tcp(" + nowhere + ")/jajeong"
	code, _, stderr = w.settle(away...)
	require.Equal(t, exitInfrastructure, code, stderr)
}
