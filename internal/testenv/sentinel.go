package testenv

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Sentinel is a private Sentinel of one, which decides alone.
type Sentinel struct{ *server }

// PrivateSentinel starts a Sentinel for this test alone. It watches the master, takes it for down when it has not answered
// for downAfter, and puts a replica in its place. Replicas that it is to know at once must have joined before.
func PrivateSentinel(t testing.TB, name string, master *Redis, downAfter time.Duration) *Sentinel {
	t.Helper()
	path, err := findProgram("redis-server")
	if err != nil {
		t.Fatalf("testenv: start sentinel: %v\n%s", err, redisHint)
	}
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatalf("testenv: start sentinel: %v", err)
	}
	config := func(s *server) string { return filepath.Join(s.dir, "sentinel.conf") }
	s, err := launch(t.Context(), program{
		name:   "sentinel",
		hint:   redisHint,
		within: redisWithin,
		prepare: func(_ context.Context, s *server) error { // a file, since a Sentinel keeps there what it learns
			return os.WriteFile(config(s), fmt.Appendf(nil, `bind 127.0.0.1
port %d
dir %s
sentinel monitor %[3]s %s %s 1
sentinel down-after-milliseconds %[3]s %[6]d
sentinel failover-timeout %[3]s 5000
`, s.port, s.dir, name, host, port, downAfter.Milliseconds()), 0o600)
		},
		command: func(s *server) []string { return []string{path, config(s), "--sentinel"} },
		ready:   redisReady,
	})
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(func() { stopForTest(t, s.Stop) })
	return &Sentinel{s}
}
