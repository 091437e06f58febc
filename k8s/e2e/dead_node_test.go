package e2e

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A node dies without a goodbye: its pod runs for ever, as far as anybody knows. Either command of docs/deploy.md makes the Job
// try again. To delete the pod by force does not: a Job with a failure policy waits for
// an end that nobody tells.
func TestANodeThatDiesInTheNight(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]func(node string) []string{
		"out of service": func(node string) []string {
			return []string{"taint", "nodes", node, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"}
		},
		"deleted": func(node string) []string { return []string{"delete", "node", node} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			dead := "dead-" + randomName()
			_, err := kube.client.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: dead}}, metav1.CreateOptions{})
			require.NoError(t, err)
			t.Cleanup(func() {
				_ = kube.client.CoreV1().Nodes().Delete(context.Background(), dead, metav1.DeleteOptions{}) // if it is still there
			})
			job := n.runsOn(dead)
			pod := n.pod(job, "is there", func(*v1.Pod) bool { return true })
			pod.Status.Phase = v1.PodRunning // the last that was heard of it
			_, err = kube.client.CoreV1().Pods(n.namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
			require.NoError(t, err)

			n.kubectl("delete", "pod", pod.Name, "--wait=false") // as Kubernetes itself does after five minutes of silence
			n.kubectl(told(dead)...)
			n.pod(job, "has taken its place", func(other *v1.Pod) bool { return other.UID != pod.UID })
		})
	}
}

// runsOn makes the Job of a night whose pods go to that node and no other.
func (n *night) runsOn(node string) (name string) {
	n.t.Helper()
	rendered := n.kubectl("kustomize", n.manifests("0 0 1 1 *"))
	n.kubectlWith(rendered, "apply", "--filename=-", "--selector=app.kubernetes.io/component notin (apply-api, migrate)")
	var job batchv1.Job
	require.NoError(n.t, json.Unmarshal([]byte(n.kubectl("create", "job", "tonight", "--from=cronjob/settle", "--dry-run=client", "--output=json")), &job))
	job.Spec.Template.Spec.NodeName = node
	made, err := kube.client.BatchV1().Jobs(n.namespace).Create(n.t.Context(), &job, metav1.CreateOptions{})
	require.NoError(n.t, err)
	return made.Name
}
