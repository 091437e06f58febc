package main

import (
	"context"
	"os"
	"os/exec"
	"syscall"

	"github.com/jajeong/jajeong/internal/testenv"
)

// program starts a program without the environment of the bench. Its stdin stays open, and its end stops the server.
func (s *stage) program(ctx context.Context, path string, stdin []byte, args ...string) (*testenv.Program, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endWithin
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if _, err := in.Write(stdin); err != nil {
		return nil, err
	}
	return testenv.StartProgram(ctx, cmd)
}
