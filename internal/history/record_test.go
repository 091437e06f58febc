package history_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
)

var cutoff = time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)

// begin records a run that starts at that instant.
func (d fixture) begin(start history.Start) coupon.RunID {
	d.T.Helper()
	id, err := history.Begin(d.T.Context(), d.DB, start, 1)
	require.NoError(d.T, err)
	return id
}

func TestBegin_FindsTheRowOfALostReply(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	start := history.Start{Trigger: coupon.Cron, Cutoff: cutoff, StartedAt: cutoff}
	first := d.begin(start)
	found, err := history.Begin(t.Context(), d.DB, start, 2)
	require.NoError(t, err)
	require.Equal(t, first, found)
	require.NotEqual(t, first, d.begin(start), "a first attempt looks for nothing")
}

func TestAbandon(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	begin := func() coupon.RunID { // the clock of its pod is wrong, which must not matter
		return d.begin(history.Start{Trigger: coupon.Cron, Cutoff: cutoff, StartedAt: cutoff.Add(-24 * time.Hour)})
	}
	silence := func(run coupon.RunID, seconds int) {
		d.Exec("UPDATE settlement_run SET heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL ? SECOND WHERE id = ?", seconds, run)
	}
	status := func(run coupon.RunID) (status string) {
		require.NoError(t, d.DB.QueryRow("SELECT CONCAT(status, IF(finished_at IS NULL, '', ' finished')) FROM settlement_run WHERE id = ?", run).Scan(&status))
		return status
	}
	mark := func() []coupon.RunID {
		abandoned, err := history.Abandon(t.Context(), d.DB)
		require.NoError(t, err)
		return abandoned
	}
	silent, beating, ended := begin(), begin(), begin()
	require.NoError(t, history.End(t.Context(), d.DB, ended, coupon.RunHeld, time.Now().UTC()))
	silence(silent, history.SilentSeconds+1)
	silence(beating, history.SilentSeconds-5)
	silence(ended, 3600)
	require.Equal(t, []coupon.RunID{silent}, mark())
	require.Empty(t, mark())
	require.Equal(t, []string{"ABANDONED", "RUNNING", "HELD finished"}, []string{status(silent), status(beating), status(ended)})

	// It lives: it was only cut off from the database.
	require.NoError(t, history.Beat(t.Context(), d.DB, silent))
	require.Equal(t, "RUNNING", status(silent))
	require.Empty(t, mark())
	silence(silent, history.SilentSeconds+1)
	require.Equal(t, []coupon.RunID{silent}, mark())
	require.NoError(t, history.End(t.Context(), d.DB, silent, coupon.RunSucceeded, time.Now().UTC()))
	require.Equal(t, "SUCCEEDED finished", status(silent))
	require.Error(t, history.Beat(t.Context(), d.DB, silent), "a run that has ended stays so")
	require.Equal(t, "SUCCEEDED finished", status(silent))
}

func TestKeep(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	run := d.begin(history.Start{Trigger: coupon.Cron, Cutoff: cutoff, StartedAt: cutoff})
	results := []history.Result{
		{Coupon: 1, Status: coupon.Settled, Millis: 12}, {Coupon: 4, Status: coupon.HeldBack, Gap: 7, Error: "held"},
		{Coupon: 5, Status: coupon.Failed, Error: strings.Repeat("쿠", 2001)},
	}
	const busy = 401 // more than two statements
	for n := range coupon.CouponID(busy) {
		results = append(results, history.Result{Coupon: 10 + n, Status: coupon.Busy, Millis: -1, Error: "\xff"})
	}
	for range 2 { // as after a lost reply
		require.NoError(t, history.Keep(t.Context(), d.DB, run, results))
	}
	kept := func(query string) (n int) {
		require.NoError(t, d.DB.QueryRow("SELECT COUNT(*) FROM run_coupon WHERE "+query).Scan(&n))
		return n
	}
	require.Equal(t, 3+busy, kept("TRUE"))
	require.Equal(t, 1, kept("coupon_id = 1 AND status = 'SETTLED' AND duration_ms = 12 AND error = ''"))
	require.Equal(t, 1, kept("coupon_id = 4 AND status = 'HELD' AND gap = 7 AND error = 'held'"))
	require.Equal(t, 1, kept("coupon_id = 5 AND CHAR_LENGTH(error) = 2000"))
	require.Equal(t, busy, kept("status = 'BUSY' AND duration_ms = 0"))
	require.NoError(t, history.Keep(t.Context(), d.DB, run, nil))
}

// A night that was settled before it came, because the Redis clock was ahead, does not count before it comes.
func TestLastNight(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	night := func(n int) time.Time { return time.Date(2026, 11, n, 15, 0, 0, 0, time.UTC) }
	last := func(newest int) time.Time {
		last, err := history.LastNight(t.Context(), d.DB, night(newest).In(time.FixedZone("Asia/Seoul", 9*60*60)))
		require.NoError(t, err)
		return last
	}
	require.True(t, last(20).IsZero())
	for _, n := range []int{19, 18, 23} {
		id := d.begin(history.Start{Trigger: coupon.Cron, Cutoff: night(n), StartedAt: night(n)})
		require.NoError(t, history.End(t.Context(), d.DB, id, coupon.RunSucceeded, night(19)))
	}
	for newest, want := range map[int]int{18: 18, 20: 19, 22: 19, 23: 23} {
		require.Equal(t, night(want), last(newest), "of %d", newest)
	}
}
