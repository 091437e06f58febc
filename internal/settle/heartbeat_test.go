package settle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/history"
)

// A heartbeat that hangs ends before the run counts as abandoned.
func TestHeartbeat_EndsBeforeTheRunIsAbandoned(t *testing.T) {
	t.Parallel()
	require.Less(t, heartbeat+beatTimeout, history.SilentSeconds*time.Second)
}
