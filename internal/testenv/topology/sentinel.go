// Package topology starts several Redis servers that know each other: a Cluster, or a master with a replica and a
// Sentinel.
package topology

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/process"
)

// downAfter is longer than a test. A Sentinel could take a pause of a busy machine for the death of a master, and it
// never promotes a replica whose link broke ten times this long before.
const downAfter = 24 * time.Hour

// StartSentinel starts a Sentinel for this test alone, which decides without other Sentinels. It watches the master,
// and promotes a replica when SENTINEL FAILOVER asks for it. Replicas that exist before are known immediately.
func StartSentinel(t testing.TB, name string, master *testenv.Redis) *process.Server {
	t.Helper()
	path, err := process.Find("redis-server")
	if err != nil {
		t.Fatalf("topology: start sentinel: %v\n%s", err, testenv.RedisHint)
	}
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatalf("topology: start sentinel: %v", err)
	}
	config := fmt.Appendf(nil, `bind 127.0.0.1
sentinel monitor %[1]s %[2]s %[3]s 1
sentinel down-after-milliseconds %[1]s %[4]d
sentinel failover-timeout %[1]s 5000
`, name, host, port, downAfter.Milliseconds())
	return process.StartFor(t, process.Program{
		Name:  "sentinel",
		Path:  path,
		Hint:  testenv.RedisHint,
		Files: map[string][]byte{"sentinel.conf": config}, // a Sentinel also stores its state there
		Args: func(dir string, port int) []string {
			return []string{filepath.Join(dir, "sentinel.conf"), "--sentinel", "--port", strconv.Itoa(port), "--dir",
				dir}
		},
		Ready: testenv.RedisReady,
	})
}
