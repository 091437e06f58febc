package manifests_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// composed loads compose.yaml like `docker compose config`, with the schema of Compose.
func composed(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "compose.yaml")},
		cli.WithProfiles([]string{"*"}))
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return project
}

// content is the content of a file of the repository.
func content(t *testing.T, path ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	require.NoError(t, err)
	return text
}

func TestCompose(t *testing.T) {
	t.Parallel()
	project := composed(t)
	require.ElementsMatch(t, []string{"redis", "mysql", "migrate", "accounts", "demo", "apply-api", "wallet-api",
		"serve", "settle", "purge", "prometheus", "grafana"}, project.ServiceNames())
	services := project.Services

	require.Subset(t, services["redis"].Command, []string{"--appendonly", "yes", "--maxmemory-policy", "noeviction"})
	require.Equal(t, "mysql:8.4", services["mysql"].Image)
	known := help(t)
	own := 0
	for name, service := range services {
		for _, port := range service.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, "%s can be reached from outside", name)
		}
		for _, volume := range service.Volumes {
			if volume.Type == types.VolumeTypeBind {
				_, err := os.Stat(volume.Source)
				require.NoError(t, err, "%s mounts a missing file", name)
			}
		}
		for other, on := range service.DependsOn {
			switch on.Condition {
			case types.ServiceConditionHealthy:
				require.NotNil(t, services[other].HealthCheck, "%s waits for ever: %s has no health check", name, other)
			case types.ServiceConditionCompletedSuccessfully:
				require.Empty(t, services[other].Restart, "%s never ends", other)
			default:
				t.Errorf("%s waits only for the start of %s", name, other)
			}
		}
		if service.Build == nil {
			continue
		}
		own++
		require.True(t, service.ReadOnly, name)
		require.Equal(t, "65532:65532", service.User, name)
		for env := range service.Environment {
			require.Regexp(t, `\$`+regexp.QuoteMeta(env)+`\b`, known, "%s: %s is not a setting", name, env)
		}
		if service.Restart != "" { // a service that may have open work at SIGTERM
			require.Greater(t, time.Duration(*service.StopGracePeriod), 30*time.Second,
				"%s is killed before it has ended", name)
		}
	}
	require.Equal(t, 7, own)
	require.Equal(t, "demo", services["demo"].Build.Target)
	require.Equal(t, services["mysql"].Image, services["accounts"].Image, "its mysql client is of the server's version")
	require.NotContains(t, services["wallet-api"].Environment, "REDIS_ADDRS", "checkout does not depend on Redis")
	require.Contains(t, instructions(t), "FROM "+services["mysql"].Image+" AS demo",
		"its mysql client is of the server's version")
	require.Equal(t, types.ShellCommand{"settle", "serve", "--admin-listen=:9090"}, services["serve"].Command,
		"every task")
}

// Prometheus scrapes all services with metrics, and mounts its rule files.
func TestComposePrometheus(t *testing.T) {
	t.Parallel()
	var config struct {
		RuleFiles     []string `json:"rule_files"`
		ScrapeConfigs []struct {
			StaticConfigs []struct{ Targets []string } `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	require.NoError(t, yaml.Unmarshal(content(t, "compose", "prometheus.yaml"), &config))
	project := composed(t)
	for _, file := range config.RuleFiles {
		require.True(t, slices.ContainsFunc(project.Services["prometheus"].Volumes,
			func(v types.ServiceVolumeConfig) bool { return v.Target == file }), file)
	}
	var scraped []string
	for _, scrape := range config.ScrapeConfigs {
		for _, static := range scrape.StaticConfigs {
			for _, target := range static.Targets {
				service, _, _ := strings.Cut(target, ":")
				require.Contains(t, project.Services, service)
				scraped = append(scraped, target)
			}
		}
	}
	require.ElementsMatch(t, []string{"apply-api:9090", "wallet-api:9092", "serve:9090"}, scraped)
}

func TestComposePrometheus_PromtoolAccepts(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	require.NoError(t, err, "run make setup")
	config := content(t, "compose", "prometheus.yaml")
	rules, err := filepath.Abs(filepath.Join("..", "monitoring", "rules.yaml"))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "prometheus.yaml")
	require.NoError(t, os.WriteFile(file, bytes.ReplaceAll(config, []byte("/etc/prometheus/rules.yaml"), []byte(rules)),
		0o600))
	output, err := exec.CommandContext(t.Context(), promtool, "check", "config", file).CombinedOutput()
	require.NoError(t, err, "%s", output)
}
