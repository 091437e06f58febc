package settle

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Work that is repeated must not read a variable that its own failure has overwritten. After an error of "s.coupon, err =
// lockCoupon(…, s.coupon.ID)", s.coupon is empty, and the repetition reads coupon 0.
func TestRepetition_ReadsNoOverwrittenVariable(t *testing.T) {
	t.Parallel()
	files := token.NewFileSet()
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	ofCoupons, err := filepath.Glob("../couponadmin/*.go")
	require.NoError(t, err)
	sources = append(sources, ofCoupons...)
	var repeated []ast.Expr
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, source, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if called, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(repeating, called.Sel.Name) {
					repeated = append(repeated, call.Args...)
				}
			}
			return true
		})
	}
	works := 0
	for _, work := range repeated {
		if work, ok := work.(*ast.FuncLit); ok {
			works++
			for _, found := range overwritten(work.Body) {
				t.Errorf("%s: %s is read by a repetition, and overwritten by a call that may fail", files.Position(found.Pos()), types.ExprString(found))
			}
		}
	}
	require.Greater(t, works, 10)
}

// repeating are the functions that repeat work.
var repeating = []string{"Do", "OnConn", "Once", "underLock"}

func TestOverwritten_FindsTheFaultInEachForm(t *testing.T) {
	t.Parallel()
	for code, faults := range map[string]int{
		"s.coupon, err = lock(s.coupon.ID)":                                             1,
		"s.begin(s.coupon.ID); if s.coupon, err = lock(); err != nil { return }":        1,
		"coupon, err := lock(s.coupon.ID); if err != nil { return }; s.coupon = coupon": 0,
		"d, err = decide(); d.rest, err = record(d.rest)":                               0,
		"found, err = read(); use(found)":                                               0,
		"page, err := read(); page, err = more(page)":                                   0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", fmt.Sprintf("package p; func f() { %s }", code), 0)
		require.NoError(t, err)
		require.Len(t, overwritten(file.Decls[0].(*ast.FuncDecl).Body), faults, code)
	}
}

// overwritten are the outer variables that a body reads, and that a call overwrites which may return an error.
func overwritten(body *ast.BlockStmt) (found []ast.Expr) {
	written := map[string]token.Pos{} // first, whole
	var calls []*ast.AssignStmt
	targets := map[ast.Expr]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok {
			return true
		}
		for _, to := range assign.Lhs {
			targets[to] = true
			if name := types.ExprString(to); written[name] == 0 {
				written[name] = assign.End() // its right side is read before
			}
		}
		if _, isCall := assign.Rhs[0].(*ast.CallExpr); isCall && assign.Tok == token.ASSIGN && len(assign.Rhs) == 1 && len(assign.Lhs) > 1 {
			calls = append(calls, assign)
		}
		return true
	})
	for _, call := range calls {
		for _, to := range call.Lhs[:len(call.Lhs)-1] {
			if name := types.ExprString(to); readBefore(body, name, call.End(), written, targets) {
				found = append(found, to)
			}
		}
	}
	return found
}

// readBefore reports whether a name or a part of it is read before until, and not written in the body before that.
func readBefore(body *ast.BlockStmt, name string, until token.Pos, written map[string]token.Pos, targets map[ast.Expr]bool) (read bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		expr, ok := n.(ast.Expr)
		if !ok || targets[expr] || expr.Pos() > until {
			return !targets[expr]
		}
		said := types.ExprString(expr)
		if _, isName := expr.(*ast.Ident); !isName {
			if _, isPart := expr.(*ast.SelectorExpr); !isPart {
				return true
			}
		}
		if said != name && !strings.HasPrefix(said, name+".") {
			return true
		}
		fresh := false
		for whole := name; whole != ""; whole = whole[:max(0, strings.LastIndex(whole, "."))] {
			if at, ok := written[whole]; ok && at <= expr.Pos() {
				fresh = true
			}
		}
		read = read || !fresh
		return true
	})
	return read
}
