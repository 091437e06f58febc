package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/text"
)

func TestHelp_HasExamplesOfEveryVerb(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(new(cli), variables(""), kong.Exit(func(int) {}))
	require.NoError(t, err)
	leaves := parser.Model.Leaves(true)
	require.Greater(t, len(leaves), 15)
	for _, verb := range leaves {
		path := strings.Fields(verb.Path())
		stdout := succeeds(t)(settleBare(t, append(path, "--help")...))
		require.Regexp(t, `(?s)Examples?:.*settle `+strings.Join(path, " ")+`\b`, stdout, verb.FullPath())
	}
}

func TestHelp_InBothLanguages(t *testing.T) {
	t.Parallel()
	for _, l := range []text.Language{text.Korean, text.English} {
		parser, err := kong.New(new(cli), kong.Name("settle"), variables(""),
			kong.Exit(func(int) {}))
		require.NoError(t, err)
		connect.FillHelp(l, parser.Model.Node)
		require.NoError(t, kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
			name, help := "", ""
			switch n := node.(type) {
			case *kong.Application:
				name, help = n.Name, n.Help
			case *kong.Node:
				name, help = n.FullPath(), n.Help
			case *kong.Flag:
				if n.Hidden {
					return nil
				}
				name, help = n.Summary(), n.Help
			case *kong.Value:
				name, help = n.Summary(), n.Help
			}
			require.NotEmpty(t, help, name)
			require.NotContains(t, help, "${", name)
			if !codesOnly.MatchString(help) {
				require.Equal(t, l == text.Korean, hangul.MatchString(help), "%s: %s", name, help)
			}
			return next(nil)
		}))
	}
}

// codesOnly are helps that only name values.
var codesOnly = regexp.MustCompile(`^[a-z, ]+\.$`)

// The help of a verb is about the verb: settings are names there. Only a misspelt command is named.
func TestHelp_IsAboutTheVerb(t *testing.T) {
	t.Parallel()
	help := succeeds(t)(settleBare(t, "help", "coupon", "pause", "--lang=en"))
	require.Equal(t, help, succeeds(t)(settleBare(t, "coupon", "pause", "--help", "--lang=en")))
	require.Less(t, strings.Count(help, "\n"), 40)
	require.Contains(t, help, "--redis-sentinel-username")
	require.NotContains(t, help, "MYSQL_DSN")
	require.Less(t, strings.Index(help, "--dry-run"), strings.Index(help, "--mysql-dsn"))
	whole := succeeds(t)(settleBare(t, "help", "--lang=en"))
	require.Contains(t, whole, "$MYSQL_DSN")
	require.Less(t, strings.Index(whole, "coupon pause"), strings.Index(whole, "--mysql-dsn"))
	for _, args := range [][]string{{"coupn", "list"}, {"coupon", "paus", "1"}} {
		code, _, stderr := settleBare(t, append(args, "--lang=en")...)
		require.Equal(t, exitUse, code)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		require.Contains(t, stderr, "did you mean")
	}
}
