package e2e

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// strictly makes unknown fields errors. By default they are dropped silently.
var strictly = []string{"--dry-run=server", "--validate=strict"}

// folders returns the names of the folders in a folder of k8s.
func folders(t *testing.T, in string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir("../" + in)
	require.NoError(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// The API server accepts the overlays without a warning, such as one about a Pod that breaks the rules of the
// namespace.
func TestOverlays_AcceptedByAPIServer(t *testing.T) {
	for _, overlay := range folders(t, "overlays") {
		t.Run(overlay, func(t *testing.T) {
			manifests := kustomized(t, overlay)
			makeNamespace(t, manifests) // a dry run creates no namespace, which the other objects need
			stdout, stderr, err := apply(t, manifests, strictly...)
			require.NoError(t, err, stderr)
			require.Empty(t, stderr)
			require.Contains(t, stdout, "cronjob.batch/settle serverside-applied (server dry run)")
			require.Contains(t, stdout, "deployment.apps/apply-api serverside-applied (server dry run)")
			require.Contains(t, stdout, "deployment.apps/settle-serve serverside-applied (server dry run)")
			require.Contains(t, stdout, "deployment.apps/wallet-api serverside-applied (server dry run)")

			_, stderr, err = apply(t, strings.Replace(manifests, "concurrencyPolicy:", "concurencyPolicy:", 1),
				strictly...)
			require.Error(t, err, "a misspelt field")
			require.Contains(t, stderr, "concurencyPolicy")
			_, stderr, err = apply(t, strings.Replace(manifests, "timeZone: Asia/Seoul", "timeZone: Asia/Soul", 1),
				strictly...)
			require.Error(t, err, "an unknown time zone")
			require.Contains(t, stderr, "Asia/Soul")
		})
	}
}

// The CronJob of the other tests differs from the overlay in its schedule only.
func TestSchedule_IsTheOnlyDifference(t *testing.T) {
	t.Parallel()
	theirs := object[batchv1.CronJob](t, kustomized(t, "prod"), "CronJob", "settle")
	n := &night{Deployment: new(jajeongtest.Deployment), t: t, overlay: "prod", namespace: "some-night",
		authority: testenv.NewAuthority(t), settings: map[string]string{"REDIS_TLS": "false"}}
	ours := object[batchv1.CronJob](t, n.kubectl("kustomize", n.manifests("30 12 * * *", nil)), "CronJob", "settle")
	require.Equal(t, "30 12 * * *", ours.Spec.Schedule)

	ours.Spec.Schedule, ours.Namespace = theirs.Spec.Schedule, theirs.Namespace
	settings := func(job *batchv1.CronJob) *v1.ConfigMapEnvSource {
		return job.Spec.JobTemplate.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef
	}
	require.NotEqual(t, settings(theirs).Name, settings(ours).Name, "its name ends in a hash of the settings")
	settings(ours).Name = settings(theirs).Name
	require.Equal(t, theirs, ours)
}

// makeNamespace creates the namespace of the manifests, with its rules for Pods.
func makeNamespace(t *testing.T, manifests string) {
	t.Helper()
	namespace := object[v1.Namespace](t, manifests, "Namespace", "jajeong")
	_, err := kube.client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
}

func kustomized(t *testing.T, overlay string) string {
	t.Helper()
	out, err := command(t, "", "kubectl", "kustomize", "../overlays/"+overlay).Output()
	require.NoError(t, err)
	return string(out)
}

// apply applies manifests and returns the output of kubectl.
func apply(t *testing.T, manifests string, how ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := command(t, "", "kubectl", append([]string{"apply", "--server-side", "--filename=-"}, how...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(manifests), &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// object returns one object of the manifests.
func object[T any](t *testing.T, manifests, kind, name string) (found *T) {
	t.Helper()
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), len(manifests))
	for {
		var one unstructured.Unstructured
		require.NoError(t, documents.Decode(&one), "%s %s", kind, name)
		if one.GetKind() == kind && one.GetName() == name {
			found = new(T)
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(one.Object, found,
				true))
			return found
		}
	}
}
