// Package prometheus starts a Prometheus or a Pushgateway for a test.
package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/process"
)

const hint = "To install what is missing: make setup."

// Start starts a Prometheus for this test alone, with a configuration in Prometheus' YAML.
func Start(t testing.TB, config string) *process.Server {
	t.Helper()
	testenv.NeedsServers(t)
	return process.StartFor(t, process.Program{
		Name: "prometheus", Hint: hint,
		Files: map[string][]byte{"prometheus.yml": []byte(config)},
		Args: func(_ string, port int) []string {
			return []string{"--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn",
				listen(port)}
		},
		Ready: func(ctx context.Context, s process.Instance) error {
			var info struct{ Data struct{ CWD string } }
			if err := getJSON(ctx, s.Addr, "/api/v1/status/runtimeinfo", &info); err != nil {
				return err
			}
			if info.Data.CWD != s.Dir {
				return fmt.Errorf("another Prometheus answers at %s", s.Addr)
			}
			return nil
		},
	})
}

// StartPushgateway starts a Pushgateway for this test alone.
func StartPushgateway(t testing.TB) *process.Server {
	t.Helper()
	testenv.NeedsServers(t)
	path, err := process.Find("prometheus-pushgateway", "pushgateway") // Debian's name, and its own
	if err != nil {
		t.Fatalf("prometheus: start pushgateway: %v\n%s", err, hint)
	}
	persistence := func(dir string) string { return filepath.Join(dir, "pushed") }
	return process.StartFor(t, process.Program{
		Name: "pushgateway", Path: path, Hint: hint,
		Args: func(dir string, port int) []string {
			return []string{listen(port), "--persistence.file=" + persistence(dir), "--log.level=warn"}
		},
		Ready: func(ctx context.Context, s process.Instance) error {
			var status struct {
				Data struct{ Flags map[string]string }
			}
			if err := getJSON(ctx, s.Addr, "/api/v1/status", &status); err != nil {
				return err
			}
			if status.Data.Flags["persistence.file"] != persistence(s.Dir) {
				return fmt.Errorf("another Pushgateway answers at %s", s.Addr)
			}
			return nil
		},
	})
}

func listen(port int) string { return fmt.Sprintf("--web.listen-address=127.0.0.1:%d", port) }

// Promtool returns a command of promtool.
func Promtool(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	testenv.NeedsServers(t)
	path, err := process.Find("promtool")
	if err != nil {
		t.Fatalf("prometheus: %v\n%s", err, hint)
	}
	return exec.CommandContext(t.Context(), path, args...)
}

func getJSON(ctx context.Context, addr, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}
