package manifests_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConsole_IsOnePodThatReachesTheServers(t *testing.T) {
	t.Parallel()
	c := render(t, "prod"+withComponents)
	pod := c.deployments["console"].Spec.Template
	require.Equal(t, map[string]int32{"http": 8083, "admin": 9093, "api": 8084}, ports(pod.Spec.Containers[0]))
	for _, service := range c.services {
		if service.Name == "console" {
			require.Len(t, service.Spec.Ports, 1, "the admin port is never public")
			require.Equal(t, "http", service.Spec.Ports[0].TargetPort.StrVal)
			require.True(t, service.Spec.PublishNotReadyAddresses, "its pages say what is away")
		}
	}
	require.Equal(t, []string{"console"}, pod.Spec.Containers[0].Args)
	require.EqualValues(t, 1, *c.deployments["console"].Spec.Replicas, "sessions and jobs are in its memory")
	require.Equal(t, "ghcr.io/jajeong/jajeong", strings.Split(pod.Spec.Containers[0].Image, ":")[0],
		"the overlay below has named the image before")
	reached := c.reach(t, pod.Labels, false)
	require.Contains(t, reached, "3306")
	require.Contains(t, reached, "6379")
	require.Contains(t, reached, "443", "the provider of identities")
	require.Equal(t, map[string][]string{"http": {"namespace ingress-nginx"}, "admin": {"namespace monitoring"},
		"api": {"namespace campaigns"}}, c.reach(t, pod.Labels, true))
}

// The development user needs no sign-in: no manifest may set it.
func TestNoManifestHasADevelopmentUser(t *testing.T) {
	t.Parallel()
	read := 0
	for _, root := range []string{"..", "../../compose.yaml", "../../Dockerfile"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && entry.Name() == "bin" { // what k8s/e2e has built
				return fs.SkipDir
			}
			if err != nil || entry.IsDir() || strings.HasSuffix(path, ".go") {
				return err
			}
			content, err := os.ReadFile(path)
			read++
			require.NotContains(t, string(content), "CONSOLE_DEV_USER", path)
			require.NotContains(t, string(content), "console-dev-user", path)
			return err
		})
		require.NoError(t, err)
	}
	require.Greater(t, read, 10)
}
