package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// scratch are packages that fail in every way that a test can.
var scratch = map[string]string{
	"go.mod": "module scratch\n\ngo 1.26\n",
	"good/good_test.go": `package good
import "testing"
func TestGood(t *testing.T) { t.Log("nobody needs this") }
func TestSkipped(t *testing.T) { t.Skip() }`,
	"long/long_test.go": `package long
import ("fmt"; "testing"; "time"; "strings")
func TestLong(t *testing.T) {
	t.Run("part", func(t *testing.T) {
		t.Log("repeat with LONG_SEED=17")
		for i := range 1_000 { t.Log("line", i) }
		fmt.Print("half "); fmt.Println("and half")
		t.Log(strings.Repeat("x", 10_000))
		t.Fatal("the reason")
	})
	t.Run("fine", func(t *testing.T) { t.Log("a part that passed") })
}
func TestShort(t *testing.T) { time.Sleep(time.Nanosecond); t.Error("another reason") }`,
	"panics/panics_test.go": `package panics
import "testing"
func TestBefore(t *testing.T) { t.Log("has passed") }
func TestPanics(t *testing.T) { t.Log("the last word"); for range 100 { go func() { select {} }() }; var m map[int]int; m[1] = 2 }`,
	"main/main_test.go": `package main
import ("fmt"; "os"; "testing")
func TestMain(m *testing.M) { m.Run(); fmt.Fprintln(os.Stderr, "a server is left"); os.Exit(1) }
func TestFine(t *testing.T) {}`,
	"broken/broken_test.go": "package broken\nimport \"testing\"\nfunc TestNever(t *testing.T) { undefined() }",
	"hangs/hangs_test.go": `package hangs
import "testing"
func TestHangs(t *testing.T) { t.Log("waits for ever"); for range 100 { go func() { select {} }() }; select {} }
func TestParallel(t *testing.T) { t.Parallel() }`,
}

// reportOf runs gotest in a folder with the scratch packages.
func reportOf(t *testing.T, packages ...string) (code int, output, logs string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range scratch {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	logs = filepath.Join(dir, "logs")
	var out, errors strings.Builder
	code = run(append([]string{"-logs", logs, "go", "-C", dir, "test", "-vet=off", "-count=1"}, packages...), &out,
		&errors)
	require.Empty(t, errors.String())
	t.Log(out.String())
	return code, out.String(), logs
}

func TestReport_OfFailedTests(t *testing.T) {
	t.Parallel()
	code, output, logs := reportOf(t, "-shuffle=7", "./good", "./long", "./panics", "./main", "./broken")
	require.Equal(t, 1, code)
	require.Contains(t, output, "ok  \tscratch/good\t")
	closing := func(pkg string) string {
		_, part, found := strings.Cut(output, "=== FAIL scratch/"+pkg+"\n")
		require.True(t, found, pkg)
		return regexp.MustCompile(`(?s)\n(=== FAIL|failed:).*`).ReplaceAllString(part, "")
	}
	long := closing("long")
	require.Contains(t, long, "-shuffle=7 ")
	require.Contains(t, long, "--- FAIL TestLong/part (")
	require.Contains(t, long, "LONG_SEED=17\n")
	require.Contains(t, long, "line 999\nhalf and half\n")
	require.Contains(t, long, "the reason\n")
	require.Contains(t, long, "--- FAIL TestShort (")
	require.Contains(t, long, "another reason\n")
	require.NotContains(t, long, "FAIL TestLong (", "its part tells why")
	require.Less(t, len(long), 8_000)
	all, err := os.ReadFile(filepath.Join(logs, "scratch_long.log"))
	require.NoError(t, err)
	require.Contains(t, string(all), "line 7\n")
	require.Contains(t, long, filepath.Join(logs, "scratch_long.log"))

	panics := closing("panics")
	require.Contains(t, panics, "panic: assignment to entry in nil map")
	require.Contains(t, panics, "panics_test.go:4")
	require.Contains(t, panics, "--- FAIL TestPanics (")
	require.Contains(t, panics, "the last word")
	require.Less(t, strings.Count(panics, "\n"), 40)
	require.Regexp(t, `(?m)^FAIL\tscratch/panics\t`, output)

	require.Contains(t, closing("main"), "a server is left\n")
	require.Contains(t, closing("broken"), "broken_test.go:3:32: undefined: undefined\n")
	for _, failed := range []string{"long TestLong/part", "long TestShort", "panics TestPanics", "main", "broken"} {
		require.Contains(t, output, "\nfailed: scratch/"+failed+"\n")
	}
	require.Regexp(t, `\nDONE 9 tests, 1 skipped, 4 failures, 2 errors in [\d.]+s\n$`, output)
}

func TestReport_OfTestsThatHang(t *testing.T) {
	t.Parallel()
	code, output, _ := reportOf(t, "-timeout=1s", "./hangs")
	require.Equal(t, 1, code)
	require.Contains(t, output, "panic: test timed out after 1s\n\trunning tests:\n\t\tTestHangs (")
	require.Contains(t, output, "hangs_test.go:3")
	require.Contains(t, output, "waits for ever")
	require.NotContains(t, output, "TestParallel")
	require.Equal(t, 1, strings.Count(output, "TestHangs.func1()"), "of a hundred goroutines")
	require.Contains(t, output, "\nfailed: scratch/hangs TestHangs\n")
	require.Regexp(t, `\nDONE \d tests?.* in [\d.]+s\n$`, output)
}
