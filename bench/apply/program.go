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

// program is a process that logs its address on stderr.
type program struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	at    chan listening // its addresses
	gone  chan struct{}  // closed at its end
	err   error          // of its start
	last  tail
}

// program starts a program without the environment of the bench.
func (s *stage) program(ctx context.Context, path string, stdin []byte, args ...string) *program {
	p := &program{cmd: exec.CommandContext(ctx, path, args...), at: make(chan listening, 1), gone: make(chan struct{})}
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
	_, p.err = p.stdin.Write(stdin) // stdin stays open; its end stops the server
	return p
}

// listen reads the log of the program.
func (p *program) listen(stderr io.Reader) {
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		var event listening
		if json.Unmarshal(lines.Bytes(), &event) == nil && event.Msg == listeningMsg {
			p.at <- event
			continue
		}
		p.last.add(lines.Text())
	}
	_, _ = io.Copy(io.Discard, stderr) // the rest after a line that is too long
}

// stop sends SIGTERM, and SIGKILL after endWithin.
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

// tail keeps the last lines of a log. It is safe for concurrent use.
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
