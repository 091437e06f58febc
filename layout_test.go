// Package jajeong_test holds what concerns the whole house: its packages, and the promises of the two programs together.
package jajeong_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPackagesAreKnown keeps the house in order: a new package is written down here and in docs/design.md. The linter
// depguard judges which package may import which, see .golangci.yaml.
func TestPackagesAreKnown(t *testing.T) {
	t.Parallel()
	known := []string{"api", "audit", "batch", "calendar", "candidates", "catalog", "cli", "connect", "coupon", "couponadmin", "decision", "explain", "history",
		"jajeongtest", "ledger", "line", "mysqltx", "ops", "output", "recall", "report", "review", "runmetrics", "schedule", "settle", "testenv", "text", "users", "view"}
	folders, err := os.ReadDir("internal")
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, folder := range folders {
		require.Contains(t, known, folder.Name(), "internal/%s is not in docs/design.md", folder.Name())
	}
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

// TestKeysAreBuiltInOnePlace: every key of a coupon has this in its name.
func TestKeysAreBuiltInOnePlace(t *testing.T) {
	t.Parallel()
	for path, file := range sources(t, "internal") {
		if path == filepath.Join("internal", "candidates", "keys.go") || strings.HasPrefix(path, filepath.Join("internal", "jajeongtest")) {
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
