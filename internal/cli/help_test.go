package cli

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// Every verb shows by an example how it is used, and the examples are of that verb.
func TestHelpOfEveryVerbHasExamples(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(new(cli), kong.Vars{"version": "", "log_level": "warn"}, kong.Exit(func(int) {}))
	require.NoError(t, err)
	leaves := parser.Model.Leaves(true)
	require.Greater(t, len(leaves), 15)
	for _, verb := range leaves {
		code, stdout, stderr := settleBare(t, append(pathTo(verb), "--help")...)
		require.Zero(t, code, stderr)
		require.Regexp(t, `(?s)Examples?:.*settle `+strings.Join(pathTo(verb), " ")+`\b`, stdout, verb.FullPath())
	}
}

// pathTo is what a person types to come to a verb.
func pathTo(verb *kong.Node) (path []string) {
	for n := verb; n.Parent != nil; n = n.Parent {
		path = append([]string{n.Name}, path...)
	}
	return path
}
