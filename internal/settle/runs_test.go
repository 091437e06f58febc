package settle

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
)

// silence lets a run have been silent for so long, by the clock of the database.
func (s *settlement) silence(t *testing.T, run uint64, seconds int) {
	t.Helper()
	_, err := s.DB.Pool().Exec("UPDATE settlement_run SET heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL ? SECOND WHERE id = ?", seconds, run)
	require.NoError(t, err)
}

func (s *settlement) runStatus(t *testing.T, run uint64) (status string, finished bool) {
	t.Helper()
	require.NoError(t, s.DB.Pool().QueryRow("SELECT status, finished_at IS NOT NULL FROM settlement_run WHERE id = ?", run).Scan(&status, &finished))
	return status, finished
}

func TestASilentRunIsAbandoned(t *testing.T) {
	t.Parallel()
	s := newSettlement(t, 1)
	begin := func() run {
		r := s.run
		r.startedAt = r.startedAt.Add(-24 * time.Hour) // the clock of its pod is wrong, which must not matter
		require.NoError(t, insertRun(t.Context(), s.DB.Pool(), &r))
		return r
	}
	silent, beating, ended := begin(), begin(), begin()
	require.NoError(t, endRun(t.Context(), s.DB.Pool(), ended.id, coupon.RunHeld, time.Now().UTC()))
	s.silence(t, silent.id, history.SilentSeconds+1)
	s.silence(t, beating.id, history.SilentSeconds-5)
	s.silence(t, ended.id, 3600)
	mark := func() []uint64 {
		abandoned, err := abandonSilent(t.Context(), s.DB.Pool())
		require.NoError(t, err)
		return abandoned
	}
	require.Equal(t, []uint64{silent.id}, mark())
	require.Empty(t, mark())
	status := func(r run) string { status, _ := s.runStatus(t, r.id); return status }
	require.Equal(t, []string{"ABANDONED", "RUNNING", "HELD"}, []string{status(silent), status(beating), status(ended)})
	_, finished := s.runStatus(t, silent.id)
	require.False(t, finished, "a night that was not settled to its end must be caught up")

	// It lives: it was only cut off from the database.
	require.NoError(t, beatRun(t.Context(), s.DB.Pool(), silent.id))
	require.Equal(t, "RUNNING", status(silent))
	require.Empty(t, mark())
	s.silence(t, silent.id, history.SilentSeconds+1)
	require.Equal(t, []uint64{silent.id}, mark())
	require.NoError(t, endRun(t.Context(), s.DB.Pool(), silent.id, coupon.RunSucceeded, time.Now().UTC()))
	require.Equal(t, "SUCCEEDED", status(silent))
	require.Error(t, beatRun(t.Context(), s.DB.Pool(), silent.id), "what has ended stays so")
	require.Equal(t, "SUCCEEDED", status(silent))
}

// A heartbeat that hangs must end before the run is taken for dead.
func TestHeartbeatsAreOftenEnough(t *testing.T) {
	t.Parallel()
	require.Less(t, heartbeat+beatTimeout, history.SilentSeconds*time.Second)
}

func TestResultsAreKept(t *testing.T) {
	t.Parallel()
	s := newSettlement(t, 1)
	results := []Result{
		{Coupon: 1, Status: coupon.Settled, Millis: 12}, {Coupon: 2, Status: coupon.Unchanged, Millis: 1}, {Coupon: 3, Status: coupon.NotDue},
		{Coupon: 4, Status: coupon.HeldBack, Gap: 7, Error: "held"}, {Coupon: 5, Status: coupon.Failed, Error: strings.Repeat("쿠", maxErrorLetters+1)},
	}
	for n := uint64(10); n < 10+2*maxResults+1; n++ {
		results = append(results, Result{Coupon: n, Status: coupon.Busy, Millis: -1, Error: "\xff"})
	}
	for range 2 { // as after a reply that was lost
		require.NoError(t, storeResults(t.Context(), s.DB.Pool(), s.run.id, results))
	}
	kept := func(query string) (n int) {
		require.NoError(t, s.DB.Pool().QueryRow("SELECT COUNT(*) FROM run_coupon WHERE "+query).Scan(&n))
		return n
	}
	require.Equal(t, 3+2*maxResults+1, kept("TRUE"))
	require.Equal(t, 1, kept("coupon_id = 1 AND status = 'SETTLED' AND duration_ms = 12 AND error = ''"))
	require.Equal(t, 1, kept("coupon_id = 4 AND status = 'HELD' AND gap = 7 AND error = 'held'"))
	require.Equal(t, 1, kept("coupon_id = 5 AND CHAR_LENGTH(error) = 2000"))
	require.Equal(t, 2*maxResults+1, kept("status = 'BUSY' AND duration_ms = 0"))
	require.NoError(t, storeResults(t.Context(), s.DB.Pool(), s.run.id, nil))
}

// A night that was settled before it came, since the Redis clock was ahead, is none while it has not come.
func TestTheLastNightIsNoneThatHasNotCome(t *testing.T) {
	t.Parallel()
	s := newSettlement(t, 1)
	night := func(n int) time.Time { return time.Date(2026, 11, n, 15, 0, 0, 0, time.UTC) }
	last, err := s.LastNight(t.Context(), night(20))
	require.NoError(t, err)
	require.True(t, last.IsZero())
	for _, n := range []int{19, 18, 23} {
		r := s.run
		r.Trigger, r.cutoff = coupon.Cron, night(n)
		require.NoError(t, insertRun(t.Context(), s.DB.Pool(), &r))
		require.NoError(t, endRun(t.Context(), s.DB.Pool(), r.id, coupon.RunSucceeded, night(19)))
	}
	for newest, want := range map[int]int{18: 18, 20: 19, 22: 19, 23: 23} {
		last, err := s.LastNight(t.Context(), night(newest).In(time.FixedZone("Asia/Seoul", 9*60*60)))
		require.NoError(t, err)
		require.Equal(t, night(want), last, "of %d", newest)
	}
}
