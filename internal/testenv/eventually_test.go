package testenv

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEventually(t *testing.T) {
	t.Parallel()
	calls := 0
	Eventually(t, "third call", func() bool { calls++; return calls == 3 })
	require.Equal(t, 3, calls)

	failing := &recorder{TB: t, deadline: time.Now()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Eventually(failing, "it happens", func() bool { return false })
	}()
	<-done
	require.Equal(t, "never: it happens", failing.fatal)
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	deadline time.Time
	fatal    string
}

func (r *recorder) Deadline() (time.Time, bool) { return r.deadline, true }

func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
