package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// heldBack keeps the coupon's row locked while changes waits for it, lets users apply meanwhile, and returns what was said.
func (w *world) heldBack(coupon uint64, users []uint64, verb string, extra ...string) (stdout string) {
	w.t.Helper()
	release := w.lock(coupon)
	done := make(chan struct{})
	var code int
	var stderr string
	go func() {
		defer close(done)
		code, stdout, stderr = w.changes(verb, coupon, extra...)
	}()
	w.awaitLockWait()
	w.apply(coupon, users...)
	release()
	<-done
	require.Zero(w.t, code, stderr)
	return stdout
}

func (w *world) latest(coupon uint64) (arrival int64) {
	w.t.Helper()
	last, err := w.rdb.ZRevRangeWithScores(w.t.Context(), w.queue(coupon), 0, 0).Result()
	require.NoError(w.t, err)
	return int64(last[0].Score)
}

func (w *world) closesAt(coupon uint64) (at time.Time) {
	w.t.Helper()
	require.NoError(w.t, w.db.QueryRow("SELECT apply_closes_at FROM coupon WHERE id = ?", coupon).Scan(&at))
	return at
}

func (w *world) state(coupon uint64, field string) string {
	return w.rdb.HGet(w.t.Context(), "state:{"+w.queue(coupon)+"}", field).Val()
}

// Nobody is accepted at or behind an end that is recorded, however long the row was waited for, and however far the line
// runs ahead of the clock.
func TestAnEndLiesBehindWhoeverIsAccepted(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"by the clock": 0, "ahead of the clock": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			coupon := w.coupon(9)
			w.refresh()
			require.NoError(t, w.rdb.HSet(t.Context(), "state:{"+w.queue(coupon)+"}", "last", w.now().Add(ahead).UnixMicro()).Err())
			w.heldBack(coupon, between(1, 5), "close")
			require.Greater(t, w.closesAt(coupon).UnixMicro(), w.latest(coupon))
			require.Equal(t, fmt.Sprint(w.closesAt(coupon).UnixMicro()), w.state(coupon, "closes"))
			require.Equal(t, candidates.Closed, w.answer(coupon, 6))
			w.refresh()
			require.Equal(t, candidates.Closed, w.answer(coupon, 6))
		})
	}
}

// A pause is kept with the instant at which the door heard of it.
func TestAPauseLiesBehindWhoeverIsAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(9)
	w.heldBack(coupon, between(1, 5), "pause")
	require.Equal(t, candidates.Paused, w.answer(coupon, 6))
	details := w.audited(coupon, "COUPON_PAUSED")
	require.Len(t, details, 1)
	_, since, found := strings.Cut(details[0], "status OPEN → PAUSED, door_shut_at ")
	require.True(t, found, details[0])
	at, err := time.Parse(time.RFC3339Nano, since)
	require.NoError(t, err)
	require.Greater(t, at.UnixMicro(), w.latest(coupon))
}

// An end that is made later is recorded before the door goes by it, and the earlier one held until then.
func TestAnEndMadeLaterIsRecordedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(9)
	later := w.now().Add(3 * time.Hour).Truncate(time.Second)
	before := w.state(coupon, "closes")
	release := w.lock(coupon)
	done := make(chan int)
	go func() {
		code, _, _ := w.changes("extend", coupon, "--closes="+later.UTC().Format(time.RFC3339))
		done <- code
	}()
	w.awaitLockWait()
	require.Equal(t, before, w.state(coupon, "closes"))
	release()
	require.Zero(t, <-done)
	require.Equal(t, fmt.Sprint(later.UnixMicro()), w.state(coupon, "closes"))
	require.True(t, later.Equal(w.closesAt(coupon)))
}

// An earlier change whose clock was an hour ahead keeps no door open.
func TestACloseCountsWhateverTheClockOfTheChangeBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(9)
	w.exec("UPDATE coupon SET updated_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE id = ?", coupon)
	w.refresh()
	w.apply(coupon, 1)
	require.Contains(t, w.mustChange("close", coupon), "from now on new applications are answered CLOSED")
	require.Equal(t, candidates.Closed, w.answer(coupon, 2))
	w.refresh()
	require.Equal(t, candidates.Closed, w.answer(coupon, 2))
}

