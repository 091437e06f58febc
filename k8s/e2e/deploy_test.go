package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// k8s/deploy.sh deploys the overlay, users apply, k8s/settle.sh settles, checkout reserves a coupon, and a changed
// setting is deployed without an error for users. Every program reaches Redis and MySQL by TLS, with the components.
func TestDeployScript(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	require.NoError(t, n.deploy("--migrate-only"))
	require.Empty(t, n.kubectl("get", "deployments,cronjobs", "--output=name"), "grants may follow before any program")
	require.NoError(t, n.deploy())
	pod := n.applyAPI()
	console := n.ready("console", 1)[0]
	require.Equal(t, pod.Spec.Containers[0].Image, console.Spec.Containers[0].Image)
	couponID := n.AddCoupon(2)
	n.AddUsers(1, 2, 3)
	n.await("apply-api knows the coupon", func(context.Context) bool {
		return n.ask(http.MethodGet, pod, couponID,
			1) == "NOT_APPLIED"
	})
	for user := range coupon.UserID(3) {
		require.Equal(t, "ACCEPTED", n.ask(http.MethodPost, pod, couponID, user+1))
	}

	n.complete(n.script("run", fmt.Sprintf("--coupon=%d", couponID), "--cutoff=now", "--operator=kim",
		"--reason=TICKET-123"))
	n.mustBeSettled(couponID, 2)
	n.await("settle-serve has published", func(ctx context.Context) bool {
		return n.Redis.XLen(ctx,
			"coupon:events").Val() == 2
	})

	wallet := &n.ready("wallet-api", 1)[0]
	require.Equal(t, http.StatusUnauthorized, n.reserve(wallet, "not "+serviceKey, couponID, 1))
	require.Equal(t, http.StatusCreated, n.reserve(wallet, serviceKey, couponID, 1))
	require.Equal(t, http.StatusNotFound, n.reserve(wallet, serviceKey, couponID, 3), "user 3 has no coupon")

	require.Equal(t, http.StatusUnauthorized, n.manage(&console, "not "+serviceKey))
	require.Equal(t, http.StatusOK, n.manage(&console, serviceKey))

	n.kubectl("create", "secret", "generic", "of-an-operator",
		"--from-literal=mysql-dsn="+n.Accounts["jajeong_operator"],
		"--from-literal=redis-password="+redisPassword)
	pause := []string{"coupon", "pause", couponID.String(), "--operator=kim", "--reason=TICKET-123"}
	n.mustFailWithoutRetry(n.script(pause...), 2)
	n.complete(n.scriptAs("of-an-operator", pause...))

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

// A second deployment waits for a migration that runs, from its start on. It deletes no Job in the middle of a
// statement.
func TestDeployScript_SparesRunningMigration(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	release := n.holdMigrations()
	first, ended := n.deployment("--migrate-only"), make(chan error, 1)
	go func() {
		output, err := first.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, output)
		}
		ended <- err
	}()
	pod := n.running("migrate")
	require.NoError(t, kube.node.signal(pod, syscall.SIGSTOP)) // it runs until SIGCONT
	running := n.migration()

	second := n.deployment()
	second.Env = append(second.Env, "MIGRATE_SECONDS=1")
	output, err := second.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), "The earlier migration has not ended after 1 s. No program was changed.")
	require.Equal(t, running.UID, n.migration().UID)
	require.Empty(t, n.kubectl("get", "deployments,cronjobs", "--output=name"))

	release()
	require.NoError(t, kube.node.signal(pod, syscall.SIGCONT))
	require.NoError(t, <-ended)
	require.NoError(t, n.deploy("--migrate-only"))
	require.NotEqual(t, running.UID, n.migration().UID, "a Job that has ended is replaced")
}

// A Job without a node cannot start, and is active all the same. A deployment replaces it.
func TestDeployScript_ReplacesMigrationWithoutNode(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	stuck := n.migrationOf(map[string]any{"nodeSelector": map[string]any{"kubernetes.io/hostname": "nowhere"}})
	require.NoError(t, n.deploy("--migrate-only"))
	require.NotEqual(t, stuck.UID, n.migration().UID)
}

// A kubelet starts a container before it reports so. A deployment waits for a Job with a node until the kubelet reports
// that it cannot start, for want of an image. Here the test reports for the kubelet.
func TestDeployScript_ReplacesMigrationWhoseStartFails(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	node := "silent-" + randomName()
	_, err := kube.client.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
		metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = kube.client.CoreV1().Nodes().Delete(context.Background(), node, metav1.DeleteOptions{}) })
	starts := n.migrationOf(map[string]any{"nodeName": node})

	report := func(reason string) {
		t.Helper()
		pod := n.pod("migrate", "is there", func(*v1.Pod) bool { return true })
		waits := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
		pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "migrate", State: waits}}
		_, err := kube.client.CoreV1().Pods(n.namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	mustWait := func() {
		t.Helper()
		second := n.deployment("--migrate-only")
		second.Env = append(second.Env, "MIGRATE_SECONDS=1")
		output, err := second.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(output), "The earlier migration has not ended after 1 s. No program was changed.")
		require.Equal(t, starts.UID, n.migration().UID)
	}
	mustWait()
	report("ContainerCreating")
	mustWait()
	report("ImagePullBackOff")
	require.NoError(t, n.deploy("--migrate-only"))
	require.NotEqual(t, starts.UID, n.migration().UID)
}

