package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGoldenRuns(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "runs", func(w *world) {
		w.AddUsers(between(1, 3)...)
		couponID := w.AddCoupon(2)
		w.Apply(couponID, 1, 2, 99, 3)
		w.settleNow("--log-level=error")
		w.settleNow("--operator==HYPERLINK(\"http://x\")", "--reason=+1, \"quoted\"")
		w.AddPromises(couponID, 2)
		code, _ := w.settleNowCode()
		require.Equal(w.T, 3, code)
		w.Exec("INSERT INTO settlement_run (trigger_kind, cutoff, coupons, nonce, started_at, heartbeat_at) VALUES " +
			"('CRON', '2026-11-20 15:00:00', 12, 'a', NOW(6), UTC_TIMESTAMP(6) - INTERVAL 1 HOUR)")
		w.Exec("INSERT INTO settlement_run (trigger_kind, cutoff, nonce, started_at, heartbeat_at) VALUES ('CRON', " +
			"'2026-11-21 15:00:00', 'b', NOW(6), UTC_TIMESTAMP(6))")
		w.Exec("UPDATE run_coupon SET duration_ms = 12")
		w.Exec("UPDATE settlement_run SET started_at = '2026-11-20 15:00:01', finished_at = IF(finished_at IS NULL, " +
			"NULL, '2026-11-20 15:00:03')")
		for n := range 3 { // two in one hour, one in the next
			w.Exec(`INSERT INTO settlement_run (trigger_kind, coupons, nonce, heartbeat_at, cutoff, started_at,
				finished_at, status)
				VALUES ('IMMEDIATE', 1, ?, NOW(6), '2026-11-21 23:10:00' + INTERVAL ? MINUTE,
					'2026-11-21 23:10:01' + INTERVAL ? MINUTE, '2026-11-21 23:10:02' + INTERVAL ? MINUTE, 'SUCCEEDED')`,
				n, 25*n, 25*n, 25*n)
			w.Exec("INSERT INTO settlement (run_id, coupon_id, issued_count, settled_at, cleaned_at) VALUES (?, ?, "+
				"7, NOW(6), NOW(6))", 6+n, couponID)
		}
	}, func(s *spoken) {
		s.says("runs")
		s.says("runs", "--limit=2", "--trigger=MANUAL")
		s.says("runs", "--limit=2", "--trigger=MANUAL", "--before=2")
		s.says("runs", "--coupon=1", "--output=csv")
		s.says("runs", "--coupon=1", "--limit=1", "--output=json")
		s.says("runs", "--trigger=IMMEDIATE", "--limit=2")
		s.says("show", "6")
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
