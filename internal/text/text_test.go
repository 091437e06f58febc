package text

import (
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// messages reads the catalogue from its source: Go cannot list the variables of a package.
func messages(t *testing.T) map[string]Message {
	t.Helper()
	found := map[string]Message{}
	each(t, ".", func(n ast.Node) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return
		}
		literal, ok := spec.Values[0].(*ast.CompositeLit)
		if !ok || types.ExprString(literal.Type) != "Message" {
			return
		}
		var texts [2]string
		for i := range texts {
			value, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(literal.Elts[i]))
			require.NoError(t, err)
			texts[i] = constant.StringVal(value.Value)
		}
		found[spec.Names[0].Name] = Message{texts[0], texts[1]}
	})
	require.Greater(t, len(found), 400)
	return found
}

// each visits the syntax of every Go file below a folder that is no test.
func each(t *testing.T, folder string, visit func(ast.Node)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err == nil {
			ast.Inspect(file, func(n ast.Node) bool { visit(n); return true })
		}
		return err
	}))
}

var (
	verb   = regexp.MustCompile(`%(\[(\d+)\])?([a-z])`)
	hangul = regexp.MustCompile(`\p{Hangul}`)
	// untranslated have nothing but names and values in them.
	untranslated = []string{"OutNotWritten"}
)

// verbs are the verbs of fmt by the number of their argument.
func verbs(text string) map[int]string {
	found := map[int]string{}
	next := 1
	for _, m := range verb.FindAllStringSubmatch(text, -1) {
		if m[2] != "" {
			next, _ = strconv.Atoi(m[2])
		}
		found[next] = m[3]
		next++
	}
	return found
}

func TestMessages(t *testing.T) {
	t.Parallel()
	all := messages(t)
	seen := map[Message]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		require.NotEmpty(t, m.ko, name)
		require.NotEmpty(t, m.en, name)
		require.Equal(t, verbs(m.en), verbs(m.ko), name)
		require.Equal(t, len(verbs(m.en)), len(slices.Collect(maps.Keys(verbs(m.ko)))), name)
		require.NotRegexp(t, hangul, m.en, name)
		require.NotRegexp(t, `^[^%]*\{|\|`, m.ko, name)
		require.NotRegexp(t, `^[^%]*\{[^{}]*\|`, m.en, "%s: a plural agrees with the number before it", name)
		if !slices.Contains(untranslated, name) {
			require.Regexp(t, hangul, m.ko, name)
		}
		require.Empty(t, seen[m], "%s says the same", name)
		seen[m] = name
	}
	for _, catalogue := range []map[string]Message{help, words, intros, exampleComments} {
		for name, m := range catalogue {
			require.Regexp(t, hangul, m.ko, name)
			require.NotEmpty(t, m.en, name)
			require.NotRegexp(t, hangul, m.en, name)
		}
	}
	for name, m := range help {
		require.Equal(t, strings.Contains(m.en, "${default}"), strings.Contains(m.ko, "${default}"), name)
	}
}

// TestCalls: go vet does not check the arguments of a message.
func TestCalls(t *testing.T) {
	t.Parallel()
	all := messages(t)
	used := map[string]bool{}
	check := func(n ast.Node) {
		if selector, ok := n.(*ast.SelectorExpr); ok && types.ExprString(selector.X) == "text" {
			used[selector.Sel.Name] = true
		}
		call, ok := n.(*ast.CallExpr)
		if !ok || call.Ellipsis != token.NoPos || len(call.Args) == 0 ||
			!slices.Contains([]string{"sprintf", "Sprintf", "Errorf", "UsageErrorf", "MissingErrorf", "Println", "warn", "Fprintln", "refuse", "say"}, called(call)) {
			return
		}
		args := call.Args
		if called(call) == "Fprintln" || called(call) == "refuse" {
			args = args[1:]
		}
		if len(args) == 0 {
			return
		}
		message, ok := args[0].(*ast.SelectorExpr)
		if !ok || types.ExprString(message.X) != "text" {
			return
		}
		m, known := all[message.Sel.Name]
		if known && len(verbs(m.en)) != len(args)-1 {
			t.Errorf("%s has %d arguments", types.ExprString(call), len(args)-1)
		}
	}
	for _, file := range []string{"text.go", "examples.go"} {
		each(t, file, func(n ast.Node) {
			if name, ok := n.(*ast.Ident); ok {
				used[name.Name] = true
			}
		})
	}
	each(t, "../../internal", check)
	each(t, "../../cmd", check)
	each(t, "../../examples", check)
	for name := range all {
		if !used[name] {
			t.Errorf("%s is not used", name)
		}
	}
}

