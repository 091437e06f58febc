package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// Below the ports that Linux (from 32768) and macOS (from 49152) give to outgoing connections: an
	// outgoing connection, even a client's own redial, could otherwise occupy a server's port while the
	// server is down. The second port of a Redis in a Cluster is clusterBusOffset above the first.
	firstPort, ports = 10000, 10000
	clusterBusOffset = 10000

	// A program that is no server of this package may take a port at the same moment, but hardly twice in a row.
	portAttempts = 5

	readyInterval = 10 * time.Millisecond

	// Enough for the error that a server logs before it exits.
	logTailBytes = 4096
)

// Server is a child process with its folder and port. Its methods may be called in parallel.
type Server struct {
	program Program
	dir     string
	port    int

	mu    sync.Mutex
	claim io.Closer   // of the port, until Stop
	sup   *supervisor // nil once stopped
	up    bool        // started and not killed by us
}

func launch(ctx context.Context, p Program) (*Server, error) {
	port, claim, err := freePort()
	if err != nil {
		return nil, err
	}
	folder, err := NewFolder("jajeong-" + p.Name + "-")
	if err != nil {
		return nil, errors.Join(err, claim.Close())
	}
	s := &Server{program: p, dir: folder.Path, port: port, claim: claim, sup: folder.sup}
	for name, content := range p.Files {
		err = errors.Join(err, os.WriteFile(filepath.Join(s.dir, name), content, 0o600))
	}
	if err == nil && p.Prepare != nil {
		err = p.Prepare(ctx, s)
	}
	if err == nil {
		err = s.start(ctx)
	}
	if err == nil {
		return s, nil
	}
	return nil, errors.Join(err, s.Stop())
}

// start starts the process and waits until it answers.
func (s *Server) start(ctx context.Context) error {
	if err := s.run(append([]string{s.program.Path}, s.program.Args(s.dir, s.port)...)); err != nil {
		return err
	}
	s.up = true
	if err := s.awaitReady(ctx); err != nil {
		return fmt.Errorf("port %d: %w%s", s.port, err, s.logTail())
	}
	return nil
}

// run starts a command under a new supervisor, which takes over the folder.
func (s *Server) run(command []string) error {
	sup, err := supervise(s.dir, command...)
	if err != nil {
		return err
	}
	previous := s.sup
	s.sup = sup
	if previous.pid == 0 {
		if err := previous.noteEnd(); err != nil {
			return err
		}
	}
	return previous.handOver()
}

// RunToEnd runs a command that prepares the folder. For Program.Prepare.
func (s *Server) RunToEnd(ctx context.Context, command []string) error {
	// The exit code of a supervised command is not known, so a file marks its success.
	success := filepath.Join(s.dir, "success")
	err := s.run(append([]string{"/bin/sh", "-c", `"$@" && : >"$0"`, success}, command...))
	if err != nil {
		return err
	}
	err = s.sup.awaitEnd(ctx)
	if err == nil {
		err = s.sup.noteEnd()
	}
	if err == nil {
		err = os.Remove(success)
	}
	if err != nil {
		return fmt.Errorf("run %s: %w%s", filepath.Base(command[0]), err, s.logTail())
	}
	return nil
}

// ErrExited is the cause when a server ends before it answers.
var ErrExited = errors.New("it ended before it answered")

func (s *Server) awaitReady(ctx context.Context) error {
	if within := s.program.Within; within > 0 {
		var cancelTimeout context.CancelFunc
		ctx, cancelTimeout = context.WithTimeoutCause(ctx, within,
			fmt.Errorf("no answer within %v: %w", within, context.DeadlineExceeded))
		defer cancelTimeout()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if s.sup.awaitEnd(ctx) == nil {
			cancel(ErrExited)
		}
	}()
	defer func() {
		cancel(nil)
		<-watched
	}()

	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	var last error
	for {
		err := s.program.Ready(ctx, Instance{Dir: s.dir, Addr: s.Addr(), Pid: s.sup.pid})
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err // keeps the last real answer, not the timeout
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), last)
		}
	}
}

