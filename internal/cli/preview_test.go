package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
)

func TestGoldenPreview(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "preview", func(w *world) {
		w.AddUsers(between(1, 5)...)
		w.Exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = 2")
		couponID := w.AddCoupon(3)
		w.Apply(couponID, 1, 2, 99, 3, 4, 5)
	}, func(s *spoken) {
		const digest = "sha256:9ae0b8e8c98acdde6a0d0b1d8ae2a0fb0cd9d4bd8c9b9d3f2ef3f5a7a5d7b1c0"
		cutoff := "--cutoff=" + s.Now().Format("2006-01-02T15:04:05.999999Z07:00")
		person := []string{"--operator=kim", "--reason=TICKET-1"}
		s.says("run", "--dry-run", "--cutoff=now")
		s.says("run", "--dry-run", "--cutoff=now", "--list")
		s.says(append([]string{"run", "--coupon=1", cutoff, "--expect-digest=" + digest}, person...)...)
		s.saysOnTerminal([]string{"n"}, append([]string{"run", "--coupon=1", cutoff}, person...)...)
		s.saysOnTerminal([]string{interrupt}, append([]string{"run", "--coupon=1", cutoff}, person...)...)
		s.saysOnTerminal([]string{"y"}, append([]string{"run", "--coupon=1", cutoff}, person...)...)
		s.says(append([]string{"run", "--coupon=1", cutoff}, person...)...)
		// Settled already, by the very winners that were approved, and by others than these.
		s.says(append([]string{"run", "--coupon=1", cutoff,
			"--expect-digest=sha256:69a174ecc386b1f039587b2b044bfa277db59c87221b9d9ad74f2e666430c520"}, person...)...)
		s.says(append([]string{"run", "--coupon=1", cutoff, "--expect-digest=" + digest}, person...)...)
		// The run settles the coupons that the preview shows. The exit code is that of the others.
		s.couponFor(1, 1)
		s.AddPromises(s.couponFor(1, 1), 3)
		s.saysOnTerminal(nil, append([]string{"run", "--coupon=3", "--cutoff=now"}, person...)...)
		s.saysOnTerminal([]string{"y"}, append([]string{"run", "--cutoff=now"}, person...)...)
		for _, flag := range []string{"--dry-run", "--output=table"} {
			s.says(append([]string{"run", "--coupon=3", "--cutoff=now", "--accept-gap", flag}, person...)...)
		}
	})
}

func TestPreview_HasCutoffOfNightlyRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.Now()
	inFourMinutes := time.FixedZone("", int(calendar.NextCutoff(now, time.UTC).Sub(now).Seconds())-240)
	s := w.Settler(func(s *settle.Settler) { s.Zone = jajeongtest.InZone(inFourMinutes) })
	// Nothing is due: no fence waits for midnight.
	night, err := s.RunOnce(t.Context(), settle.Order{Trigger: coupon.Cron})
	require.NoError(t, err)
	w.AddUsers(1)
	w.Apply(w.AddCoupon(5), 1)
	preview, err := s.Preview(t.Context(), settle.Order{Trigger: coupon.Cron})
	require.NoError(t, err)
	require.Equal(t, night.Cutoff, preview.Cutoff)
	require.Equal(t, 1, preview.Total.Issued)
}
