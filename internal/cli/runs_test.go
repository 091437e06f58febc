package cli

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// What finance and CS ask about runs.
func TestGoldenRuns(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "runs", func(w *world) {
		w.users(between(1, 3)...)
		coupon := w.coupon(2)
		w.apply(coupon, 1, 2, 99, 3)
		w.settleNow("--log-level=error")
		w.settleNow("--operator==HYPERLINK(\"http://x\")", "--reason=+1, \"quoted\"")
		require.NoError(w.t, w.rdb.HIncrBy(w.t.Context(), "state:{"+w.queue(coupon)+"}", "accepted", 2).Err())
		code, _ := w.settleNowCode()
		require.Equal(w.t, 3, code)
		w.exec("INSERT INTO settlement_run (trigger_kind, cutoff, heartbeat_at) VALUES ('CRON', '2026-11-20 15:00:00', UTC_TIMESTAMP(6) - INTERVAL 1 HOUR)")
		w.exec("INSERT INTO settlement_run (trigger_kind, cutoff, heartbeat_at) VALUES ('CRON', '2026-11-21 15:00:00', UTC_TIMESTAMP(6))")
		w.exec("UPDATE run_coupon SET duration_ms = 12")
		w.exec("UPDATE settlement_run SET started_at = '2026-11-20 15:00:01', finished_at = IF(finished_at IS NULL, NULL, '2026-11-20 15:00:03')")
	}, func(s *spoken) {
		s.says("runs")
		s.says("runs", "--limit=2", "--trigger=MANUAL")
		s.says("runs", "--limit=2", "--trigger=MANUAL", "--before=2")
		s.says("runs", "--coupon=1", "--output=csv")
		s.says("runs", "--status=ABANDONED", "--output=json")
		s.says("runs", "--date=2001-01-01")
		s.says("runs", "--date=2001-01-01", "--output=json")
		s.says("show", "1")
		s.says("show", "3")
		s.says("show", "4")
		s.says("show", "5")
		s.says("show", "3", "--output=json")
		s.says("show", "99")
	})
}

// A run whose process is killed is RUNNING while it may live, then ABANDONED, which the next run writes down.
func TestARunWhoseProcessDiedIsAbandoned(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1, newWiredWorld).scene(t)
	p := s.start(1, func(p *process, turn faultproxy.Turn) faultproxy.Action {
		if p.step() == settle.StepCleanUp {
			return faultproxy.DropRequest(p.kill)
		}
		return faultproxy.Pass()
	})
	_, killed := p.wait()
	require.True(t, killed)
	runs := func() []history.Run {
		code, stdout, stderr := s.settle("runs", "--output=json")
		require.Zero(t, code, stderr)
		var page runsPage
		require.NoError(t, json.Unmarshal([]byte(stdout), &page))
		return page.Runs
	}
	dead := runs()[0]
	require.Equal(t, coupon.RunRunning, dead.Status, "nobody knows yet")
	status := func() (status string) {
		require.NoError(t, s.db.QueryRow("SELECT status FROM settlement_run WHERE id = ?", dead.ID).Scan(&status))
		return status
	}
	s.exec("UPDATE settlement_run SET heartbeat_at = heartbeat_at - INTERVAL ? SECOND WHERE id = ?", history.SilentSeconds, dead.ID)
	testenv.Eventually(t, 20*time.Second, "the run is shown as abandoned", func() bool { return runs()[0].Status == "ABANDONED" })
	require.Equal(t, "RUNNING", status(), "looking changes nothing")

	s.settleNow()
	require.Equal(t, "ABANDONED", status())
	all := runs()
	require.Equal(t, []coupon.RunStatus{coupon.RunSucceeded, coupon.RunAbandoned}, []coupon.RunStatus{all[0].Status, all[1].Status})
	s.mustBeSettled()
	code, stdout, _ := s.settle("show", fmt.Sprint(dead.ID), "--output=json")
	require.Zero(t, code)
	var shown shownRun
	require.NoError(t, json.Unmarshal([]byte(stdout), &shown))
	require.Equal(t, coupon.RunAbandoned, shown.Status)
	require.NotEmpty(t, shown.Details)
	require.Nil(t, shown.Details[0].Millis, "it could not say how long it took")
}
