package process

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

//go:embed supervise.sh
var superviseScript string

// logName is the file in the folder where supervise.sh writes the output of its command.
const logName = "log"

// supervisor is a running supervise.sh. It has no goroutine, so that tests for leaked goroutines find none.
type supervisor struct {
	cmd    *exec.Cmd
	orders *os.File // its stdin
	life   *os.File // its stdout, which its command inherits: reaches EOF when the command ends
	pid    int      // of its command; 0 without a command
}

// supervise starts a command in the folder dir. Without a command it only removes the folder at the end.
func supervise(dir string, command ...string) (*supervisor, error) {
	ordersEnd, orders, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("supervise %s: %w", dir, err)
	}
	defer ordersEnd.Close()
	life, lifeEnd, err := os.Pipe()
	if err != nil {
		orders.Close()
		return nil, fmt.Errorf("supervise %s: %w", dir, err)
	}
	defer lifeEnd.Close()

	args := append([]string{"-c", superviseScript, "supervise.sh", dir}, command...)
	s := &supervisor{cmd: exec.Command("/bin/sh", args...), orders: orders, life: life}
	s.cmd.Dir = dir
	s.cmd.Stdin = ordersEnd
	s.cmd.Stdout = lifeEnd
	// A process group of its own: Ctrl-C must end this process only, which then stops its servers in order.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		orders.Close()
		life.Close()
		return nil, fmt.Errorf("supervise %s: %w", dir, err)
	}
	if len(command) > 0 {
		if _, err := fmt.Fscanln(life, &s.pid); err != nil {
			s.stop()
			return nil, fmt.Errorf("supervise %s: read pid of %s: %w", dir, filepath.Base(command[0]), err)
		}
	}
	return s, nil
}

// awaitEnd returns nil once the command and all it started have ended, or the cause of ctx.
func (s *supervisor) awaitEnd(ctx context.Context) error {
	interrupted := make(chan struct{})
	release := context.AfterFunc(ctx, func() {
		s.life.SetReadDeadline(time.Unix(1, 0))
		close(interrupted)
	})
	_, err := io.Copy(io.Discard, s.life)
	if !release() {
		<-interrupted
		s.life.SetReadDeadline(time.Time{})
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// noteEnd informs the supervisor that its command has ended. The supervisor keeps the folder.
func (s *supervisor) noteEnd() error {
	_, err := io.WriteString(s.orders, "ended\n")
	return err
}

// handOver ends the supervisor and leaves its folder to another one. Only after noteEnd.
func (s *supervisor) handOver() error {
	if _, err := io.WriteString(s.orders, "yours\n"); err != nil {
		return err
	}
	return s.stop()
}

// stop kills the command unless it has ended, and removes the folder unless it was handed over.
func (s *supervisor) stop() error {
	s.orders.Close()
	defer s.life.Close()
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("supervisor of %s: %w", s.cmd.Dir, err)
	}
	return nil
}

// Folder is a temporary folder that is removed at the latest when this process ends.
type Folder struct {
	Path string
	sup  *supervisor
}

// NewFolder makes a folder whose name begins with prefix.
func NewFolder(prefix string) (*Folder, error) {
	dir, err := os.MkdirTemp(home(), prefix)
	if err != nil {
		return nil, err
	}
	sup, err := supervise(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Folder{Path: dir, sup: sup}, nil
}

// home is where a test's folders are made: in TMPDIR, or else in memory, if that has eight gigabytes. That is room for
// the servers of all packages that are tested at the same time: a MySQL grows to 200 MB, and two packages have about 20
// of them. A server that is killed leaves its files there as on a disk. Benchmarks use the disk.
func home() string {
	const memory = "/dev/shm"
	var free syscall.Statfs_t
	if testing.Testing() && os.Getenv("TMPDIR") == "" && syscall.Statfs(memory, &free) == nil &&
		free.Bavail*uint64(free.Bsize) >= 8<<30 {
		return memory
	}
	return ""
}

// Remove removes the folder.
func (f *Folder) Remove() error { return f.sup.stop() }
