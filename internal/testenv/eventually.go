package testenv

import (
	"context"
	"testing"
	"time"
)

const pollInterval = 10 * time.Millisecond

// reportTime is what remains of a test binary's time when a wait gives up: enough to report and to clean up. Without it the
// binary panics, and the report names no condition.
const reportTime = time.Minute

// Eventually waits until cond is true, for as long as the test binary may run (go test -timeout), and fails the test after
// that. what completes the sentence "never: …". To be called from the test's own goroutine.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ctx := Patient(t)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

// Patient returns a context that ends with the test, or a minute before the test binary's time (go test -timeout) is over. It
// is the only time limit of a wait in a test.
func Patient(t testing.TB) context.Context {
	t.Helper()
	limited, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return t.Context() // a benchmark has no deadline
	}
	deadline, ok := limited.Deadline()
	if !ok {
		return t.Context()
	}
	ctx, cancel := context.WithDeadline(t.Context(), deadline.Add(-reportTime))
	t.Cleanup(cancel)
	return ctx
}
