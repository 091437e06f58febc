package testenv

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Program is a running server program, such as apply-api, with the addresses that it logs as "listening".
type Program struct {
	*exec.Cmd
	Apply, Live, Wallet, Console, API, Admin string // host:port; may be empty

	until  time.Time     // when Stop gives up; zero: never
	logged chan struct{} // closed at the end of its log

	mu       sync.Mutex
	warnings []string // the lines that are not at level info
}

// StartProgram starts a command and returns it when it listens, for as long as the context allows: see Patient. After
// an error the command has ended.
func StartProgram(ctx context.Context, cmd *exec.Cmd) (*Program, error) {
	p := &Program{Cmd: cmd, logged: make(chan struct{})}
	p.until, _ = ctx.Deadline()
	logs, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	listening := make(chan struct{})
	go p.readLog(logs, listening)
	select {
	case <-listening:
		return p, nil
	case <-p.logged:
		err = errors.New("it ended before it listened")
	case <-ctx.Done():
		err = fmt.Errorf("it does not listen: %w", context.Cause(ctx))
	}
	_ = p.Stop()
	return nil, fmt.Errorf("start %s: %w; %s", filepath.Base(cmd.Path), err, p.LastWarning())
}

func (p *Program) readLog(logs io.Reader, listening chan<- struct{}) {
	defer close(p.logged)
	for lines := bufio.NewScanner(logs); lines.Scan(); {
		var line struct{ Level, Msg, Apply, Live, Wallet, Console, API, Admin string }
		parsed := json.Unmarshal(lines.Bytes(), &line) == nil
		switch {
		case parsed && line.Msg == "listening":
			p.Apply, p.Live, p.Wallet, p.Console, p.API = line.Apply, line.Live, line.Wallet, line.Console, line.API
			p.Admin = cmp.Or(line.Admin, p.Admin)
			if p.Console != "" || !slices.Contains(p.Args, "console") { // whose admin port listens before
				close(listening)
			}
		case !parsed || line.Level != "info":
			p.mu.Lock()
			p.warnings = append(p.warnings, lines.Text())
			p.mu.Unlock()
		}
	}
	_, _ = io.Copy(io.Discard, logs) // the rest after a line that is too long
}

// LastWarning is the last line of the log that is not at level info, or empty.
func (p *Program) LastWarning() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.warnings) == 0 {
		return ""
	}
	return p.warnings[len(p.warnings)-1]
}

// Warned reports whether a line of the log that is not at level info contains the text.
func (p *Program) Warned(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.warnings, func(line string) bool { return strings.Contains(line, text) })
}

// Ended is closed when the program has ended.
func (p *Program) Ended() <-chan struct{} { return p.logged }

// Stop sends SIGTERM, and SIGKILL at the deadline of the context of StartProgram. The program must exit with 0.
func (p *Program) Stop() error {
	err := p.Process.Signal(syscall.SIGTERM)
	if !p.until.IsZero() {
		tooLate := time.AfterFunc(time.Until(p.until), func() { _ = p.Process.Kill() })
		defer tooLate.Stop()
	}
	<-p.logged // Wait closes the pipe, so the log is read first
	return errors.Join(err, p.Wait())
}
