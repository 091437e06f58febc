package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// program is a process that says on stderr where it listens.
type program struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	told  chan listening
	gone  chan struct{}
	err   error // why it was not started
	last  tail
}

// program starts one. Nothing in the environment of the bench sets it.
func (s *stage) program(ctx context.Context, path string, stdin []byte, args ...string) *program {
	p := &program{cmd: exec.CommandContext(ctx, path, args...), told: make(chan listening, 1), gone: make(chan struct{})}
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = endWithin
	var stderr io.Reader
	if p.stdin, p.err = p.cmd.StdinPipe(); p.err != nil {
		return p
	}
	if stderr, p.err = p.cmd.StderrPipe(); p.err != nil {
		return p
	}
	if p.err = p.cmd.Start(); p.err != nil {
		return p
	}
	go func() {
		defer close(p.gone)
		p.listen(stderr)
		_ = p.cmd.Wait()
	}()
	_, p.err = p.stdin.Write(stdin) // and it stays open: its end is the server's
	return p
}

// listen reads all that the program says.
func (p *program) listen(stderr io.Reader) {
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		var event listening
		if json.Unmarshal(lines.Bytes(), &event) == nil && event.Msg == listeningMsg {
			p.told <- event
			continue
		}
		p.last.add(lines.Text())
	}
	_, _ = io.Copy(io.Discard, stderr) // after a line that is too long
}

// stop asks it to end, and kills it when it does not.
func (p *program) stop() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.gone:
	case <-time.After(endWithin):
		_ = p.cmd.Process.Kill()
		<-p.gone
	}
	_ = p.stdin.Close()
}

// tail keeps the last lines of what a program says. It may be read meanwhile.
type tail struct {
	mu    sync.Mutex
	lines []string
}

const tailLines = 20

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == tailLines {
		t.lines = t.lines[1:]
	}
	t.lines = append(t.lines, line)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}
