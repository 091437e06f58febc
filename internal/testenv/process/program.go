package process

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// Program describes how to start one kind of server.
type Program struct {
	Name   string        // on PATH, and in messages
	Path   string        // of the executable; empty: Start looks for Name
	Hint   string        // what to do when the program is missing or does not start
	Within time.Duration // from the start of the process until it answers; zero: as long as the context allows

	// Files are written to the server's folder before the first start, readable by this user only.
	Files map[string][]byte
	// Prepare, if set, fills the folder once, after Files.
	Prepare func(context.Context, *Server) error
	// Args returns the arguments of a server with this folder and port. The server may also listen on SecondPort(port).
	Args func(dir string, port int) []string
	// Ready asks a started server whether it is this instance and whether it answers.
	Ready func(context.Context, Instance) error
}

// Instance is one started process of a server.
type Instance struct {
	Dir, Addr string
	Pid       int
}

// SecondPort is a second free port for a server that needs two.
func SecondPort(port int) int { return port + clusterBusOffset }

// Start starts a server and waits until it answers. After a failure nothing is left behind, and the error ends with the
// server's own log.
func Start(ctx context.Context, p Program) (*Server, error) {
	if p.Path == "" {
		var err error
		if p.Path, err = Find(p.Name); err != nil {
			return nil, fmt.Errorf("start %s: %w\n%s", p.Name, err, p.Hint)
		}
	}
	for attempt := 1; ; attempt++ {
		s, err := launch(ctx, p)
		if err == nil {
			return s, nil
		}
		// The usual cause: a process of another test took the port, perhaps only for a moment.
		if !errors.Is(err, ErrExited) || attempt == portAttempts {
			return nil, fmt.Errorf("start %s: %w\n%s", p.Name, err, p.Hint)
		}
	}
}

// StartFor starts a server for this test alone and stops it at the end of the test.
func StartFor(t testing.TB, p Program) *Server {
	t.Helper()
	s, err := Start(Patient(t), p)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	s.StopAfter(t)
	return s
}

// StopAfter stops the server at the end of the test.
func (s *Server) StopAfter(t testing.TB) {
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("testenv: stop %s: %v", s.program.Name, err)
		}
	})
}
