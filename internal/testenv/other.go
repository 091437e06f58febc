package testenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Program is a server of a kind that this package does not know itself.
type Program struct {
	Name   string        // on PATH
	Path   string        // where it is; empty to look for Name
	Hint   string        // what to do when it is missing or does not start
	Within time.Duration // from the start until it answers

	// Files are written into the server's folder before it starts, readable by nobody else.
	Files map[string][]byte
	// Args are the arguments of a server with this folder and port. It may also listen on SecondPort(port).
	Args func(dir string, port int) []string
	// Ready asks the server at this host:port whether it answers.
	Ready func(ctx context.Context, addr string) error
}

// Server is a private server of another kind. Its methods may be called in parallel.
type Server struct{ *server }

// SecondPort is a port that is free, too, for a server that needs two.
func SecondPort(port int) int { return port + clusterBusOffset }

// Start starts a server and waits until it answers. On failure nothing is left behind, and the error ends with the
// server's own words.
func Start(ctx context.Context, p Program) (*Server, error) {
	path := p.Path
	if path == "" {
		var err error
		if path, err = findProgram(p.Name); err != nil {
			return nil, fmt.Errorf("start %s: %w\n%s", p.Name, err, p.Hint)
		}
	}
	s, err := launch(ctx, program{
		name:    p.Name,
		hint:    p.Hint,
		within:  p.Within,
		prepare: func(_ context.Context, s *server) error { return p.writeFiles(s.dir) },
		command: func(s *server) []string { return append([]string{path}, p.Args(s.dir, s.port)...) },
		ready:   func(ctx context.Context, s *server, _ int) error { return p.Ready(ctx, s.Addr()) },
	})
	if err != nil {
		return nil, err
	}
	return &Server{s}, nil
}

func (p Program) writeFiles(dir string) error {
	for name, content := range p.Files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Private starts a server for this test alone, which may kill and freeze it.
func Private(t testing.TB, p Program) *Server {
	t.Helper()
	s, err := Start(t.Context(), p)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(func() { stopForTest(t, s.Stop) })
	return s
}
