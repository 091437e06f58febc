package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/process"
)

const (
	redisPassword = "of-this-test"

	serviceKey  = "checkout"
	serviceKeys = "checkout c7761e58969f7edd498186641b2021e8477e1bcd230de4cf3435242da4a40d14" // its SHA-256
	// adminKeys has the SHA-256 of serviceKey, too.
	adminKeys = "campaigns viewer c7761e58969f7edd498186641b2021e8477e1bcd230de4cf3435242da4a40d14"
)

// night is an overlay in its own namespace, with its own Redis and database server. Its Secrets and ConfigMap have
// their addresses and the accounts of sql/grants.sql, and its schedule differs. The rest of the overlay is unchanged.
type night struct {
	*jajeongtest.Deployment
	t         *testing.T
	overlay   string
	namespace string
	settings  map[string]string // of the ConfigMap, different from the overlay
	mysql     *testenv.MySQL
	overTLS   map[string]string // settings with the components for TLS
	authority testenv.Authority
}

func newNight(t *testing.T) *night {
	t.Helper()
	authority := testenv.NewAuthority(t)
	certificates := authority.Folder()
	n := &night{t: t, overlay: "prod", namespace: "night-" + randomName(), authority: authority,
		mysql: testenv.PrivateMySQL(t, testenv.MySQLOptions{Args: testenv.MySQLArgs(certificates)})}
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	addr, secure := server.Addr(), server.SpeakTLS(t, certificates)
	n.overTLS = map[string]string{"REDIS_ADDRS": secure, "EVENT_SINK": "redis", "EVENT_REDIS_ADDRS": secure,
		"EVENT_REDIS_USERNAME":      "jajeong_settle",
		"EVENT_REDIS_PASSWORD_FILE": "/run/secrets/jajeong/redis-password"}
	client := redis.NewClient(&redis.Options{Addr: addr, Password: redisPassword})
	t.Cleanup(func() { _ = client.Close() })
	open := redis.NewClient(&redis.Options{Addr: addr})
	require.NoError(t, open.ConfigSet(t.Context(), "requirepass", redisPassword).Err())
	require.NoError(t, open.Close())
	for line := range strings.Lines(docs.RedisUsers) { // the manifests name these users
		words := strings.Fields(strings.Replace(line, ">…", ">"+redisPassword, 1))
		require.NoError(t, client.ACLSetUser(t.Context(), words[1], words[2:]...).Err())
	}
	n.Deployment = jajeongtest.NewWith(t, jajeongtest.Options{
		Redis: &testenv.RedisHandle{Addrs: []string{addr}, Client: client}, MySQL: jajeongtest.DatabaseOn(t, n.mysql),
	})
	n.settings = map[string]string{"REDIS_ADDRS": addr, "REDIS_TLS": "false",
		"CONSOLE_TRUSTED_PROXIES": "127.0.0.0/8", "CONSOLE_ROLES": "sre=operator",
		"PUSH_GATEWAY": "http://127.0.0.1:9"} // nothing listens there, which is no failure
	t.Cleanup(n.tearDown)
	return n
}

// tearDown deletes the namespace before the servers stop. After a failure it logs the state of the cluster.
func (n *night) tearDown() {
	if n.t.Failed() {
		for _, args := range [][]string{{"get", "cronjobs,jobs,pods", "-o", "wide"},
			{"get", "events", "--sort-by=.lastTimestamp"}} {
			out, _ := n.command("kubectl", args...).CombinedOutput() // errors are part of the output
			n.t.Logf("kubectl %s:\n%s", strings.Join(args, " "), out)
		}
		pods, err := kube.client.CoreV1().Pods(n.namespace).List(context.Background(), metav1.ListOptions{})
		if err == nil {
			for i := range pods.Items {
				n.t.Logf("output of pod %s:\n%s", pods.Items[i].Name, kube.node.output(&pods.Items[i]))
			}
		}
	}
	now := int64(0)
	ctx := process.PatientCleanUp(n.t)
	_ = kube.client.BatchV1().CronJobs(n.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err := kube.client.CoreV1().Namespaces().Delete(ctx, n.namespace, metav1.DeleteOptions{}); err != nil {
		n.t.Logf("delete namespace: %v", err) // the test may have failed before its creation
	}
	_ = kube.client.CoreV1().Pods(n.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now},
		metav1.ListOptions{})
}

