package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

func declaredVerbs(t testing.TB) verb.Verbs {
	t.Helper()
	parser, err := kong.New(new(cli), variables(""))
	require.NoError(t, err)
	return verb.Of(parser.Model)
}

// A declared verb has its words in both languages, somebody who may use it, a preview that can be pinned, and the
// flags of who makes the change. Each action that a policy names is declared once.
func TestDeclarations_AreWhole(t *testing.T) {
	t.Parallel()
	names, actions := map[string]bool{}, map[approval.Action]int{}
	for _, v := range declaredVerbs(t) {
		if !v.Form {
			continue
		}
		require.False(t, names[v.Name()], v.Path)
		names[v.Name()] = true
		for _, action := range v.Actions {
			actions[action]++
		}
		require.Regexp(t, hangul, v.Title.In(text.Korean), v.Path)
		require.NotEmpty(t, v.Title.In(text.English), v.Path)
		for _, f := range v.Fields {
			require.Regexp(t, hangul, f.Label.In(text.Korean), "%s %s", v.Path, f.Name)
			require.NotRegexp(t, hangul, f.Label.In(text.English), "%s %s", v.Path, f.Name)
			require.Equal(t, f.Hint == text.Message{}, f.Hint.In(text.English) == "", "%s %s", v.Path, f.Name)
		}
		for _, flag := range []string{"dry-run", "expect-digest", "operator", "reason", "output"} {
			require.True(t, v.Has(flag), "%s --%s", v.Path, flag)
			require.False(t, slices.ContainsFunc(v.Fields, func(f verb.Field) bool { return f.Name == flag }), v.Path)
		}
		require.Equal(t, len(v.Actions) > 0, v.Has("ask"), v.Path)
		operator := signin.Person{Roles: []signin.Role{signin.Operator}}
		require.True(t, operator.May(v.RightFor(verb.Values{})), v.Path)
	}
	for _, action := range append(slices.Clone(approval.Actions), approval.SetPolicy) {
		require.Equal(t, 1, actions[action], action)
	}
}

// The texts about the policy name the actions, and those that have a cost.
func TestTexts_NameEveryAction(t *testing.T) {
	t.Parallel()
	joined := func(all []approval.Action) string {
		names := make([]string, len(all))
		for i, action := range all {
			names[i] = string(action)
		}
		return strings.Join(names, ", ")
	}
	help, known := text.Help("settle policy set", "--actions")
	require.True(t, known)
	_, hint := text.FieldOf("policy set", "actions")
	for _, language := range []text.Language{text.Korean, text.English} {
		require.Contains(t, help.In(language), joined(approval.Actions))
		require.Contains(t, help.In(language), "("+joined(approval.Costly)+")")
		require.Contains(t, hint.In(language), joined(approval.Actions))
	}
}

// A form and a command line mean the same by the same values, and say the same about wrong ones.
func TestFill_IsTheCommandLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path   string
		values verb.Values
		wrong  map[string]string // by field, in English
	}{
		{"coupon add-seats", verb.Values{"coupon": "7", "seats": "300", "dry-run": "true"}, nil},
		{"coupon add-seats", verb.Values{"coupon": "x", "seats": "-1", "dry-run": "true"},
			map[string]string{"coupon": `<coupon> is "x": want a whole number`,
				"seats": "want --seats, the number to add, or --total"}},
		{"coupon cadence", verb.Values{"coupon": "7", "cadence": "weekly", "dry-run": "true"},
			map[string]string{"cadence": `<cadence> is "weekly": want`}},
		{"dlq drop", verb.Values{"coupon": "7", "cause": "BAD_ROW", "dry-run": "true"}, nil},
		{"dlq drop", verb.Values{"coupon": "7", "cause": "BAD_ROW,x", "dry-run": "true"},
			map[string]string{"cause": `--cause is "x"`}},
		{"coupon extend", verb.Values{"coupon": "7", "closes": "--x", "dry-run": "true"},
			map[string]string{"closes": `--closes="--x" is not a time`}},
		{"coupon create", verb.Values{"name": "n", "opens": "2026-11-27 14:00", "closes": "2026-11-28", "seats": "0",
			"discount-percent": "10", "key": "a b", "dry-run": "true"},
			map[string]string{"closes": "is not a time", "seats": "--seats is 0", "discount-percent": "discount",
				"key": "the key"}},
		{"coupon grant", verb.Values{"coupon": "7", "dry-run": "true"}, map[string]string{"user": "one list of users"}},
		{"coupon revoke", verb.Values{"coupon": "7", "dry-run": "true"}, map[string]string{"user": "user: enter a value"}},
		{"coupon pause", verb.Values{"coupon": "7", "colour": "red", "ask": "true", "approval": "3", "operator": "kim",
			"reason": "r"}, map[string]string{"colour": "unknown flag --colour",
			"approval": "--ask and --approval can't be used together"}},
	} {
		one := declaredVerbs(t).At(c.path)
		filled := one.New()
		err := connect.Fill(filled, c.values, variables(""))
		got := map[string]string{}
		for _, problem := range text.Split(err) {
			about, ok := problem.(*text.FieldError)
			require.True(t, ok, "%s: %v", c.path, problem)
			got[about.Field] = about.Error()
		}
		require.Len(t, got, len(c.wrong), "%s: %v", c.path, got)
		for field, want := range c.wrong {
			require.Contains(t, got[field], want, c.path)
		}
		if c.wrong != nil {
			continue
		}
		typed := new(cli)
		selected, err := connect.Parse(typed, connect.Program{Name: "settle"}, append(one.Command(c.values)[1:],
			"--mysql-dsn=u:p@tcp("+nowhere+")/x"), nil, nil, variables(""))
		require.NoError(t, err)
		require.Equal(t, selected.Selected().Target.Addr().Interface(), filled, c.path)
	}
}