func TestPlurals(t *testing.T) {
	t.Parallel()
	m := Message{"쿠폰 %d개, %d건", "%[2]d event{|s} of %[1]d coupon{|s} {is|are} new"}
	require.Equal(t, "1 event of 2 coupons are new", English.Sprintf(m, 2, int64(1)))
	require.Equal(t, "0 events of 1 coupon is new", English.Sprintf(m, uint8(1), 0))
	require.Equal(t, "쿠폰 1개, 1건", Korean.Sprintf(m, 1, 1))
	require.Equal(t, "{|s}: {a|b}", English.Sprintf(Message{"%s: %s", "%s: %s"}, "{|s}", "{a|b}"), "an argument is no format")
}

func called(call *ast.CallExpr) string {
	if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
		return selector.Sel.Name
	}
	return ""
}

func TestHas(t *testing.T) {
	t.Parallel()
	cause := UsageErrorf(KeyReused, "k", 1)
	for _, err := range []error{cause, Errorf(NothingMoved, cause), fmt.Errorf("create: %w", cause),
		errors.Join(errors.New("x"), Errorf(NothingMoved, cause))} {
		require.True(t, Has(err, KeyReused), "%v", err)
		require.False(t, Has(err, NoRun), "%v", err)
	}
	require.False(t, Has(nil, KeyReused))
}

func TestIsMissing(t *testing.T) {
	t.Parallel()
	missing := MissingErrorf(NoSuchCoupon, 42)
	for _, err := range []error{missing, fmt.Errorf("read: %w", missing), errors.Join(errors.New("connection refused"), missing)} {
		require.True(t, IsMissing(err), err)
	}
	for _, err := range []error{nil, UsageErrorf(NoSuchCoupon, 42), RetryableErrorf(NoSuchCoupon, 42), Errorf(Stopped, missing)} {
		require.False(t, IsMissing(err), err)
	}
}

func TestIn(t *testing.T) {
	t.Parallel()
	missing := Errorf(NoSuchCoupon, 42)
	usage := UsageErrorf(OperatorMissing, OperatorIsRecorded)
	server := errors.New("connection refused")
	for name, c := range map[string]struct {
		err    error
		ko, en string
	}{
		"Plain":         {missing, "42번 쿠폰은 존재하지 않습니다", "coupon 42 does not exist"},
		"Wrapped":       {fmt.Errorf("%w; nothing was moved", missing), "42번 쿠폰은 존재하지 않습니다", "coupon 42 does not exist; nothing was moved"},
		"MessageInside": {usage, "--operator가 없습니다. 담당자 이름을 입력하세요. 기록에 남습니다", "--operator is missing: the operator is recorded"},
		"ErrorInside": {Errorf(Stopped, missing), "중지 신호를 받았습니다: 42번 쿠폰은 존재하지 않습니다",
			"stopped by a signal: coupon 42 does not exist"},
		"Joined":       {fmt.Errorf("run 7: %w", errors.Join(missing, server)), "42번 쿠폰은 존재하지 않습니다\nconnection refused", "run 7: coupon 42 does not exist\nconnection refused"},
		"OfAServer":    {fmt.Errorf("read: %w", server), "read: connection refused", "read: connection refused"},
		"NestedInJoin": {errors.Join(errors.Join(missing, server), server), "42번 쿠폰은 존재하지 않습니다\nconnection refused\nconnection refused", "coupon 42 does not exist\nconnection refused\nconnection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.ko, In(Korean, c.err))
			require.Equal(t, c.en, In(English, c.err))
		})
	}
	require.ErrorIs(t, Errorf(Stopped, server), server)
	require.True(t, Is(fmt.Errorf("x: %w", usage), OperatorMissing))
	require.False(t, Is(missing, MoreStay))
	var setup interface{ Setup() bool }
	require.ErrorAs(t, fmt.Errorf("x: %w", usage), &setup)
	require.False(t, errors.As(missing, &setup))
}

func TestWord(t *testing.T) {
	t.Parallel()
	require.Equal(t, "신청 중", Word(Korean, "OPEN"))
	require.Empty(t, Word(English, "FROM_TOMORROW"))
}
