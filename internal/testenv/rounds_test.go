package testenv

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRounds(t *testing.T) {
	t.Setenv("SOAK", "")
	require.Equal(t, 1, Rounds(1, 2))
	t.Setenv("SOAK", "1")
	require.Equal(t, 2, Rounds(1, 2))
}