// Addr returns the server's host:port. It stays the same over a Restart.
func (s *Server) Addr() string { return address(s.port) }

// Dir returns the server's temporary folder.
func (s *Server) Dir() string { return s.dir }

// Pid returns the id of the process started last, or 0 after Stop.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sup == nil {
		return 0
	}
	return s.sup.pid
}

// Kill ends the server with SIGKILL and returns once it is gone. Folder and port are kept for
// Restart. Killing it again does nothing.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

func (s *Server) kill() error {
	if !s.up {
		return nil
	}
	// The process may have ended already.
	if err := s.signal(syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	if err := s.sup.awaitEnd(context.Background()); err != nil {
		return fmt.Errorf("kill %s %d: %w", s.program.Name, s.sup.pid, err)
	}
	s.up = false
	return s.sup.noteEnd()
}

// AwaitEnd waits until the process has ended by itself. Folder and port are kept for Restart.
func (s *Server) AwaitEnd(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up {
		return nil
	}
	if err := s.sup.awaitEnd(ctx); err != nil {
		return fmt.Errorf("await the end of %s %d: %w", s.program.Name, s.sup.pid, err)
	}
	s.up = false
	return s.sup.noteEnd()
}

// Restart starts the server again on its port and folder, after killing it if need be, and waits
// until it answers.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sup == nil {
		return fmt.Errorf("restart %s: it was stopped", s.program.Name)
	}
	if err := s.kill(); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return fmt.Errorf("restart %s: %w", s.program.Name, err)
	}
	return nil
}

// Freeze stops the server with SIGSTOP: connections stay open and nothing is answered.
func (s *Server) Freeze() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signal(syscall.SIGSTOP)
}

// Thaw lets a frozen server go on.
func (s *Server) Thaw() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signal(syscall.SIGCONT)
}

func (s *Server) signal(sig syscall.Signal) error {
	if !s.up {
		return fmt.Errorf("send %v to %s: it is not running", sig, s.program.Name)
	}
	if err := syscall.Kill(s.sup.pid, sig); err != nil {
		return fmt.Errorf("send %v to %s %d: %w", sig, s.program.Name, s.sup.pid, err)
	}
	return nil
}

// Stop ends the server and removes its folder. Stopping it again does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sup == nil {
		return nil
	}
	err := s.sup.stop()
	s.sup, s.up = nil, false
	return errors.Join(err, os.RemoveAll(s.dir), s.claim.Close())
}

// logTail returns the end of the server's log, for the end of an error message.
func (s *Server) logTail() string {
	f, err := os.Open(filepath.Join(s.dir, logName))
	if err != nil {
		return ""
	}
	defer f.Close()
	skipped := ""
	if info, err := f.Stat(); err == nil && info.Size() > logTailBytes {
		f.Seek(-logTailBytes, io.SeekEnd)
		skipped = "…"
	}
	tail, _ := io.ReadAll(io.LimitReader(f, logTailBytes))
	return fmt.Sprintf("\n--- its log ends with:\n%s%s---", skipped, tail)
}

func address(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// freePort claims a port and its second one. Only Close of the claim lets another server of this package take them,
// in this process or in another one, so that a server finds its port free at every Restart.
func freePort() (port int, claim io.Closer, err error) {
	// Other tests never take all ports.
	for range 100 {
		port := firstPort + rand.IntN(ports)
		// A UDP socket with the same number is the claim: the servers use TCP alone, and it ends with this process.
		claim, err := net.ListenPacket("udp", address(port))
		if err != nil {
			continue
		}
		if portFree(port) && portFree(SecondPort(port)) {
			return port, claim, nil
		}
		claim.Close()
	}
	return 0, nil, fmt.Errorf("no free port on 127.0.0.1 from %d to %d", firstPort, firstPort+ports-1)
}

func portFree(port int) bool {
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}
