package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

const podCount = 2

// pod is one process of apply-api.
type pod struct {
	name         string
	apply, admin string // base addresses
	cmd          *exec.Cmd
	logged       chan struct{} // closed when its log has ended
	lastWarning  atomic.Value  // string
}

// startPod returns when the pod says where it listens; whether it is ready is another question.
func (d *deployment) startPod(ctx context.Context, s *screen) error {
	d.started++
	p := &pod{name: fmt.Sprintf("pod %d", d.started), logged: make(chan struct{})}
	p.cmd = exec.Command(filepath.Join(d.bin, "apply-api"))
	p.cmd.Env = d.settings()
	// A group of its own: Ctrl-C reaches this process, which then tells the pod to end, once.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The pipe also ends a pod whose demo was killed: nobody reads its log any more.
	logs, err := p.cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	d.pods = append(d.pods, p)
	listening := make(chan struct{})
	go p.readLog(logs, listening)
	select {
	case <-listening:
	case <-p.logged:
		return d.withPodLogs(fmt.Errorf("%s ended before it listened", p.name))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.say("$ apply-api    %s listens", p.name)
	return nil
}

// readLog takes the addresses from the line that tells them and keeps the last warning.
func (p *pod) readLog(logs io.Reader, listening chan<- struct{}) {
	defer close(p.logged)
	for lines := bufio.NewScanner(logs); lines.Scan(); {
		var line struct{ Level, Msg, Apply, Admin string }
		known := json.Unmarshal(lines.Bytes(), &line) == nil
		switch {
		case known && line.Msg == "listening":
			p.apply, p.admin = "http://"+line.Apply, "http://"+line.Admin
			close(listening)
		case !known || line.Level != "info":
			p.lastWarning.Store(lines.Text())
		}
	}
	_, _ = io.Copy(io.Discard, logs) // behind a line that is too long
}

func (d *deployment) withPodLogs(err error) error {
	for _, p := range d.pods {
		if warning, ok := p.lastWarning.Load().(string); ok {
			err = fmt.Errorf("%w\n%s last said: %s", err, p.name, warning)
		}
	}
	return err
}

// stopPods tells the pods to end and demands that each exits with 0.
func (d *deployment) stopPods() error {
	var errs []error
	for _, p := range d.pods {
		errs = append(errs, p.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, p := range d.pods {
		tooLate := time.AfterFunc(stopWithin, func() { _ = p.cmd.Process.Kill() })
		<-p.logged // Wait would close the pipe before it has been read
		if err := p.cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", p.name, err))
		}
		tooLate.Stop()
	}
	err := errors.Join(errs...)
	if err != nil {
		err = d.withPodLogs(err)
	}
	d.pods = nil
	return err
}
