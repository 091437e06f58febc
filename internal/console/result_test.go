package console

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResultOf(t *testing.T) {
	t.Parallel()
	for exit, want := range map[int]string{0: "done", 1: "failed", 2: "refused", 3: "held", 4: "failed",
		130: "failed"} {
		require.Equal(t, want, resultOf(exit), exit)
	}
}
