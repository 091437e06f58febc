package testenv

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
	// Below the ports that Linux (from 32768) and macOS (from 49152) give to outgoing connections:
	// one of those could sit on a server's port while it is down, a client's own redial even. The
	// same holds for the second port of a Redis in a Cluster, so far above the first.
	firstPort, ports = 10000, 10000
	clusterBusOffset = 10000

	// Two tries in a row on a port that somebody takes at that very moment are rare enough.
	portAttempts = 5

	readyInterval = 10 * time.Millisecond

	// The kernel is done within milliseconds, on a machine that is not starving.
	killWithin = 30 * time.Second

	// Enough for the reason a server gives before it leaves.
	logTailBytes = 4096
)

// program is how one kind of server is started.
type program struct {
	name   string
	hint   string        // what to do when it does not start
	within time.Duration // from the start of a process until it answers

	// prepare fills a new folder, once.
	prepare func(ctx context.Context, s *server) error
	command func(s *server) []string
	// ready asks the server on s.port whether it is the one with this pid and answers.
	ready func(ctx context.Context, s *server, pid int) error
}

// server is a child process with its folder and port. Its methods may be called in parallel.
type server struct {
	program program
	dir     string
	port    int

	mu  sync.Mutex
	sup *supervisor // nil once stopped
	up  bool        // started and not killed by us
}

func launch(ctx context.Context, p program) (*server, error) {
	for attempt := 1; ; attempt++ {
		s, err := launchOnce(ctx, p)
		if err == nil {
			return s, nil
		}
		// Most often the port was taken, perhaps only for a moment, by a process of another test that was looking for one.
		if !errors.Is(err, errExited) || attempt == portAttempts {
			return nil, fmt.Errorf("start %s: %w\n%s", p.name, err, p.hint)
		}
	}
}

func launchOnce(ctx context.Context, p program) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "jajeong-"+p.name+"-")
	if err != nil {
		return nil, err
	}
	sup, err := supervise(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &server{program: p, dir: dir, port: port, sup: sup}
	if p.prepare != nil {
		err = p.prepare(ctx, s)
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
func (s *server) start(ctx context.Context) error {
	if err := s.run(s.program.command(s)); err != nil {
		return err
	}
	s.up = true
	if err := s.awaitReady(ctx); err != nil {
		return fmt.Errorf("port %d: %w%s", s.port, err, s.logTail())
	}
	return nil
}

// run starts a command under a supervisor of its own, which takes the folder over.
func (s *server) run(command []string) error {
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

// runToEnd runs a command that prepares the folder.
func (s *server) runToEnd(ctx context.Context, command []string) error {
	// Of a supervised command only the end is seen, so a file tells of its success.
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

var errExited = errors.New("it ended before it answered")

func (s *server) awaitReady(ctx context.Context) error {
	ctx, cancelTimeout := context.WithTimeoutCause(ctx, s.program.within,
		fmt.Errorf("no answer within %v: %w", s.program.within, context.DeadlineExceeded))
	defer cancelTimeout()
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if s.sup.awaitEnd(ctx) == nil {
			cancel(errExited)
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
		err := s.program.ready(ctx, s, s.sup.pid)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err // not only that the time is up
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), last)
		}
	}
}

// Addr returns the server's host:port. It stays the same over a Restart.
func (s *server) Addr() string { return address(s.port) }

// Dir returns the server's temporary folder.
func (s *server) Dir() string { return s.dir }

// Pid returns the id of the process started last, or 0 after Stop.
func (s *server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sup == nil {
		return 0
	}
	return s.sup.pid
}

// Kill ends the server with SIGKILL and returns once it is gone. Folder and port are kept for
// Restart. Killing it again does nothing.
func (s *server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

func (s *server) kill() error {
	if !s.up {
		return nil
	}
	// It may have ended by itself.
	if err := s.signal(syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), killWithin)
	defer cancel()
	if err := s.sup.awaitEnd(ctx); err != nil {
		return fmt.Errorf("kill %s %d: %w", s.program.name, s.sup.pid, err)
	}
	s.up = false
	return s.sup.noteEnd()
}

// Restart starts the server again on its port and folder, after killing it if need be, and waits
// until it answers.
func (s *server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sup == nil {
		return fmt.Errorf("restart %s: it was stopped", s.program.name)
	}
	if err := s.kill(); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return fmt.Errorf("restart %s: %w", s.program.name, err)
	}
	return nil
}

// Freeze stops the server with SIGSTOP: connections stay open and nothing is answered.
func (s *server) Freeze() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signal(syscall.SIGSTOP)
}

// Thaw lets a frozen server go on.
func (s *server) Thaw() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signal(syscall.SIGCONT)
}

func (s *server) signal(sig syscall.Signal) error {
	if !s.up {
		return fmt.Errorf("send %v to %s: it is not running", sig, s.program.name)
	}
	if err := syscall.Kill(s.sup.pid, sig); err != nil {
		return fmt.Errorf("send %v to %s %d: %w", sig, s.program.name, s.sup.pid, err)
	}
	return nil
}

// Stop ends the server and removes its folder. Stopping it again does nothing.
func (s *server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sup == nil {
		return nil
	}
	err := s.sup.stop()
	s.sup, s.up = nil, false
	return errors.Join(err, os.RemoveAll(s.dir))
}

// logTail returns the end of what the server said, to be put behind an error.
func (s *server) logTail() string {
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

func freePort() (int, error) {
	// So many are never all taken by other tests.
	for range 100 {
		if port := firstPort + rand.IntN(ports); portsFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 from %d to %d", firstPort, firstPort+ports-1)
}

func portsFree(port int) bool {
	return portFree(port) && portFree(port+clusterBusOffset)
}

func portFree(port int) bool {
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}
