// Package jajeong_test tests the whole repository: its layout, its documents, and both programs together.
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

	"github.com/jajeong/jajeong/internal/testenv"
)

// A new package is added here and to docs/design.md. What a package may know is checked by the linter depguard, see
// .golangci.yaml.
func TestPackagesAreKnown(t *testing.T) {
	t.Parallel()
	known := []string{
		"adminapi", "ahead", "api", "approval", "audit", "batch", "calendar", "candidates", "catalog", "cli", "connect",
		"console", "coupon", "couponadmin", "decision", "deployment", "durability", "events", "explain", "handover",
		"history", "httpapi", "identity", "jajeongtest", "job", "journal", "keysfile", "ledger", "line", "live", "load",
		"mysqltx", "ops", "output", "overview", "privacy", "promise", "promisemodel", "receipt", "records",
		"rediserr", "report", "review", "runmetrics", "schedule", "seal", "serve", "settle", "signin", "sleep",
		"standing", "systemtest", "testenv", "text", "userlist", "users", "verb", "verify", "view", "wallet", "walletapi",
	}
	folders, err := os.ReadDir("internal")
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, folder := range folders {
		require.Contains(t, known, folder.Name(), "internal/%s is not in docs/design.md", folder.Name())
	}
}

// A checker that shares code with what it checks would share its faults.
func TestVerifyImportsNothingOfTheEngine(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("internal/verify/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text := testenv.Content(t, file)
		if !strings.HasSuffix(file, "_test.go") {
			require.NotRegexp(t, `jajeong/internal/(ledger|records|decision|line|settle|journal|wallet)"`, string(text),
				file)
		}
	}
}

// Every key of a coupon contains one of these strings, and one file alone has them.
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
