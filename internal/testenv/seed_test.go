package testenv

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRandom_RepeatsWithTheSameSeed(t *testing.T) {
	t.Setenv(seedVariable, "7")
	first := Random(t).Uint64()
	require.Equal(t, first, Random(t).Uint64())
	t.Setenv(seedVariable, "8")
	require.NotEqual(t, first, Random(t).Uint64())
	t.Setenv(seedVariable, "")
	require.NotEqual(t, Seed(t), Seed(t))
}
