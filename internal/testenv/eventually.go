package testenv

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/testenv/process"
)

// The pauses between two looks at a condition grow with the wait: to a twentieth of it, or 100 ms.
const (
	shortestPause = 10 * time.Millisecond
	longestPause  = 100 * time.Millisecond
)

// Eventually waits until cond is true, for as long as the test binary may run (go test -timeout), and fails the test
// after that. what completes the sentence "never: …". To be called from the test's own goroutine.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ctx := process.PatientCleanUp(t)
	for began := time.Now(); !cond(); {
		select {
		case <-time.After(min(max(shortestPause, time.Since(began)/20), longestPause)):
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

// Receive returns the next value of a channel, and waits for it as Eventually waits for a condition.
func Receive[T any](t testing.TB, what string, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-process.PatientCleanUp(t).Done():
		t.Fatalf("never: %s", what)
	}
	return value
}

// InTime calls f again as long as a time limit of the product ends it, as happens on a slow machine, and returns the
// first other answer. f must be safe to repeat. It may be called from any goroutine.
func InTime(t testing.TB, f func() error) error {
	t.Helper()
	for {
		if err := f(); !timedOut(err) || Patient(t).Err() != nil {
			return err
		}
	}
}

func timedOut(err error) bool {
	const lockWaitTimeout = 1205 // of MySQL
	var network net.Error
	if refused, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return refused.Number == lockWaitTimeout
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redis.ErrPoolTimeout) ||
		errors.As(err, &network) && network.Timeout()
}

// Patient returns a context that ends with the test, or a minute before the test binary's time (go test -timeout) is
// over. It is the only time limit of a wait in a test.
func Patient(t testing.TB) context.Context {
	t.Helper()
	return process.Patient(t)
}

// Deadline is when a wait of the test ends at the latest, for connections. It is zero without a limit.
func Deadline(t testing.TB) time.Time {
	t.Helper()
	deadline, _ := Patient(t).Deadline()
	return deadline
}
