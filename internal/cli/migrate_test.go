package cli

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// A step may rebuild a large table for minutes: a terminal shows that it is still under way.
func TestMigrate_CountsTheSecondsOfAStep(t *testing.T) {
	t.Parallel()
	screen, terminal, err := pty.Open()
	require.NoError(t, err)
	defer screen.Close()
	synctest.Test(t, func(*testing.T) {
		stop := (&program{Process: Process{Stderr: terminal}}).countSeconds("applying a step, seconds:")
		time.Sleep(3500 * time.Millisecond)
		stop()
	})
	require.NoError(t, terminal.Close())
	shown, _ := io.ReadAll(screen) // its end is an error on Linux
	require.Regexp(t, `seconds: \[0\] .*seconds: \[1\] .*seconds: \[2\] .*seconds: \[3\] `, string(shown))
}
