package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/output"
)

func TestRun_WithNothingDuePrintsQueues(t *testing.T) {
	t.Parallel()
	seoul := jajeongtest.Zone
	w := newWorld(t)
	code, stdout, stderr := w.settle("run")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "no coupon is due")
	require.NotContains(t, stdout, "waiting")

	now := w.Now()
	yesterday := now.In(seoul).AddDate(0, 0, -1).Format(time.DateOnly)
	midnight, err := calendar.DateCutoff(yesterday, seoul)
	require.NoError(t, err)
	couponID := w.AddCouponBetween(5, midnight, now.Add(time.Hour))
	w.AddUsers(1, 2)
	w.Apply(couponID, 1, 2)
	arrival := w.Arrivals(couponID)["1"]
	night := []string{"run", "--date=" + yesterday, "--operator=kim", "--reason=test"}
	for _, args := range [][]string{night, append(night, "--dry-run")} {
		code, stdout, stderr = w.settle(args...)
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "no coupon is due")
		require.Contains(t, stdout, "coupon 1 심야 쿠폰: 2 waiting, the first due for settlement at "+
			(output.Locale{Zone: seoul}).Instant(calendar.NextCutoff(arrival.Time(), seoul))+".")
		require.Contains(t, stdout, "settle run --coupon 1 --cutoff now")
	}
	_, stdout, _ = w.settle(append(night, "--lang=ko")...)
	require.Contains(t, stdout, "쿠폰 1 심야 쿠폰: 대기 중인 신청 2건")
	_, stdout, _ = w.settle(append(night, "--output=json")...)
	require.NotContains(t, stdout, "waiting", "programs read the report alone")
}
