package manifests_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
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

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// nobody listens at this address.
const nobody = "127.0.0.1:1"

// ofGo are the variables of the Go runtime.
var ofGo = []string{"GOMEMLIMIT", "GOGC", "GOMAXPROCS", "SSL_CERT_DIR"}

// environment returns the environment of a pod. Its secrets are in a folder of the test, and its servers are down.
func environment(t *testing.T, c *cluster, pod corev1.PodTemplateSpec) []string {
	t.Helper()
	given := map[string]string{}
	container := pod.Spec.Containers[0]
	require.Len(t, container.EnvFrom, 1)
	require.True(t, strings.HasPrefix(container.EnvFrom[0].ConfigMapRef.Name, "settings-"),
		"its name must change with its content")
	for name, value := range c.settings {
		given[name] = value
	}
	secrets := t.TempDir()
	contents := map[string]string{
		"mysql-dsn":      fmt.Sprintf("jajeong:secret@tcp(%s)/coupons", nobody),
		"redis-password": "secret",
		"service-keys":   "checkout " + strings.Repeat("0", 64),
		"admin-keys":     "campaigns marketing " + strings.Repeat("0", 64),
	}
	for _, env := range container.Env {
		value := env.Value
		if strings.HasSuffix(env.Name, "_FILE") {
			value = filepath.Join(secrets, path.Base(env.Value))
			require.NoError(t, os.WriteFile(value, []byte(contents[path.Base(env.Value)]), 0o600))
		}
		if env.Name == "SSL_CERT_DIR" {
			value = t.TempDir() // the optional ConfigMap does not exist
		}
		if strings.HasSuffix(env.Name, "_TLS_DIR") {
			value = t.TempDir()
			site := httptest.NewTLSServer(nil) // for its certificate
			site.Close()
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw})
			require.NoError(t, os.WriteFile(filepath.Join(value, "ca.crt"), ca, 0o600))
		}
		switch {
		case env.ValueFrom == nil:
		case env.ValueFrom.FieldRef != nil:
			require.Equal(t, "metadata.namespace", env.ValueFrom.FieldRef.FieldPath)
			value = "jajeong"
		default:
			value = fmt.Sprint(container.Resources.Requests.Memory().Value())
		}
		given[env.Name] = value
	}
	given["REDIS_ADDRS"] = nobody // checked separately below
	var pairs []string
	for name, value := range given {
		pairs = append(pairs, name+"="+value)
	}
	return pairs
}

// Every variable is a setting of one of the programs, and the programs accept every value: without servers, the missing
// servers are their only error.
func TestSettings_AreKnownToThePrograms(t *testing.T) {
	t.Parallel()
	known := help(t)
	everywhere(t, func(t *testing.T, c *cluster) {
		t.Parallel()
		require.NotEmpty(t, c.settings["REDIS_ADDRS"], "an overlay has the address of Redis")
		for name, pod := range c.own() {
			pairs := environment(t, c, pod)
			for _, pair := range pairs {
				env, _, _ := strings.Cut(pair, "=")
				require.True(t, slices.Contains(ofGo, env) || regexp.MustCompile(`\$`+env+`\b`).MatchString(known),
					"%s: %s is not a setting", name, env)
			}
			if pod.Spec.Containers[0].Command[0] != "settle" {
				continue // TestProbes starts it
			}
			// The settings do not depend on the verb. This verb fails fast.
			verb := exec.CommandContext(t.Context(), program(t, "settle"), "coupon", "list")
			verb.Env = append(pairs, "REDIS_ADDRS="+c.settings["REDIS_ADDRS"])
			output, err := verb.CombinedOutput()
			require.Error(t, err)
			require.Equal(t, 1, verb.ProcessState.ExitCode(), "%s: %s", name, output)
		}
	})
}

// Without servers, the program of the manifest is alive and not ready. The probes use its paths.
func TestProbes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, c *cluster) {
		t.Parallel()
		for name, deployment := range c.deployments {
			pod := deployment.Spec.Template
			container := pod.Spec.Containers[0]
			if _, own := c.own()[name]; !own {
				continue
			}
			admin := started(t, container, environment(t, c, pod))
			probes := map[*corev1.Probe]int{container.LivenessProbe: http.StatusOK,
				container.ReadinessProbe: http.StatusServiceUnavailable}
			if container.StartupProbe != nil {
				probes[container.StartupProbe] = http.StatusOK
			}
			for probe, want := range probes {
				response, err := http.Get("http://" + admin + probe.HTTPGet.Path)
				require.NoError(t, err, name)
				require.NoError(t, response.Body.Close())
				require.Equal(t, want, response.StatusCode, "%s: %s", name, probe.HTTPGet.Path)
			}
		}
	})
}

// started starts the program of a container on free ports and returns the address of its admin port.
func started(t *testing.T, container corev1.Container, env []string) (admin string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program(t, container.Command[0]), container.Args...)
	command.Env = append(env, "APPLY_LISTEN=127.0.0.1:0", "ADMIN_LISTEN=127.0.0.1:0", "LIVE_LISTEN=127.0.0.1:0",
		"WALLET_LISTEN=127.0.0.1:0", "CONSOLE_LISTEN=127.0.0.1:0", "ADMIN_API_LISTEN=127.0.0.1:0")
	stderr, err := command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })

	var listening struct {
		Msg, Admin string
	}
	lines := bufio.NewScanner(stderr)
	for listening.Admin == "" {
		require.True(t, lines.Scan(), "%s ended: %v", container.Name, lines.Err())
		_ = json.Unmarshal(lines.Bytes(), &listening) // messages about wrong settings are not JSON
	}
	go func() {
		for lines.Scan() {
		}
	}()
	return listening.Admin
}

// The programs trust a private CA in the ConfigMap of the manifest, which is mounted like Kubernetes does it, and no
// other private CA.
func TestPrivateCA(t *testing.T) {
	t.Parallel()
	c := render(t, "prod")
	pod := c.pods()["apply-api"]
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("known=%t", known), func(t *testing.T) {
			t.Parallel()
			site := httptest.NewUnstartedServer(nil) // for its self-signed certificate
			site.StartTLS()
			t.Cleanup(site.Close)
			listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: site.TLS.Certificates})
			require.NoError(t, err)
			t.Cleanup(func() { _ = listener.Close() })

			api := exec.CommandContext(t.Context(), program(t, "apply-api"))
			api.Env = append(environment(t, c, pod), "REDIS_ADDRS="+listener.Addr().String(),
				"APPLY_LISTEN=127.0.0.1:0", "ADMIN_LISTEN=127.0.0.1:0", "LIVE_LISTEN=127.0.0.1:0")
			if known {
				at := slices.IndexFunc(api.Env, func(pair string) bool {
					return strings.HasPrefix(pair,
						"SSL_CERT_DIR=")
				})
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
				require.Equal(t, "*", string(first), "the first byte of the Redis protocol")
				return
			}
			require.ErrorContains(t, err, "bad certificate")
		})
	}
}
