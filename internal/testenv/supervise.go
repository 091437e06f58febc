package testenv

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

//go:embed supervise.sh
var superviseScript string

// logName is where supervise.sh writes what its command says, in the folder.
const logName = "log"

// supervisor is a running supervise.sh. No goroutine belongs to it, so that tests which look for
// leaked ones find none.
type supervisor struct {
	cmd    *exec.Cmd
	orders *os.File // its stdin
	life   *os.File // its stdout, which its command inherits: ends with the command
	pid    int      // of its command; 0 without one
}

// supervise starts a command, or with none only holds the folder dir.
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
	// A group of its own: Ctrl-C reaches this process, which is still to speak with its servers.
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

// noteEnd tells the supervisor that its command has ended. It keeps the folder.
func (s *supervisor) noteEnd() error {
	_, err := io.WriteString(s.orders, "ended\n")
	return err
}

// handOver lets the supervisor go without its folder, after noteEnd.
func (s *supervisor) handOver() error {
	if _, err := io.WriteString(s.orders, "yours\n"); err != nil {
		return err
	}
	return s.stop()
}

// stop kills the command, if it has not ended, and removes the folder, if it was not handed over.
func (s *supervisor) stop() error {
	s.orders.Close()
	defer s.life.Close()
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("supervisor of %s: %w", s.cmd.Dir, err)
	}
	return nil
}
