package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

func TestCompletion_OfVerbsFlagsAndValues(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"settle ver":           {"verify"},
		"settle dlq r":         {"retry"},
		"settle run --expect":  {"--expect-digest"},
		"settle run --output ": {"table", "json"},
		"settle --lang=k":      {"ko"},
		"settle completion ":   {"bash", "zsh", "fish"},
		"settle --lang en dlq": {"dlq"},
		"settle run ":          nil,
	} {
		cmd := exec.CommandContext(t.Context(), testenv.Build(t, "./cmd/settle"))
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "COMP_LINE=" + line}
		out, err := cmd.Output()
		require.NoError(t, err, line)
		require.ElementsMatch(t, want, strings.Fields(string(out)), line)
	}
}

func TestCompletion_NeedsNoSettings(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		stdout := succeeds(t)(settleBare(t, "completion", shell))
		require.Contains(t, stdout, "complete ")
	}
	code, _, stderr := settleBare(t, "completion", "tcsh")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "bash")
}
