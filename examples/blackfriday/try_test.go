package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// tried is a running `make try` and what it has printed until it was ready.
type tried struct {
	*exec.Cmd
	folder  string // of its servers
	printed string
	rest    *bufio.Reader
	errors  bytes.Buffer
}

func startTry(t *testing.T) *tried {
	t.Helper()
	testenv.NeedsServers(t)
	p := &tried{folder: t.TempDir(), Cmd: exec.CommandContext(testenv.Patient(t),
		testenv.Build(t, "./examples/blackfriday"), "try")}
	p.Env, p.Stderr = append(os.Environ(), "LC_ALL=ko_KR.UTF-8", "TMPDIR="+p.folder), &p.errors
	stdout, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	p.rest = bufio.NewReader(stdout)
	ready := text.TryReady.In(text.Korean)
	for !strings.Contains(p.printed, ready[:strings.Index(ready, ".")]) {
		line, err := p.rest.ReadString('\n')
		p.printed += line
		require.NoError(t, err, "%s%s", p.printed, &p.errors)
	}
	return p
}

// The test runs every command that `make try` prints and opens every page, lets `settle serve` issue a coupon, and ends
// it as Ctrl-C does. Nothing is left.
func TestTry(t *testing.T) {
	t.Parallel()
	p := startTry(t)
	shell := func(script string) string {
		t.Helper()
		output, err := exec.CommandContext(testenv.Patient(t), "bash", "-ec",
			strings.ReplaceAll(script, "curl ", "curl -fsS ")).CombinedOutput()
		require.NoError(t, err, "%s\n%s", script, output)
		return string(output)
	}
	commands := regexp.MustCompile(`(?m)^    ((?:curl|export|settle) .*)$`).FindAllStringSubmatch(p.printed, -1)
	require.Len(t, commands, 11, p.printed)
	var script, look string
	for _, command := range commands {
		script += command[1] + "\n"
		if strings.HasSuffix(command[1], "/applications/me") {
			look = command[1]
		}
	}
	shell(script)
	testenv.Eventually(t, "settle serve issues the coupon",
		func() bool { return strings.Contains(shell(look), `"ISSUED"`) })
	pages := regexp.MustCompile(`(?m)^  (http://\S+)`).FindAllStringSubmatch(p.printed, -1)
	require.Len(t, pages, 3, p.printed)
	for _, page := range pages {
		response, err := http.Get(page[1])
		require.NoError(t, err)
		content, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", page[1], content)
	}

	children := p.children(t)
	require.Len(t, children, 7, "four programs, two servers and the page")
	require.NoError(t, p.Process.Signal(os.Interrupt))
	last, code := p.end(t)
	require.Contains(t, last, text.TryStopped.In(text.Korean))
	require.Equal(t, exitDone, code, &p.errors)
	p.requireNothingLeft(t, children)
}

// A program that ends by itself ends `make try`, which names it.
func TestTry_EndsWithEachProgram(t *testing.T) {
	t.Parallel()
	p := startTry(t)
	children := p.children(t)
	for pid, name := range children {
		if name == "wallet-api" {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	_, code := p.end(t)
	require.Equal(t, exitFailed, code)
	require.Contains(t, p.errors.String(), text.Korean.Sprintf(text.TryEnded, "wallet-api"))
	p.requireNothingLeft(t, children)
}

// end returns what is printed until the end, and the exit code.
func (p *tried) end(t *testing.T) (last string, code int) {
	t.Helper()
	printed, err := io.ReadAll(p.rest)
	require.NoError(t, err)
	_ = p.Wait() // the code says it all
	return string(printed), p.ProcessState.ExitCode()
}

func (p *tried) requireNothingLeft(t *testing.T, children map[int]string) {
	t.Helper()
	for pid, name := range children {
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "%s is left", name)
	}
	left, err := os.ReadDir(p.folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

// children returns the names of the processes that it has started, by process id.
func (p *tried) children(t *testing.T) map[int]string {
	t.Helper()
	listed, err := exec.CommandContext(t.Context(), "ps", "-A", "-o", "ppid=,pid=,comm=").Output()
	require.NoError(t, err)
	children := map[int]string{}
	for line := range strings.Lines(string(listed)) {
		var parent, pid int
		var name string
		_, err := fmt.Sscan(line, &parent, &pid, &name)
		require.NoError(t, err)
		if parent == p.Process.Pid {
			children[pid] = filepath.Base(name) // macOS names the path
		}
	}
	return children
}
