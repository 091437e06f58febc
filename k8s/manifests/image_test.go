package manifests_test

import (
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	"github.com/stretchr/testify/require"
)

// instructions returns the instructions of the Dockerfile, one per line, without comments and options.
func instructions(t *testing.T) (lines []string) {
	t.Helper()
	text := content(t, "Dockerfile")
	whole := regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(string(text), "")
	whole = regexp.MustCompile(`\\\n\s*`).ReplaceAllString(whole, "")
	for line := range strings.Lines(whole) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, regexp.MustCompile(`--(mount|platform|from)=\S+ `).ReplaceAllString(line, ""))
		}
	}
	return lines
}

// buildImage runs the build command of the Dockerfile on the files that .dockerignore lets through. It needs no
// container engine, because an engine only adds the base images.
func buildImage(t *testing.T, out string) {
	t.Helper()
	from := copyContext(t)
	built := 0
	for _, instruction := range instructions(t) {
		command, is := strings.CutPrefix(instruction, "RUN ")
		if !is || !strings.Contains(command, "go build") {
			continue
		}
		built++
		command = strings.ReplaceAll(command, "/out/", out+string(filepath.Separator))
		build := exec.CommandContext(t.Context(), "sh", "-euc", command)
		build.Dir = from
		build.Env = append(os.Environ(), "TARGETOS=linux", "TARGETARCH="+runtime.GOARCH, "VERSION=v9.9.9")
		output, err := build.CombinedOutput()
		require.NoError(t, err, "%s", output)
	}
	require.Equal(t, 1, built)
}

func TestImageBuilds(t *testing.T) {
	t.Parallel()
	out := programsDir(t)
	var final []string
	for _, instruction := range instructions(t) {
		if strings.HasPrefix(instruction, "FROM ") {
			final = nil
		}
		final = append(final, instruction)
	}
	require.Contains(t, final, "USER 65532:65532")
	require.Contains(t, final, "COPY /out/ /usr/local/bin/")

	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./cmd/...")
	list.Dir = root
	packages, err := list.Output()
	require.NoError(t, err)
	files, err := os.ReadDir(out)
	require.NoError(t, err)
	var names []string
	for _, file := range files {
		names = append(names, file.Name())
		binary, err := elf.Open(filepath.Join(out, file.Name()))
		require.NoError(t, err)
		t.Cleanup(func() { _ = binary.Close() })
		for _, segment := range binary.Progs {
			require.NotEqual(t, elf.PT_INTERP, segment.Type, "%s is not static", file.Name())
		}
		libraries, err := binary.ImportedLibraries()
		require.NoError(t, err)
		require.Empty(t, libraries)
		command := exec.CommandContext(t.Context(), filepath.Join(out, file.Name()), "--version")
		version, err := command.Output()
		require.NoError(t, err)
		require.Equal(t, "v9.9.9", strings.TrimSpace(string(version)))
		require.Regexp(t, `(?m)/cmd/`+file.Name()+` .*\btime/tzdata\b`, string(packages), "no time zones")
	}
	require.Equal(t, []string{"apply-api", "settle", "wallet-api"}, names)
	for _, pod := range render(t, "prod").own() {
		require.Contains(t, names, pod.Spec.Containers[0].Command[0])
	}
}

// copyContext copies the build context: the repository without the files that .dockerignore excludes.
func copyContext(t *testing.T) string {
	t.Helper()
	file, err := os.Open(filepath.Join(root, ".dockerignore"))
	require.NoError(t, err)
	patterns, err := ignorefile.ReadAll(file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	ignored, err := patternmatcher.New(patterns)
	require.NoError(t, err)
	to := t.TempDir()
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name == ".git" {
				return fs.SkipDir
			}
			return nil // a file below it may be included again
		}
		if skip, err := ignored.MatchesOrParentMatches(name); err != nil || skip {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), content, 0o644)
	})
	require.NoError(t, err)
	_, err = os.Stat(filepath.Join(to, "compose.yaml"))
	require.ErrorIs(t, err, fs.ErrNotExist, "only sources of the programs")
	return to
}
