// Package jajeong_test holds what concerns the whole house: its packages, and the promises of the two programs together.
package jajeong_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPackagesAreKnown keeps the house in order: a new package is written down here and in docs/design.md. The linter
// depguard judges which package may import which, see .golangci.yaml.
func TestPackagesAreKnown(t *testing.T) {
	t.Parallel()
	known := []string{"api", "audit", "batch", "calendar", "candidates", "catalog", "cli", "connect", "coupon", "couponadmin", "decision", "explain", "history",
		"jajeongtest", "ledger", "line", "mysqltx", "ops", "output", "recall", "report", "review", "runmetrics", "schedule", "settle", "systemtest", "testenv", "text", "users", "view"}
	folders, err := os.ReadDir("internal")
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, folder := range folders {
		require.Contains(t, known, folder.Name(), "internal/%s is not in docs/design.md", folder.Name())
	}
}

// TestKeysAreBuiltInOnePlace: every key of a coupon contains one of these strings, which no other product file mentions.
func TestKeysAreBuiltInOnePlace(t *testing.T) {
	t.Parallel()
	key := regexp.MustCompile("candidates:coupon|catalog:coupons")
	files := 0
	err := filepath.WalkDir("internal", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		if path != "internal/candidates/keys.go" && !strings.HasPrefix(path, "internal/jajeongtest/") {
			assert.NotRegexp(t, key, string(text), "%s builds a key", path)
		}
		return err
	})
	require.NoError(t, err)
	require.Greater(t, files, 100)
}
