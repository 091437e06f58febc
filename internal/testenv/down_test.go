package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// childRole is the variable that makes this test binary a child process, which starts servers and is killed.
const childRole = "TESTENV_CHILD"

// runChild freezes its servers and prints their process ids.
func runChild() {
	ctx := context.Background()
	r, err := StartRedis(ctx, RedisOptions{AppendOnly: true})
	exitOn(err)
	m, err := StartMySQL(ctx, MySQLOptions{})
	exitOn(err)
	exitOn(r.Restart(ctx))
	exitOn(errors.Join(r.Freeze(), m.Freeze()))
	exitOn(json.NewEncoder(os.Stdout).Encode([]int{r.Pid(), m.Pid()}))
	select {}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Servers of a process that was killed end, frozen ones, too, and leave no folder.
func TestServersEndWithTheirProcess(t *testing.T) {
	NeedsServers(t)
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	tmp := t.TempDir() // where all its folders are
	child := exec.Command(self)
	child.Env = append(os.Environ(), childRole+"=1", "TMPDIR="+tmp)
	child.Stderr = os.Stderr
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		child.Process.Kill()
		child.Wait()
	})
	var pids []int
	require.NoError(t, json.NewDecoder(stdout).Decode(&pids))
	require.Len(t, pids, 2)
	require.NotEmpty(t, entries(t, tmp))
	require.NoError(t, child.Process.Kill())
	child.Wait()
	for _, pid := range pids {
		Eventually(t, "process gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	}
	Eventually(t, "folders removed", func() bool { return len(entries(t, tmp)) == 0 })
}

func entries(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	found, err := os.ReadDir(dir)
	require.NoError(t, err)
	return found
}
