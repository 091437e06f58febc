package manifests_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const managementAPI = "management-api"

// The console with this component, as the component's header says it, admits the named programs to a port of its own.
func TestManagementAPI_IsForNamedProgramsAlone(t *testing.T) {
	t.Parallel()
	var example string
	header := content(t, "k8s", "components", managementAPI, "kustomization.yaml")
	for _, line := range regexp.MustCompile(`(?m)^#   (.*)$`).FindAllSubmatch(header, -1) {
		example += string(line[1]) + "\n"
	}
	c := renderIn(t, prodWith(t, example), "/k8s/overlays/above")
	pod := c.deployments["console"].Spec.Template
	container := pod.Spec.Containers[0]
	require.Equal(t, map[string]int32{"http": 8083, "admin": 9093, "api": 8084}, ports(container))
	require.Contains(t, container.Env, corev1.EnvVar{Name: "ADMIN_KEYS_FILE",
		Value: container.VolumeMounts[0].MountPath + "/admin-keys"})
	require.Empty(t, pod.Spec.Volumes[0].Secret.Items)
	require.Empty(t, container.VolumeMounts[0].SubPath, "Kubernetes would not update a rotated key in the pod")

	at := slices.IndexFunc(c.services, func(s corev1.Service) bool { return s.Name == managementAPI })
	require.GreaterOrEqual(t, at, 0)
	service := c.services[at].Spec
	require.True(t, matches(t, &metav1.LabelSelector{MatchLabels: service.Selector}, pod.Labels))
	require.Len(t, service.Ports, 1)
	require.Equal(t, "api", service.Ports[0].TargetPort.StrVal)
	require.True(t, service.PublishNotReadyAddresses, "its answers say what is away")

	at = slices.IndexFunc(c.policies, func(p networkingv1.NetworkPolicy) bool { return p.Name == managementAPI })
	require.GreaterOrEqual(t, at, 0)
	require.Equal(t, []networkingv1.NetworkPolicyPeer{{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "crm"}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "campaigns"}},
	}}, c.policies[at].Spec.Ingress[0].From)
	require.Equal(t, map[string][]string{"api": {"namespace crm"}, "http": {"namespace ingress-nginx"},
		"admin": {"namespace monitoring"}}, c.reach(t, pod.Labels, true))
}

// The console without this component has no port, no keys and no Service for it.
func TestManagementAPI_IsOffByDefault(t *testing.T) {
	t.Parallel()
	c := renderIn(t, prodWith(t, "components: [../../components/console]"), "/k8s/overlays/above")
	pod := c.deployments["console"].Spec.Template
	require.Equal(t, map[string]int32{"http": 8083, "admin": 9093}, ports(pod.Spec.Containers[0]))
	for _, env := range pod.Spec.Containers[0].Env {
		require.NotContains(t, env.Name, "ADMIN_KEYS")
	}
	require.NotContains(t, c.labels, "Service/"+managementAPI)
	require.NotContains(t, c.reach(t, pod.Labels, true), "api")
}

// An overlay that names this component without the console, or before it, is refused.
func TestManagementAPI_NeedsTheConsole(t *testing.T) {
	t.Parallel()
	for _, components := range []string{"[../../components/management-api]",
		"[../../components/management-api, ../../components/console]"} {
		_, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(prodWith(t, "components: "+components),
			"/k8s/overlays/above")
		require.ErrorContains(t, err, "console")
	}
}

// prodWith has an overlay above prod, with these lines.
func prodWith(t *testing.T, lines string) filesys.FileSystem {
	t.Helper()
	files := above(t, "prod")
	require.NoError(t, files.WriteFile("/k8s/overlays/above/kustomization.yaml",
		[]byte("resources: [../prod]\n"+lines)))
	return files
}
