package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
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

func TestWrongUseOfRunsAndReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"limit of none":     {[]string{"runs", "--limit=0"}, "want 1 to 500"},
		"limit too high":    {[]string{"runs", "--limit=501"}, "--before"},
		"runs of no date":   {[]string{"runs", "--date=yesterday"}, "2026-11-20"},
		"unknown status":    {[]string{"runs", "--status=DEAD"}, "ABANDONED"},
		"unknown trigger":   {[]string{"runs", "--trigger=cron"}, "CRON"},
		"no such run":       {[]string{"show", "999"}, "run 999"},
		"run is no id":      {[]string{"show", "abc"}, "whole number"},
		"show of nothing":   {[]string{"show"}, "<run>"},
		"no period":         {[]string{"report"}, "--date=2026-11-20 or --month=2026-11"},
		"two periods":       {[]string{"report", "--date=2026-11-20", "--month=2026-11"}, "--month"},
		"no such date":      {[]string{"report", "--date=2026-02-30"}, "YYYY-MM-DD"},
		"no such month":     {[]string{"report", "--month=2026-13"}, "YYYY-MM"},
		"month is a date":   {[]string{"report", "--month=2026-11-20"}, "2026-11"},
		"before the epoch":  {[]string{"report", "--month=1969-11"}, "1970"},
		"unknown output":    {[]string{"report", "--month=2026-11", "--output=pdf"}, "html"},
		"no such coupon":    {[]string{"report", "--month=2026-11", "--coupon=999"}, "coupon 999"},
		"nowhere to write":  {[]string{"report", "--month=2026-11", "--out=/nonexistent/report.csv"}, "--out"},
		"a coupon is no id": {[]string{"report", "--month=2026-11", "--coupon=-1"}, "--coupon"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := w.settle(c.args...)
			require.Equal(t, 2, code, stderr)
			require.Empty(t, stdout)
			require.Contains(t, stderr, c.want)
			require.NotContains(t, stderr, "safe to run again")
		})
	}
}
