package cli

import (
	"bytes"
	"context"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv/badinput"
)

func TestVerbs_RefuseBadValues(t *testing.T) {
	parser, err := kong.New(new(cli), variables(""), kong.Exit(func(int) {}))
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