// manifests writes a kustomization with the overlay, its components, and other settings, Secrets and schedule into a
// folder.
func (n *night) manifests(schedule string, components []string, patches ...map[string]any) (dir string) {
	n.t.Helper()
	dir = n.t.TempDir()
	k8s, err := filepath.Abs("..")
	require.NoError(n.t, err)
	from, err := filepath.EvalSymlinks(dir)
	require.NoError(n.t, err)
	k8s, err = filepath.Rel(from, k8s)
	require.NoError(n.t, err)
	settingsOf := maps.Clone(n.settings)
	if len(components) > 0 {
		maps.Copy(settingsOf, n.overTLS)
	}
	for i := range components {
		components[i] = filepath.Join(k8s, "components", components[i])
	}

	behavior := "create"
	if n.overlay == "dev" { // it has public Secrets, and servers that this node cannot run
		behavior = "replace"
		for _, server := range []string{"redis", "mysql"} {
			patches =
				append(patches,
					map[string]any{
						"patch": fmt.Sprintf(
							`{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": %q}, `+
								`"$patch": "delete"}`, server)})
		}
	}
	secret := func(name, account string, more ...string) map[string]any {
		return map[string]any{"name": name, "behavior": behavior,
			"literals": append(more, "mysql-dsn="+n.Accounts[account]),
			"options":  map[string]any{"disableNameSuffixHash": true}}
	}
	var settings []string
	for name, value := range settingsOf {
		settings = append(settings, name+"="+value)
	}
	var certificates []any
	for _, server := range []string{"redis", "event-redis", "mysql"} {
		var files []string
		for name, content := range n.authority.Files() {
			files = append(files, name+"="+string(content))
		}
		certificates = append(certificates, map[string]any{"name": "jajeong-" + server + "-tls",
			"type": "kubernetes.io/tls", "literals": files,
			"options": map[string]any{"disableNameSuffixHash": true}})
	}
	password := "redis-password=" + redisPassword
	patches = append(patches, patch("batch/v1", "CronJob", "settle", map[string]any{"schedule": schedule}))
	kustomization, err := json.Marshal(map[string]any{ // JSON is YAML
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"namespace":  n.namespace,
		"resources":  []string{filepath.Join(k8s, "overlays", n.overlay)},
		"components": components,
		"configMapGenerator": []any{map[string]any{"name": "settings", "behavior": "merge",
			"literals": settings}},
		"secretGenerator": append(certificates, secret("jajeong-api", "jajeong_api", password),
			secret("jajeong-settle", "jajeong_settle", password),
			secret("jajeong-wallet", "jajeong_wallet", "service-keys="+serviceKeys),
			secret("jajeong-migrate", "jajeong_migrate"),
			secret("jajeong-privacy", "jajeong_privacy", password),
			secret("jajeong-console", "jajeong_operator", password, "admin-keys="+adminKeys)),
		"patches": patches,
	})
	require.NoError(n.t, err)
	require.NoError(n.t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), kustomization, 0o600))
	return dir
}

// patch changes the spec of one object.
func patch(apiVersion, kind, name string, spec map[string]any) map[string]any {
	text, err := json.Marshal(map[string]any{"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": spec})
	if err != nil {
		panic(err)
	}
	return map[string]any{"patch": string(text)}
}

// applyJobs applies the CronJobs, with a schedule of settle. It starts no Deployment, because all Pods of this node
// share its ports: all applications exist before.
func (n *night) applyJobs(schedule string) {
	n.t.Helper()
	rendered := n.kubectl("kustomize", n.manifests(schedule, nil))
	n.kubectlWith(rendered, "apply", "--filename=-",
		"--selector=app.kubernetes.io/component notin (apply-api, wallet-api, settle-serve, migrate)")
}

// applyWithNextMinute is applyJobs with the next minute in Seoul as the schedule. It returns that minute.
func (n *night) applyWithNextMinute() (midnight time.Time) {
	n.t.Helper()
	for toApply := 15 * time.Second; ; toApply *= 2 {
		midnight = time.Now().In(jajeongtest.Zone).Add(toApply).Truncate(time.Minute).Add(time.Minute)
		schedule := fmt.Sprintf("%d %d * * *", midnight.Minute(), midnight.Hour())
		n.applyJobs(schedule)
		if time.Now().Before(midnight) || len(n.jobs()) > 0 {
			return midnight
		} // otherwise the minute has passed, and the CronJob would wait for the next day
	}
}

// kubectl runs kubectl as an administrator, and must succeed.
func (n *night) kubectl(args ...string) (stdout string) {
	n.t.Helper()
	return n.kubectlWith("", args...)
}

