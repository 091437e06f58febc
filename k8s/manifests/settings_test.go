package manifests_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// ofGo are what Go's runtime reads itself.
var ofGo = []string{"GOMEMLIMIT", "GOGC", "GOMAXPROCS"}

// environment is what a pod's program would be given, its secrets in a folder of the test, and its servers away.
func environment(t *testing.T, c *cluster, pod corev1.PodTemplateSpec) []string {
	t.Helper()
	given := map[string]string{}
	container := pod.Spec.Containers[0]
	require.Len(t, container.EnvFrom, 1)
	require.True(t, strings.HasPrefix(container.EnvFrom[0].ConfigMapRef.Name, "settings-"), "its name must change with what it holds")
	for name, value := range c.settings {
		given[name] = value
	}
	secrets := t.TempDir()
	contents := map[string]string{
		"mysql-dsn":      fmt.Sprintf("jajeong:secret@tcp(%s)/coupons", nobody(t)),
		"redis-password": "secret",
	}
	for _, env := range container.Env {
		value := env.Value
		if strings.HasSuffix(env.Name, "_FILE") {
			value = filepath.Join(secrets, path.Base(env.Value))
			require.NoError(t, os.WriteFile(value, []byte(contents[path.Base(env.Value)]), 0o600))
		}
		if env.ValueFrom != nil {
			value = fmt.Sprint(container.Resources.Requests.Memory().Value())
		}
		given[env.Name] = value
	}
	given["REDIS_ADDRS"] = nobody(t) // it is checked below by itself
	var pairs []string
	for name, value := range given {
		pairs = append(pairs, name+"="+value)
	}
	return pairs
}

// nobody is an address at which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// Every name is a setting of the program that gets it, or of its sibling, and every value is one that it takes. The
// programs themselves say so: with servers away they fail for that alone.
func TestSettingsAreTheProgramsOwn(t *testing.T) {
	t.Parallel()
	known := help(t)
	everywhere(t, func(t *testing.T, c *cluster) {
		t.Parallel()
		require.NotEmpty(t, c.settings["REDIS_ADDRS"], "an overlay says where Redis is")
		for name, pod := range c.own() {
			pairs := environment(t, c, pod)
			for _, pair := range pairs {
				env, _, _ := strings.Cut(pair, "=")
				require.True(t, slices.Contains(ofGo, env) || regexp.MustCompile(`\$`+env+`\b`).MatchString(known), "%s: %s is not a setting", name, env)
			}
			if pod.Spec.Containers[0].Command[0] != "settle" {
				continue // TestProbes starts it
			}
			// Whatever its verb, the settings are the same; this one gives up soon.
			verb := exec.CommandContext(t.Context(), program(t, "settle"), "coupon", "list")
			verb.Env = append(pairs, "REDIS_ADDRS="+c.settings["REDIS_ADDRS"])
			output, err := verb.CombinedOutput()
			require.Error(t, err)
			require.Equal(t, 1, verb.ProcessState.ExitCode(), "%s: %s", name, output)
		}
	})
}

// The program, started as the manifest says with every server away: it lives, it is not ready, and the probes ask where it
// answers.
func TestProbes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, c *cluster) {
		t.Parallel()
		pod := c.pods()["apply-api"]
		container := pod.Spec.Containers[0]
		api := exec.CommandContext(t.Context(), program(t, container.Command[0]), container.Args...)
		api.Env = append(environment(t, c, pod), "APPLY_LISTEN=127.0.0.1:0", "APPLY_ADMIN_LISTEN=127.0.0.1:0")
		stderr, err := api.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, api.Start())
		t.Cleanup(func() { _ = api.Process.Kill(); _ = api.Wait() })

		var listening struct {
			Msg, Admin string
		}
		lines := bufio.NewScanner(stderr)
		for listening.Msg != "listening" {
			require.True(t, lines.Scan(), "it ended: %v", lines.Err())
			_ = json.Unmarshal(lines.Bytes(), &listening) // wrong settings are no JSON
		}
		go func() {
			for lines.Scan() {
			}
		}()
		for probe, want := range map[*corev1.Probe]int{
			container.LivenessProbe:  http.StatusOK,
			container.ReadinessProbe: http.StatusServiceUnavailable,
		} {
			client := http.Client{Timeout: time.Duration(probe.TimeoutSeconds) * time.Second}
			response, err := client.Get("http://" + listening.Admin + probe.HTTPGet.Path)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, want, response.StatusCode, probe.HTTPGet.Path)
		}
	})
}
