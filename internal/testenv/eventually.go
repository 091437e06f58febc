package testenv

import (
	"context"
	"testing"
	"time"
)

const pollInterval = 10 * time.Millisecond

// Eventually waits until cond is true, and fails the test when it is not within the given time.
// what completes the sentence "not within 5s: …". To be called from the test's own goroutine.
func Eventually(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
