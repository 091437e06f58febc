package cli

import (
	"testing"
)

// A night's preview, pinned and then settled, as finance does it.
func TestGoldenPreview(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "preview", func(w *world) {
		w.users(between(1, 5)...)
		w.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = 2")
		coupon := w.coupon(3)
		w.apply(coupon, 1, 2, 99, 3, 4, 5)
	}, func(s *spoken) {
		const digest = "sha256:9ae0b8e8c98acdde6a0d0b1d8ae2a0fb0cd9d4bd8c9b9d3f2ef3f5a7a5d7b1c0"
		cutoff := "--cutoff=" + s.now().Format("2006-01-02T15:04:05.999999Z07:00")
		person := []string{"--operator=kim", "--reason=TICKET-1"}
		s.says("run", "--dry-run", "--cutoff=now")
		s.says("run", "--dry-run", "--cutoff=now", "--list")
		s.says(append([]string{"run", "--coupon=1", cutoff, "--expect-digest=" + digest}, person...)...)
		s.saysOnTerminal([]string{"n"}, append([]string{"run", "--coupon=1", cutoff}, person...)...)
		s.saysOnTerminal([]string{interrupt}, append([]string{"run", "--coupon=1", cutoff}, person...)...)
		s.saysOnTerminal([]string{"y"}, append([]string{"run", "--coupon=1", cutoff}, person...)...)
		s.says(append([]string{"run", "--coupon=1", cutoff}, person...)...)
		// Settled already, by the very winners that were approved, and by others than these.
		s.says(append([]string{"run", "--coupon=1", cutoff, "--expect-digest=sha256:69a174ecc386b1f039587b2b044bfa277db59c87221b9d9ad74f2e666430c520"}, person...)...)
		s.says(append([]string{"run", "--coupon=1", cutoff, "--expect-digest=" + digest}, person...)...)
	})
}
