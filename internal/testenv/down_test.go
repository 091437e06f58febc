package testenv

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// childRole is the variable that makes this test binary a child process, which starts servers and dies.
const childRole = "TESTENV_CHILD"

// childReport is printed by the child process once its servers are up.
type childReport struct{ Pids []int }

func runChild(role string) {
	ctx := context.Background()
	r, err := StartRedis(ctx, RedisOptions{AppendOnly: true})
	exitOn(err)
	if role == "installs" {
		fmt.Println("{}")
	}
	m, err := StartMySQL(ctx, MySQLOptions{})
	exitOn(err)
	exitOn(r.Restart(ctx))
	if role == "frozen" {
		exitOn(errors.Join(r.Freeze(), m.Freeze()))
	}
	exitOn(json.NewEncoder(os.Stdout).Encode(childReport{Pids: []int{r.Pid(), m.Pid()}}))
	if role == "exits" {
		os.Exit(3)
	}
	select {}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestServersEndWithTheirProcess(t *testing.T) {
	NeedsServers(t)
	t.Parallel()
	for _, role := range []string{"exits", "frozen"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			child := startChild(t, role)
			var report childReport
			require.NoError(t, json.Unmarshal(child.line(t), &report))
			require.Len(t, report.Pids, 2)
			if role == "frozen" {
				for _, pid := range report.Pids {
					require.NoError(t, syscall.Kill(pid, 0), "up before")
				}
				require.NotEmpty(t, entries(t, child.tmp))
				require.NoError(t, child.cmd.Process.Kill())
			}
			child.cmd.Wait()
			for _, pid := range report.Pids {
				requireGone(t, pid)
			}
			child.eventuallyClean(t)
		})
	}
}

// The installer is a script whose children receive no signal.
func TestKillDuringInstallation(t *testing.T) {
	NeedsServers(t)
	t.Parallel()
	child := startChild(t, "installs")
	child.line(t)
	Eventually(t, "installation under way", func() bool {
		begun, err := filepath.Glob(filepath.Join(child.tmp, "jajeong-mysql-*", "data", "*"))
		require.NoError(t, err)
		return len(begun) > 0
	})
	require.NoError(t, child.cmd.Process.Kill())
	child.cmd.Wait()
	child.eventuallyClean(t)
}

type child struct {
	cmd    *exec.Cmd
	tmp    string // where all its folders are
	stdout *bufio.Reader
	stderr bytes.Buffer
}

func startChild(t *testing.T, role string) *child {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := &child{cmd: exec.Command(self), tmp: t.TempDir()}
	c.cmd.Env = append(os.Environ(), childRole+"="+role, "TMPDIR="+c.tmp)
	c.cmd.Stderr = &c.stderr
	stdout, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.stdout = bufio.NewReader(stdout)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		c.cmd.Wait()
	})
	return c
}

func (c *child) line(t *testing.T) []byte {
	t.Helper()
	line, err := c.stdout.ReadBytes('\n')
	if err != nil {
		c.cmd.Wait()
		t.Fatalf("child: %v\n%s", err, c.stderr.Bytes())
	}
	return line
}

func (c *child) eventuallyClean(t *testing.T) {
	t.Helper()
	Eventually(t, "folders removed", func() bool { return len(entries(t, c.tmp)) == 0 })
}

func entries(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	found, err := os.ReadDir(dir)
	require.NoError(t, err)
	return found
}
