package testenv

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const prometheusWithin = 30 * time.Second

const prometheusHint = "To install what is missing: make setup."

// Prometheus is a private Prometheus. Its methods may be called in parallel.
type Prometheus struct{ *server }

// PrivatePrometheus starts a Prometheus for this test alone, with a configuration in its own YAML.
func PrivatePrometheus(t testing.TB, config string) *Prometheus {
	t.Helper()
	NeedsServers(t)
	path, err := findProgram("prometheus")
	if err != nil {
		t.Fatalf("testenv: start prometheus: %v\n%s", err, prometheusHint)
	}
	s, err := launch(t.Context(), program{
		name: "prometheus", hint: prometheusHint, within: prometheusWithin,
		prepare: func(_ context.Context, s *server) error {
			return os.WriteFile(filepath.Join(s.dir, "prometheus.yml"), []byte(config), 0o600)
		},
		command: func(s *server) []string {
			return []string{path, "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn", "--web.listen-address=" + s.Addr()}
		},
		ready: func(ctx context.Context, s *server, _ int) error {
			var info struct{ Data struct{ CWD string } }
			if err := getJSON(ctx, s, "/api/v1/status/runtimeinfo", &info); err != nil {
				return err
			}
			if info.Data.CWD != s.dir {
				return fmt.Errorf("another Prometheus answers on port %d", s.port)
			}
			return nil
		},
	})
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(func() { stopForTest(t, s.Stop) })
	return &Prometheus{s}
}

// Pushgateway is a private Pushgateway of Prometheus. Its methods may be called in parallel.
type Pushgateway struct{ *server }

// PrivatePushgateway starts a Pushgateway for this test alone.
func PrivatePushgateway(t testing.TB) *Pushgateway {
	t.Helper()
	NeedsServers(t)
	path, err := findProgram("prometheus-pushgateway", "pushgateway") // Debian's name, and its own
	if err != nil {
		t.Fatalf("testenv: start pushgateway: %v\n%s", err, prometheusHint)
	}
	persistence := func(s *server) string { return filepath.Join(s.dir, "pushed") }
	s, err := launch(t.Context(), program{
		name: "pushgateway", hint: prometheusHint, within: prometheusWithin,
		command: func(s *server) []string {
			return []string{path, "--web.listen-address=" + s.Addr(), "--persistence.file=" + persistence(s), "--log.level=warn"}
		},
		ready: func(ctx context.Context, s *server, _ int) error {
			var status struct {
				Data struct{ Flags map[string]string }
			}
			if err := getJSON(ctx, s, "/api/v1/status", &status); err != nil {
				return err
			}
			if status.Data.Flags["persistence.file"] != persistence(s) {
				return fmt.Errorf("another Pushgateway answers on port %d", s.port)
			}
			return nil
		},
	})
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(func() { stopForTest(t, s.Stop) })
	return &Pushgateway{s}
}

// Promtool returns a command of promtool.
func Promtool(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	NeedsServers(t)
	path, err := findProgram("promtool")
	if err != nil {
		t.Fatalf("testenv: %v\n%s", err, prometheusHint)
	}
	return exec.CommandContext(t.Context(), path, args...)
}

func getJSON(ctx context.Context, s *server, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr()+path, nil)
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
