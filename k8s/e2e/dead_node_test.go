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

// After the sudden death of a node, its pod still counts as running. Both commands of docs/deploy.md make the Job try
// again. A forced deletion of the pod does not: a Job with a failure policy waits for the end of the container.
func TestDeadNode_JobRetriesAfterTaintOrDelete(t *testing.T) {
	t.Parallel()
	for name, arguments := range map[string]func(node string) []string{
		"out of service": func(node string) []string {
			return []string{"taint", "nodes", node, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"}
		},
		"deleted": func(node string) []string { return []string{"delete", "node", node} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			dead := "dead-" + randomName()
			_, err := kube.client.CoreV1().Nodes().Create(t.Context(),
				&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: dead}}, metav1.CreateOptions{})
			require.NoError(t, err)
			t.Cleanup(func() {
				// If it still exists.
				_ = kube.client.CoreV1().Nodes().Delete(context.Background(), dead, metav1.DeleteOptions{})
			})
			job := n.runsOn(dead)
			pod := n.pod(job, "is there", func(*v1.Pod) bool { return true })
			pod.Status.Phase = v1.PodRunning // the last reported status
			_, err = kube.client.CoreV1().Pods(n.namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
			require.NoError(t, err)

			n.kubectl("delete", "pod", pod.Name, "--wait=false") // like Kubernetes after five minutes without a status
			n.kubectl(arguments(dead)...)
			n.pod(job, "has taken its place", func(other *v1.Pod) bool { return other.UID != pod.UID })
		})
	}
}

// runsOn creates a Job whose pods run on this node only.
func (n *night) runsOn(node string) (name string) {
	n.t.Helper()
	n.applyJobs("0 0 1 1 *")
	var job batchv1.Job
	require.NoError(n.t,
		json.Unmarshal([]byte(n.kubectl("create", "job", "tonight", "--from=cronjob/settle", "--dry-run=client",
			"--output=json")), &job))
	job.Spec.Template.Spec.NodeName = node
	made, err := kube.client.BatchV1().Jobs(n.namespace).Create(n.t.Context(), &job, metav1.CreateOptions{})
	require.NoError(n.t, err)
	return made.Name
}
