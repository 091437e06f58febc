package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// A scheduler that is told to stop in the middle of a night finishes the settlement in hand, exits with 0 within its
// grace, and the next one settles what is left.
func TestSIGTERMInTheMiddleOfANight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	zone := w.settler().Zone
	midnight := settle.DefaultCutoff(w.now(), zone)
	first := w.couponBetween(10, midnight.Add(-time.Hour), midnight.Add(48*time.Hour))
	second := w.couponBetween(10, midnight.Add(-time.Hour), midnight.Add(48*time.Hour))
	w.users(1)
	w.stand(first, "1", midnight.Add(-time.Minute))
	w.stand(second, "1", midnight.Add(-time.Minute))
	tx, err := w.db.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec("SELECT id FROM coupon WHERE id = ? FOR UPDATE", first) // the night waits here
	require.NoError(t, err)

	cmd := exec.Command(testenv.Build(t, "./cmd/settle"), append([]string{"schedule", "--parallel=1"}, w.servers...)...)
	cmd.Env = os.Environ()
	logs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	w.awaitLockWait()
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	lines := bufio.NewScanner(logs)
	for lines.Scan() && !strings.Contains(lines.Text(), "told to stop") {
	}
	require.NoError(t, tx.Rollback())
	for lines.Scan() { // to its end, as Wait wants it
	}
	require.NoError(t, cmd.Wait())
	require.Equal(t, []uint64{1}, w.issued(first), "what was in hand is finished")
	require.Empty(t, w.issued(second), "nothing else was begun")
	require.Equal(t, []string{"1"}, w.waiting(second))

	code, _, stderr := w.settle("run")
	require.Zero(t, code, stderr)
	require.Equal(t, []uint64{1}, w.issued(second))
	w.verify()
}
