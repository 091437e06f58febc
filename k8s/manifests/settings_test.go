package manifests_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
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
var ofGo = []string{"GOMEMLIMIT", "GOGC", "GOMAXPROCS", "SSL_CERT_DIR"}

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
		if env.Name == "SSL_CERT_DIR" {
			value = t.TempDir() // nobody has made the ConfigMap
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
		for listening.Admin == "" {
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

// Servers whose certificate a private CA has signed are believed where the manifest lets the CA be put, mounted as
// Kubernetes mounts a ConfigMap, and nowhere else.
func TestAPrivateCA(t *testing.T) {
	t.Parallel()
	c := render(t, "prod")
	pod := c.pods()["apply-api"]
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("known=%t", known), func(t *testing.T) {
			t.Parallel()
			site := httptest.NewUnstartedServer(nil) // for its certificate, which it has signed itself
			site.StartTLS()
			t.Cleanup(site.Close)
			listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: site.TLS.Certificates})
			require.NoError(t, err)
			t.Cleanup(func() { _ = listener.Close() })

			api := exec.CommandContext(t.Context(), program(t, "apply-api"))
			api.Env = append(environment(t, c, pod), "REDIS_ADDRS="+listener.Addr().String(), "APPLY_LISTEN=127.0.0.1:0", "APPLY_ADMIN_LISTEN=127.0.0.1:0")
			if known {
				at := slices.IndexFunc(api.Env, func(pair string) bool { return strings.HasPrefix(pair, "SSL_CERT_DIR=") })
				require.GreaterOrEqual(t, at, 0)
				_, dir, _ := strings.Cut(api.Env[at], "=")
				require.NoError(t, os.Mkdir(filepath.Join(dir, "..2026"), 0o700))
				ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw})
				require.NoError(t, os.WriteFile(filepath.Join(dir, "..2026", "ca.crt"), ca, 0o600))
				require.NoError(t, os.Symlink("..2026", filepath.Join(dir, "..data")))
				require.NoError(t, os.Symlink("..data/ca.crt", filepath.Join(dir, "ca.crt")))
			}
			require.NoError(t, api.Start())
			t.Cleanup(func() { _ = api.Process.Kill(); _ = api.Wait() })

			conn, err := listener.Accept()
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			first := make([]byte, 1)
			_, err = conn.Read(first)
			if known {
				require.NoError(t, err)
				require.Equal(t, "*", string(first), "it speaks to Redis")
				return
			}
			require.ErrorContains(t, err, "bad certificate")
		})
	}
}