// migrationOf deploys a migration that does not end, with this specification of its pod, and returns its Job.
func (n *night) migrationOf(pod map[string]any) *batchv1.Job {
	n.t.Helper()
	spec := map[string]any{"template": map[string]any{"spec": pod}}
	script := n.deploymentWith([]string{"--migrate-only"}, patch("batch/v1", "Job", "migrate", spec))
	script.Env = append(script.Env, "MIGRATE_SECONDS=1")
	output, err := script.CombinedOutput()
	require.Error(n.t, err)
	require.Contains(n.t, string(output), "The migration has not ended after 1 s. No program was changed.")
	n.pod("migrate", "is there", func(*v1.Pod) bool { return true })
	job := n.migration()
	require.EqualValues(n.t, 1, job.Status.Active)
	return job
}

// holdMigrations makes migrations wait until release.
func (n *night) holdMigrations() (release func()) {
	n.t.Helper()
	holder, err := n.DB.Conn(n.t.Context())
	require.NoError(n.t, err)
	n.t.Cleanup(func() { _ = holder.Close() })
	var got int
	const name = "CONCAT('jajeong.migrate.', LEFT(SHA2(DATABASE(), 256), 32))"
	require.NoError(n.t, holder.QueryRowContext(n.t.Context(), "SELECT GET_LOCK("+name+", 0)").Scan(&got))
	require.Equal(n.t, 1, got)
	return func() {
		_, err := holder.ExecContext(n.t.Context(), "DO RELEASE_LOCK("+name+")")
		require.NoError(n.t, err)
	}
}

// An overlay for laptops has all programs, too. Its servers are those of the test.
func TestDeployScript_Dev(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	n.overlay = "dev"
	require.NoError(t, n.deploy())
	for _, program := range []string{"apply-api", "wallet-api", "console"} {
		n.ready(program, 1)
	}
	n.ready("settle-serve", 2)
}

// Both Pods of settle-serve issue immediate coupons. The other one goes on when one dies, and Kubernetes replaces the
// dead one.
func TestSettleServe_IssuesAfterLossOfPod(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	require.NoError(t, n.deploy())
	both, api := n.ready("settle-serve", 2), n.applyAPI()
	require.NotEqual(t, both[0].Status.PodIP, both[1].Status.PodIP)
	couponID := n.AddCoupon(3)
	n.Exec("UPDATE coupon SET cadence = 'IMMEDIATE' WHERE id = ?", couponID)
	n.AddUsers(1, 2, 3)
	n.await("apply-api knows the coupon", func(context.Context) bool {
		return n.ask(http.MethodGet, api, couponID,
			1) == "NOT_APPLIED"
	})
	mustBeIssued := func(user coupon.UserID) {
		t.Helper()
		require.Equal(t, "ACCEPTED", n.ask(http.MethodPost, api, couponID, user))
		n.await(fmt.Sprintf("user %d has the coupon", user),
			func(context.Context) bool { return n.ask(http.MethodGet, api, couponID, user) == "ISSUED" })
	}

	mustBeIssued(1)
	require.NoError(t, kube.node.kill(&both[0]))
	mustBeIssued(2)
	n.await("the node has reported the dead Pod", func(ctx context.Context) bool {
		pod, err := kube.client.CoreV1().Pods(n.namespace).Get(ctx, both[0].Name, metav1.GetOptions{})
		require.NoError(t, err)
		return pod.Status.Phase == v1.PodFailed
	})
	for _, pod := range n.ready("settle-serve", 2) {
		require.NotEqual(t, both[0].UID, pod.UID)
	}
	mustBeIssued(3)
	n.mustBeSettled(couponID, 3)
	require.EqualValues(t, 3,
		n.Number("SELECT COUNT(*) FROM settlement_run WHERE trigger_kind = 'IMMEDIATE' AND status = 'SUCCEEDED'"))
}

// deploy runs k8s/deploy.sh. The namespace of the caller differs from that of the overlay, which counts. The error has
// the output of the script. All Pods of this node share its ports, so each listens on its own address.
func (n *night) deploy(flags ...string) error {
	n.t.Helper()
	if output, err := n.deployment(flags...).CombinedOutput(); err != nil {
		return fmt.Errorf("deploy: %w: %s", err, output)
	}
	job := n.migration()
	require.EqualValues(n.t, 1, job.Status.Succeeded)
	return nil
}

