// Package jajeong_test holds what concerns the whole house: who may import whom, and the promises of the two programs
// together.
package jajeong_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/jajeong/jajeong"

// pkg is a package as `go list` tells it.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// where is the folder of the package in the module.
func (p pkg) where() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...").Output()
	require.NoError(t, err)
	var all []pkg
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, p)
	}
}

// TestWhoMayImportWhom is DESIGN §7.
func TestWhoMayImportWhom(t *testing.T) {
	t.Parallel()
	only := func(allowed ...string) func(string) bool {
		return func(where string) bool { return slices.Contains(allowed, where) }
	}
	rules := []struct {
		imported string // the package or anything below it
		by       func(where string) bool
	}{
		{"github.com/redis/go-redis", only("internal/candidates", "internal/catalog", "internal/connect", "internal/testenv")},
		{"database/sql", only("internal/settle", "internal/ledger", "internal/users", "internal/catalog", "internal/connect", "internal/testenv")},
		{module + "/internal/testenv", func(where string) bool {
			return strings.HasPrefix(where, "examples/") || strings.HasPrefix(where, "bench/")
		}},
		{module + "/internal/candidates", func(where string) bool { return where != "internal/settle" }},
		{module + "/internal/settle", func(where string) bool { return where != "internal/candidates" }},
		{module + "/cmd", only()},
	}
	all := packages(t)
	require.NotEmpty(t, all)
	for _, p := range all {
		if strings.HasPrefix(p.where(), "examples/") || strings.HasPrefix(p.where(), "bench/") {
			p.Imports = slices.DeleteFunc(p.Imports, func(path string) bool { return !strings.HasPrefix(path, module) }) // they show off, nobody builds on them
		}
		for _, imported := range p.Imports {
			for _, rule := range rules {
				if (imported == rule.imported || strings.HasPrefix(imported, rule.imported+"/")) && !rule.by(p.where()) {
					t.Errorf("%s must not import %s", p.where(), imported)
				}
			}
		}
		for _, word := range []string{"util", "utils", "common", "models"} {
			if slices.Contains(strings.Split(p.where(), "/"), word) {
				t.Errorf("%s: a package is a thing of the domain", p.where())
			}
		}
		if !known(p.where()) {
			t.Errorf("%s is not in DESIGN §7", p.where())
		}
	}
}

func known(where string) bool {
	switch where {
	case "", "cmd/apply-api", "cmd/settle", "docs", "sql",
		"internal/coupon", "internal/candidates", "internal/settle", "internal/ledger", "internal/users", "internal/api", "internal/catalog", "internal/cli", "internal/connect", "internal/testenv":
		return true
	}
	return strings.HasPrefix(where, "examples/") || strings.HasPrefix(where, "bench/") || strings.HasPrefix(where, "k8s/")
}

// sources are the Go files below a folder that are no tests.
func sources(t *testing.T, folder string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		files[path] = file
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// TestNobodyReadsTheWallClock: now is injected, so that tests own the time and pods' clocks decide nothing.
func TestNobodyReadsTheWallClock(t *testing.T) {
	t.Parallel()
	for path, file := range sources(t, "internal") {
		if strings.HasPrefix(path, filepath.Join("internal", "testenv")) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			name, ok := selector.X.(*ast.Ident)
			if ok && name.Name == "time" && slices.Contains([]string{"Now", "Since", "Until"}, selector.Sel.Name) {
				t.Errorf("%s reads time.%s: inject now", path, selector.Sel.Name)
			}
			return true
		})
	}
}

// TestKeysAreBuiltInOnePlace: every key of a coupon has this in its name.
func TestKeysAreBuiltInOnePlace(t *testing.T) {
	t.Parallel()
	for path, file := range sources(t, "internal") {
		if path == filepath.Join("internal", "candidates", "keys.go") {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if ok && text.Kind == token.STRING && (strings.Contains(text.Value, "candidates:coupon") || strings.Contains(text.Value, "catalog:coupons")) {
				t.Errorf("%s builds a key: %s", path, text.Value)
			}
			return true
		})
	}
}
