package e2e

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv/prometheus"
)

// users fill several pages of the queue.
const (
	seats = 2500
	users = 3000
)

func TestCronJob_Settles(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	gateway := prometheus.StartPushgateway(t)
	n.settings["PUSH_GATEWAY"] = "http://" + gateway.Addr()
	couponID := n.yesterday(seats, users)
	job := n.complete(n.scheduled(n.applyWithNextMinute()))
	require.Zero(t, job.Status.Failed)
	n.mustBeSettled(couponID, seats)

	response, err := http.Get("http://" + gateway.Addr() + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	metrics, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Regexp(t, `jajeong_run_last_success_timestamp_seconds\{[^}]*namespace="`+n.namespace+`",trigger="CRON"\}`,
		string(metrics))
}

func TestCronJob_RetriesWhileDatabaseIsDown(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	couponID := n.yesterday(seats, users)
	midnight := n.applyWithNextMinute()
	require.NoError(t, n.mysql.Kill())
	job := n.scheduled(midnight)
	failed := n.pod(job, "has failed", func(pod *v1.Pod) bool { return pod.Status.Phase == v1.PodFailed })
	require.EqualValues(t, 1, exitCode(failed))
	require.NoError(t, n.mysql.Restart(t.Context()))

	require.Positive(t, n.complete(job).Status.Failed)
	n.mustBeSettled(couponID, seats)
}

func TestCronJob_FailsAfterWrongSetup(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	couponID := n.yesterday(seats, users)
	n.Accounts["jajeong_settle"] = withWrongPassword(n.Accounts["jajeong_settle"])
	n.mustFailWithoutRetry(n.scheduled(n.applyWithNextMinute()), 2)
	require.Empty(t, n.Issued(couponID))
}

func withWrongPassword(dsn string) string { return strings.Replace(dsn, ":", ":not-", 1) }

func TestCronJob_FailsAfterGap(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	couponID := n.yesterday(seats, users)
	require.NoError(t, n.Redis.ZRem(t.Context(), n.Queue(couponID), "1", "2").Err())
	n.mustFailWithoutRetry(n.scheduled(n.applyWithNextMinute()), 3)
	require.Empty(t, n.Issued(couponID), "a coupon with a gap is not issued")
	n.mustFailWithoutRetry(n.verify("verify-now").Name, 3)
}

// mustFailWithoutRetry demands that a Job fails with the exit code of its first Pod, without a second Pod.
func (n *night) mustFailWithoutRetry(name string, code int32) {
	n.t.Helper()
	job := n.ended(name)
	failed := condition(job, batchv1.JobFailed)
	require.NotNil(n.t, failed, "%+v", job.Status)
	require.Equal(n.t, batchv1.JobReasonPodFailurePolicy, failed.Reason)
	require.Contains(n.t, failed.Message, fmt.Sprintf("exit code %d", code))
	require.EqualValues(n.t, 1, job.Status.Failed)
	pods := n.pods(name)
	require.Len(n.t, pods, 1)
	require.Equal(n.t, code, exitCode(&pods[0]))
}

func TestManualJob_ConcurrentWithCronJob(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	couponID := n.yesterday(seats, users)
	release := n.Lock(couponID)
	scheduled := n.scheduled(n.applyWithNextMinute())
	n.running(scheduled)
	manual := n.script("run", fmt.Sprintf("--coupon=%d", couponID),
		"--date="+time.Now().In(jajeongtest.Zone).AddDate(0, 0, -1).Format(time.DateOnly),
		"--operator=kim", "--reason=TICKET-123")
	n.running(manual)
	n.awaitLocked(2)
	release()

	require.NotEmpty(t, n.complete(scheduled).OwnerReferences)
	require.Empty(t, n.complete(manual).OwnerReferences, "a Job of the CronJob would count as its run")
	n.mustBeSettled(couponID, seats)
	for _, trigger := range []string{"CRON", "MANUAL"} {
		require.Positive(t,
			n.Number("SELECT COUNT(*) FROM settlement_run WHERE trigger_kind = ? AND status = 'SUCCEEDED'", trigger),
			trigger)
	}
	require.EqualValues(t, seats, n.Number("SELECT SUM(issued_count) FROM settlement"))
}

var jobName = regexp.MustCompile(`logs --follow job/(\S+)`)

// script runs k8s/settle.sh and returns the name of its Job.
func (n *night) script(args ...string) (job string) {
	n.t.Helper()
	return n.scriptAs("", args...)
}

// scriptAs is script with the accounts of another Secret.
func (n *night) scriptAs(secret string, args ...string) (job string) {
	n.t.Helper()
	script := n.command("../settle.sh", args...)
	script.Env = append(script.Env, "SECRET="+secret)
	output, err := script.CombinedOutput()
	require.NoError(n.t, err, string(output))
	found := jobName.FindSubmatch(output)
	require.NotNil(n.t, found, string(output))
	return string(found[1])
}

func TestCronJob_RetriesAfterKilledPod(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	couponID := n.yesterday(seats, users)
	release := n.holdMiddle(seats / 2)
	job := n.scheduled(n.applyWithNextMinute())
	pod := n.running(job)
	n.awaitMiddle()
	require.NoError(t, kube.node.kill(pod))
	n.pod(job, "has failed", func(pod *v1.Pod) bool { return exitCode(pod) == 137 })
	release()

	require.EqualValues(t, 1, n.complete(job).Status.Failed)
	n.mustBeSettled(couponID, seats)
}

// A drained node evicts the Pod, which does not count as an attempt.
func TestCronJob_RetriesAfterEviction(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	couponID := n.yesterday(seats, users)
	release := n.holdMiddle(seats / 2)
	job := n.scheduled(n.applyWithNextMinute())
	pod := n.running(job)
	n.awaitMiddle()
	require.NoError(t, kube.client.PolicyV1().Evictions(n.namespace).Evict(t.Context(),
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: pod.Name}}))
	second := n.pod(job, "has taken its place",
		func(other *v1.Pod) bool { return other.UID != pod.UID && other.Status.Phase == v1.PodRunning })
	require.NotEqual(t, pod.Name, second.Name)
	release()

	require.Zero(t, n.complete(job).Status.Failed)
	n.mustBeSettled(couponID, seats)
}
