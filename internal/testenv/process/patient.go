package process

import (
	"context"
	"testing"
	"time"
)

// reportTime is what remains of a test binary's time when a wait gives up: enough to report and to clean up. Without
// it the binary panics, and the report names no condition.
const reportTime = time.Minute

// Patient returns a context that ends with the test, or a minute before the test binary's time (go test -timeout) is
// over. It is the only time limit of a wait in a test.
func Patient(t testing.TB) context.Context {
	t.Helper()
	return patient(t, t.Context())
}

// PatientCleanUp is Patient for a clean-up, which begins when the context of the test has ended.
func PatientCleanUp(t testing.TB) context.Context {
	t.Helper()
	return patient(t, context.WithoutCancel(t.Context()))
}

func patient(t testing.TB, ctx context.Context) context.Context {
	t.Helper()
	limited, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return ctx // a benchmark has no deadline
	}
	deadline, ok := limited.Deadline()
	if !ok {
		return ctx
	}
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(-reportTime))
	t.Cleanup(cancel)
	return ctx
}
