package jajeong_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// The Kafka broker is a dependency of tests alone.
func TestProgramsContainNoKafkaBroker(t *testing.T) {
	t.Parallel()
	output, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/...").CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "github.com/twmb/franz-go/pkg/kgo\n")
	require.NotContains(t, string(output), "kfake")
}
