package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv/badinput"
)

func TestVerbs_RefuseBadValues(t *testing.T) {
	parser, err := kong.New(new(cli), kong.Vars{"version": "", "log_level": "warn"}, kong.Exit(func(int) {}))
	require.NoError(t, err)
	told, stop := context.WithCancel(t.Context())
	stop() // so that no verb stays that should not have begun
	t.Setenv("LC_ALL", "C")
	badinput.CheckAll(t, parser.Model, func(args ...string) (int, string) {
		var stdout, stderr bytes.Buffer
		code := run(told, args, &stdout, &stderr)
		require.Empty(t, stdout.String(), "%v", args)
		return code, stderr.String()
	})
}

func TestSettings_RefuseEmptySecretFile(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for _, flag := range []string{"redis-password-file", "mysql-dsn-file"} {
		code, _, stderr := settleBare(t, "runs", "--"+flag+"="+empty)
		require.Equal(t, 2, code, stderr)
		require.Contains(t, stderr, empty+" is empty")
	}
}

func TestUsageErrors_InKorean(t *testing.T) {
	t.Parallel()
	_, _, stderr := settleBare(t, "run", "--lang=ko", "--date=", "--mysql-dsn=nobody@tcp(127.0.0.1:1)/none")
	require.Contains(t, stderr, "--date: 값이 비어 있습니다")
}