// deployment is the command of k8s/deploy.sh for the overlay with every component.
func (n *night) deployment(flags ...string) *exec.Cmd {
	n.t.Helper()
	return n.deploymentWith(flags)
}

func (n *night) deploymentWith(flags []string, patches ...map[string]any) *exec.Cmd {
	n.t.Helper()
	const never = "0 0 31 2 *"
	dir := n.manifests(never, folders(n.t, "components"), append(patches,
		listening("apply-api", map[string]string{"APPLY_LISTEN": "8080", "LIVE_LISTEN": "8081",
			"ADMIN_LISTEN": "9090"}),
		listening("wallet-api", map[string]string{"WALLET_LISTEN": "8082", "ADMIN_LISTEN": "9092"}),
		listening("settle-serve", map[string]string{"ADMIN_LISTEN": "9090"}),
		listening("console", map[string]string{"CONSOLE_LISTEN": "8083", "ADMIN_LISTEN": "9093",
			"ADMIN_API_LISTEN": "8084"}))...)
	script := n.command("../deploy.sh", append(flags, dir)...)
	script.Env = append(script.Env, "NAMESPACE=other")
	return script
}

// migration returns the Job migrate.
func (n *night) migration() *batchv1.Job {
	n.t.Helper()
	job, err := kube.client.BatchV1().Jobs(n.namespace).Get(n.t.Context(), "migrate", metav1.GetOptions{})
	require.NoError(n.t, err)
	return job
}

// listening patches a Deployment so that each of its Pods listens on its own address, at the port of each setting.
func listening(deployment string, ports map[string]string) map[string]any {
	env := []any{map[string]any{"name": "POD_IP",
		"valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "status.podIP"}}}}
	for setting, port := range ports {
		env = append(env, map[string]any{"name": setting, "value": "$(POD_IP):" + port})
	}
	return patch("apps/v1", "Deployment", deployment, map[string]any{"template": map[string]any{"spec": map[string]any{
		"containers": []any{map[string]any{"name": deployment, "env": env}}}}})
}

// applyAPI waits until exactly one Pod serves, and returns it.
func (n *night) applyAPI() *v1.Pod {
	n.t.Helper()
	return &n.ready("apply-api", 1)[0]
}

// ready waits until this number of Pods of a Deployment is ready and no other is at work, and returns them.
func (n *night) ready(deployment string, replicas int) (pods []v1.Pod) {
	n.t.Helper()
	n.await(fmt.Sprintf("%d Pods of %s are ready and no other is left", replicas, deployment),
		func(ctx context.Context) bool {
			found, err := kube.client.CoreV1().Pods(n.namespace).List(ctx,
				metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + deployment})
			require.NoError(n.t, err)
			pods = slices.DeleteFunc(found.Items, func(pod v1.Pod) bool { return pod.Status.Phase == v1.PodFailed })
			return len(pods) == replicas && !slices.ContainsFunc(pods, func(pod v1.Pod) bool {
				return len(pod.Status.ContainerStatuses) != 1 || !pod.Status.ContainerStatuses[0].Ready
			})
		})
	return pods
}

// reserve asks wallet-api for a coupon of a user, as checkout does, and returns the HTTP status.
func (n *night) reserve(pod *v1.Pod, key string, couponID coupon.CouponID, user coupon.UserID) int {
	n.t.Helper()
	body := fmt.Sprintf(`{"couponId":%d,"userId":%d,"amountWon":12000}`, couponID, user)
	url := fmt.Sprintf("http://%s:8082/v1/orders/A-%d/coupon", pod.Status.PodIP, user)
	request, err := http.NewRequestWithContext(n.t.Context(), http.MethodPut, url, strings.NewReader(body))
	require.NoError(n.t, err)
	return n.statusFor(key, request)
}

// manage asks the management API for the coupons, as a program of the shop does, and returns the HTTP status.
func (n *night) manage(pod *v1.Pod, key string) int {
	n.t.Helper()
	request, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet,
		"http://"+pod.Status.PodIP+":8084/v1/coupons", nil)
	require.NoError(n.t, err)
	return n.statusFor(key, request)
}

// statusFor sends a request with a key, and returns the HTTP status.
func (n *night) statusFor(key string, request *http.Request) int {
	n.t.Helper()
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	require.NoError(n.t, err)
	require.NoError(n.t, response.Body.Close())
	return response.StatusCode
}

// ask sends a request of a user, again if the user asks too often. It returns the status of the application, or the
// code of the problem.
func (n *night) ask(method string, pod *v1.Pod, couponID coupon.CouponID, user coupon.UserID) (status string) {
	n.t.Helper()
	path := map[string]string{http.MethodGet: "/me"}[method]
	testenv.Eventually(n.t, "the user may ask", func() bool {
		status = jajeongtest.Ask(nil, pod.Status.PodIP+":8080", method, path, couponID, user).Status
		return status != "TOO_MANY_REQUESTS"
	})
	return status
}
