package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv/badinput"
)

func TestBadValuesAreRefused(t *testing.T) {
	parser, err := kong.New(new(settings), kong.Vars{"version": "", "log_level": "info"}, kong.Exit(func(int) {}))
	require.NoError(t, err)
	told, stop := context.WithCancel(t.Context())
	stop() // so that it does not stay where it should not have begun
	badinput.CheckAll(t, parser.Model, func(args ...string) (int, string) {
		var stdout, stderr bytes.Buffer
		code := run(told, args, &stdout, &stderr)
		require.Empty(t, stdout.String(), "%v", args)
		return code, stderr.String()
	})
}
