package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// k8s/deploy.sh deploys the overlay, users apply, k8s/settle.sh settles, and a changed setting is deployed without an error for
// users.
func TestDeployScript(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	require.NoError(t, n.deploy("--migrate-only"))
	require.Empty(t, n.kubectl("get", "deployments,cronjobs", "--output=name"), "grants may follow before any program")
	require.NoError(t, n.deploy())
	pod := n.applyAPI()
	couponID := n.AddCoupon(2)
	n.AddUsers(1, 2, 3)
	n.await("apply-api knows the coupon", func(context.Context) bool { return n.ask(http.MethodGet, pod, couponID, 1) == "NOT_APPLIED" })
	for user := range coupon.UserID(3) {
		require.Equal(t, "ACCEPTED", n.ask(http.MethodPost, pod, couponID, user+1))
	}

	n.complete(n.script("run", fmt.Sprintf("--coupon=%d", couponID), "--cutoff=now", "--operator=kim", "--reason=TICKET-123"))
	n.mustBeSettled(couponID, 2)

	n.settings["LOG_LEVEL"] = "debug"
	require.NoError(t, n.deploy())
	second := n.applyAPI()
	require.NotEqual(t, pod.Name, second.Name, "a changed setting rolls the Pods")
	require.Equal(t, "ISSUED", n.ask(http.MethodGet, second, couponID, 1))
	require.Equal(t, "NOT_SELECTED", n.ask(http.MethodGet, second, couponID, 3))
}

// After a failed migration the script changes no program.
func TestDeployScript_StopsAfterFailedMigration(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	n.Accounts["jajeong_migrate"] = withWrongPassword(n.Accounts["jajeong_migrate"])
	require.ErrorContains(t, n.deploy(), "The migration failed. No program was changed.")
	require.Empty(t, n.kubectl("get", "deployments,cronjobs", "--output=name"))
}

// deploy runs k8s/deploy.sh. The namespace of the caller differs from that of the overlay, which counts. The error has the
// output of the script. All Pods of this node share its ports, so each listens on its own address.
func (n *night) deploy(flags ...string) error {
	n.t.Helper()
	const never = "0 0 31 2 *"
	dir := n.manifests(never, patch("apps/v1", "Deployment", "apply-api", map[string]any{"template": map[string]any{"spec": map[string]any{
		"containers": []any{map[string]any{"name": "apply-api", "env": []any{
			map[string]any{"name": "POD_IP", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "status.podIP"}}},
			map[string]any{"name": "APPLY_LISTEN", "value": "$(POD_IP):8080"},
			map[string]any{"name": "APPLY_ADMIN_LISTEN", "value": "$(POD_IP):9090"},
		}}},
	}}}))
	script := n.command("../deploy.sh", append(flags, dir)...)
	script.Env = append(script.Env, "NAMESPACE=other")
	if output, err := script.CombinedOutput(); err != nil {
		return fmt.Errorf("deploy: %w: %s", err, output)
	}
	job, err := kube.client.BatchV1().Jobs(n.namespace).Get(n.t.Context(), "migrate", metav1.GetOptions{})
	require.NoError(n.t, err)
	require.EqualValues(n.t, 1, job.Status.Succeeded)
	return nil
}

// applyAPI waits until exactly one Pod serves, and returns it.
func (n *night) applyAPI() (only *v1.Pod) {
	n.t.Helper()
	n.await("one Pod of apply-api is ready and no other is left", func(ctx context.Context) bool {
		pods, err := kube.client.CoreV1().Pods(n.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=apply-api"})
		require.NoError(n.t, err)
		only = &pods.Items[0]
		return len(pods.Items) == 1 && len(only.Status.ContainerStatuses) == 1 && only.Status.ContainerStatuses[0].Ready
	})
	return only
}

// ask sends a request of a user. It returns the status of the application, or the code of the problem.
func (n *night) ask(method string, pod *v1.Pod, couponID coupon.CouponID, user coupon.UserID) string {
	path := map[string]string{http.MethodGet: "/me"}[method]
	return jajeongtest.Ask(nil, pod.Status.PodIP+":8080", method, path, couponID, user).Status
}