// Every change of window or status moves the version, and nothing else does.
func TestVersionsOnlyGrow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(9)
	w.refresh()
	version := func() uint64 { return w.ids("SELECT version FROM coupon WHERE id = ?", coupon)[0] }
	last := version()
	later := func(d time.Duration) string { return "--closes=" + w.now().Add(d).UTC().Format(time.RFC3339) }
	for _, change := range [][]string{{"pause"}, {"resume"}, {"extend", later(2 * time.Hour)}, {"close"}, {"extend", later(3 * time.Hour)}} {
		w.mustChange(change[0], coupon, change[1:]...)
		require.Equal(t, last+1, version(), change)
		require.Equal(t, fmt.Sprint(last+1), w.state(coupon, "version"), change)
		last++
	}
	w.mustChange("resume", coupon)
	w.mustChange("add-seats", coupon, "--seats=1")
	w.users(1)
	w.apply(coupon, 1)
	w.settleNow()
	require.Equal(t, last, version())

	// A door that knows a newer version, as after MySQL came back from a backup: the row goes on behind it.
	require.NoError(t, w.rdb.HSet(t.Context(), "state:{"+w.queue(coupon)+"}", "version", last+7, "version_at", w.now().UnixMicro()).Err())
	w.mustChange("pause", coupon)
	require.Equal(t, candidates.Paused, w.answer(coupon, 2))
	require.Equal(t, last+7, version())
}

// What a door has not taken is not said to be so.
func TestADoorThatGoesByANewerVersionIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(9)
	w.mustChange("pause", coupon)
	state := "state:{" + w.queue(coupon) + "}"
	require.NoError(t, w.rdb.HSet(t.Context(), state, "version", 8_000_000_000_000_000, "version_at", w.now().UnixMicro()).Err())
	code, stdout, stderr := w.changes("resume", coupon)
	require.Zero(t, code)
	require.NotContains(t, stdout, "takes applications")
	require.Contains(t, stderr, "may not have reached Redis")
	require.Equal(t, candidates.Paused, w.answer(coupon, 1))
	w.refresh()
	require.Equal(t, candidates.Paused, w.answer(coupon, 1))

	require.NoError(t, w.rdb.HSet(t.Context(), state, "version_at", w.now().Add(-3*time.Minute).UnixMicro()).Err())
	w.refresh()
	require.Equal(t, candidates.Accepted, w.answer(coupon, 1))
}

// The door was shut, and MySQL is gone before it is committed: the row stands, and the door opens again by itself.
func TestACloseThatIsNotCommittedLeavesNoLie(t *testing.T) {
	t.Parallel()
	w := newWiredWorld(t)
	w.servers[0] = "--mysql-dsn=" + w.accounts["jajeong_operator"]
	coupon := w.coupon(9)
	w.refresh()
	w.apply(coupon, 1)
	before := w.closesAt(coupon)
	inChange := false
	var wires []*faultproxy.Proxy
	through := *w
	wires, through.servers = w.wiresTo(func(turn faultproxy.Turn) faultproxy.Action {
		inChange = inChange || bytes.Contains(turn.Request, []byte("INTO audit_event"))
		if inChange && bytes.HasSuffix(turn.Request, []byte("\x03COMMIT")) {
			return faultproxy.DropRequest(wires[toMySQL].Down)
		}
		return faultproxy.Pass()
	})
	code, stdout, stderr := through.changes("close", coupon)
	require.Equal(t, 1, code, stderr)
	require.Empty(t, stdout)
	require.True(t, inChange)
	testenv.Eventually(t, 20*time.Second, "the transaction is rolled back", func() bool {
		_, err := w.db.Exec("SELECT id FROM coupon WHERE id = ? FOR UPDATE NOWAIT", coupon)
		return err == nil
	})
	require.Equal(t, before, w.closesAt(coupon))
	w.refresh()
	require.Equal(t, candidates.Closed, w.answer(coupon, 2), "it may still be committed")
	require.NoError(t, w.rdb.HSet(t.Context(), "state:{"+w.queue(coupon)+"}", "version_at", w.now().Add(-3*time.Minute).UnixMicro()).Err())
	w.refresh()
	w.apply(coupon, 2)

	w.mustChange("close", coupon)
	require.Greater(t, w.closesAt(coupon).UnixMicro(), w.latest(coupon))
	require.Equal(t, candidates.Closed, w.answer(coupon, 3))
	w.refresh()
	require.Equal(t, candidates.Closed, w.answer(coupon, 3))
}

// Under a crowd too: whoever is accepted while it closes lies before the end, to the microsecond.
func TestAnEndUnderACrowd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(9)
	w.refresh()
	var next, accepted atomic.Uint64
	var crowd sync.WaitGroup
	for range 8 {
		crowd.Go(func() {
			for {
				receipt, err := w.store.Apply(context.Background(), coupon, next.Add(1))
				if !assert.NoError(t, err) || receipt.Code != candidates.Accepted {
					assert.Equal(t, candidates.Closed, receipt.Code)
					return
				}
				accepted.Add(1)
			}
		})
	}
	testenv.Eventually(t, 20*time.Second, "a crowd is there", func() bool { return accepted.Load() > 200 })
	w.mustChange("close", coupon)
	crowd.Wait()
	require.Greater(t, w.closesAt(coupon).UnixMicro(), w.latest(coupon))
	require.EqualValues(t, accepted.Load(), len(w.waiting(coupon)))
}