func (n *night) kubectlWith(stdin string, args ...string) (stdout string) {
	n.t.Helper()
	var out, errs bytes.Buffer
	cmd := n.command("kubectl", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	require.NoError(n.t, cmd.Run(), "kubectl %s: %s", strings.Join(args, " "), errs.String())
	return out.String()
}

// command runs a program with the kubectl of this test first in PATH.
func (n *night) command(name string, args ...string) *exec.Cmd {
	return command(n.t, n.namespace, name, args...)
}

func command(t *testing.T, namespace, name string, args ...string) *exec.Cmd {
	if name == "kubectl" {
		name, args = filepath.Join(kube.programs, name), append([]string{"--namespace=" + namespace}, args...)
	}
	cmd := exec.CommandContext(process.PatientCleanUp(t), name, args...) // also at the end of the test
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kube.kubeconfig, "NAMESPACE="+namespace,
		"PATH="+kube.programs+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return cmd
}

func (n *night) await(what string, cond func(ctx context.Context) bool) {
	n.t.Helper()
	testenv.Eventually(n.t, what, func() bool { return cond(n.t.Context()) })
}

// jobs returns the Jobs of the namespace by creation time.
func (n *night) jobs() []batchv1.Job {
	n.t.Helper()
	jobs, err := kube.client.BatchV1().Jobs(n.namespace).List(n.t.Context(), metav1.ListOptions{})
	require.NoError(n.t, err)
	return jobs.Items
}

// scheduled waits for the Job that the CronJob controller creates for this minute.
func (n *night) scheduled(at time.Time) (name string) {
	n.t.Helper()
	n.await("the CronJob has made its Job", func(context.Context) bool {
		jobs := n.jobs()
		if len(jobs) == 0 {
			return false
		}
		require.Len(n.t, jobs, 1)
		name = jobs[0].Name
		require.False(n.t, jobs[0].CreationTimestamp.Time.Before(at.Truncate(time.Second)), "before its time")
		require.Equal(n.t, at.Format(time.RFC3339), jobs[0].Annotations[batchv1.CronJobScheduledTimestampAnnotation])
		return true
	})
	return name
}

// ended waits until a Job has ended and returns it.
func (n *night) ended(name string) (job *batchv1.Job) {
	n.t.Helper()
	n.await("job "+name+" has ended", func(ctx context.Context) bool {
		var err error
		job, err = kube.client.BatchV1().Jobs(n.namespace).Get(ctx, name, metav1.GetOptions{})
		require.NoError(n.t, err)
		return condition(job, batchv1.JobComplete) != nil || condition(job, batchv1.JobFailed) != nil
	})
	return job
}

func condition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i, c := range job.Status.Conditions {
		if c.Type == kind && c.Status == v1.ConditionTrue {
			return &job.Status.Conditions[i]
		}
	}
	return nil
}

// complete waits until a Job has succeeded.
func (n *night) complete(name string) *batchv1.Job {
	n.t.Helper()
	job := n.ended(name)
	require.NotNil(n.t, condition(job, batchv1.JobComplete), "%+v", job.Status)
	require.EqualValues(n.t, 1, job.Status.Succeeded)
	return job
}

// pods returns the Pods of a Job, ended ones included.
func (n *night) pods(job string) []v1.Pod {
	n.t.Helper()
	pods, err := kube.client.CoreV1().Pods(n.namespace).List(n.t.Context(),
		metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job})
	require.NoError(n.t, err)
	return pods.Items
}

// running waits until a Pod of a Job runs.
func (n *night) running(job string) (found *v1.Pod) {
	n.t.Helper()
	return n.pod(job, "runs", func(pod *v1.Pod) bool { return pod.Status.Phase == v1.PodRunning })
}

func (n *night) pod(job, what string, is func(*v1.Pod) bool) (found *v1.Pod) {
	n.t.Helper()
	n.await("a Pod of job "+job+" "+what, func(context.Context) bool {
		for _, pod := range n.pods(job) {
			if is(&pod) {
				found = &pod
				return true
			}
		}
		return false
	})
	return found
}

// exitCode returns the exit code of an ended Pod, and -1 before.
func exitCode(pod *v1.Pod) int32 {
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Terminated != nil {
			return c.State.Terminated.ExitCode
		}
	}
	return -1
}

// verify starts a Job of the CronJob verify.
func (n *night) verify(name string) *batchv1.Job {
	n.t.Helper()
	n.kubectl("create", "job", name, "--from=cronjob/verify")
	return n.ended(name)
}

// mustHold demands that every invariant holds.
func (n *night) mustHold() {
	n.t.Helper()
	job := n.verify("verify-now")
	require.NotNil(n.t, condition(job, batchv1.JobComplete), "%+v", job.Status)
}
