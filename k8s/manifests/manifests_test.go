package manifests_test

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/types"
)

func TestOverlays_HaveAllResources(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, c *cluster) {
		require.Len(t, c.namespaces, 1)
		security := "pod-security.kubernetes.io/"
		require.Equal(t, "restricted", c.namespaces[0].Labels[security+"enforce"])
		require.Equal(t, testedKubernetes(t), c.namespaces[0].Labels[security+"enforce-version"],
			"an upgrade of the cluster would change the rules")
		require.Equal(t, "latest", c.namespaces[0].Labels[security+"warn-version"])
		require.Contains(t, c.deployments, "apply-api")
		require.Contains(t, c.deployments, "settle-serve")
		require.Contains(t, c.deployments, "wallet-api")
		require.Contains(t, c.cronJobs, "settle")
		require.Contains(t, c.cronJobs, "verify")
		require.Contains(t, c.jobs, "migrate")
		require.Len(t, c.autoscalers, 2)
		require.Len(t, c.budgets, 3)
		wanted := []string{"apply-api", "wallet-api", "settle serve --tasks issue,journal,events", "settle run",
			"settle verify", "settle migrate"}
		if _, ok := c.deployments["console"]; ok {
			wanted = append(wanted, "settle console", "settle purge --yes")
		}
		var args []string
		for _, pod := range c.own() {
			args = append(args, strings.Join(slices.Concat(pod.Spec.Containers[0].Command, pod.Spec.Containers[0].Args),
				" "))
		}
		require.ElementsMatch(t, wanted, args)
	})
}

// k8s/deploy.sh updates what has the label after the migration, and everything else before. Redis and MySQL of dev come
// before.
func TestPrograms_ComeAfterTheMigration(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, c *cluster) {
		own := c.own()
		require.NotEmpty(t, own)
		for name, labels := range c.labels {
			of := path.Base(name)
			if of == managementAPI { // a Service of the console
				of = "console"
			}
			_, program := own[of]
			program = program && slices.Contains([]string{"Deployment", "CronJob", "Service", "HorizontalPodAutoscaler",
				"PodDisruptionBudget"}, path.Dir(name))
			require.Equal(t, program, labels["jajeong.io/role"] == "program", name)
		}
	})
}

// testedKubernetes is the Kubernetes version of k8s/e2e, in the form of a namespace label.
func testedKubernetes(t *testing.T) string {
	t.Helper()
	mod := content(t, "k8s", "e2e", "kubernetes", "go.mod")
	version := regexp.MustCompile(`k8s\.io/kubernetes (v1\.\d+)\.`).FindSubmatch(mod)
	require.NotNil(t, version)
	return string(version[1])
}

func TestPods_HaveLeastPrivilege(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, c *cluster) {
		for name, pod := range c.pods() {
			spec, context := pod.Spec, pod.Spec.SecurityContext
			require.Equal(t, new(false), spec.AutomountServiceAccountToken, name)
			require.Equal(t, new(false), spec.EnableServiceLinks, name)
			require.False(t, spec.HostNetwork || spec.HostPID || spec.HostIPC, name)
			require.NotNil(t, context, name)
			require.Equal(t, new(true), context.RunAsNonRoot, name)
			require.Positive(t, *context.RunAsUser, name)
			require.Positive(t, *context.RunAsGroup, name)
			require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, context.SeccompProfile.Type, name)
			require.Empty(t, spec.InitContainers, name)
			require.Len(t, spec.Containers, 1, name)
			container := spec.Containers[0]
			require.Equal(t, &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}, container.SecurityContext, name)
			for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				request, limit := container.Resources.Requests[resource], container.Resources.Limits[resource]
				require.Positive(t, request.Sign(), "%s requests no %s", name, resource)
				require.GreaterOrEqual(t, limit.Cmp(request), 0, "%s: %s", name, resource)
			}
			for _, volume := range spec.Volumes {
				require.True(t, volume.Secret != nil || volume.ConfigMap != nil || volume.EmptyDir != nil, "%s: %s",
					name, volume.Name)
			}
		}
	})
}

func TestOwnPods_GracePeriodAccountMemory(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, c *cluster) {
		delay, err := time.ParseDuration(c.settings["SHUTDOWN_DELAY"])
		require.NoError(t, err)
		const answers, settlements = 20 * time.Second, 25 * time.Second // httpapi.answerWithin, cli.Grace
		images := map[string]bool{}
		for name, pod := range c.own() {
			spec, container := pod.Spec, pod.Spec.Containers[0]
			images[container.Image] = true
			require.Greater(t, time.Duration(*spec.TerminationGracePeriodSeconds)*time.Second,
				max(delay+answers, settlements), "%s is killed before its grace period ends", name)

			at := slices.IndexFunc(c.accounts,
				func(a corev1.ServiceAccount) bool { return a.Name == spec.ServiceAccountName })
			require.GreaterOrEqual(t, at, 0, "%s: the account %s does not exist", name, spec.ServiceAccountName)
			require.Equal(t, new(false), c.accounts[at].AutomountServiceAccountToken, spec.ServiceAccountName)

			_, pushes := c.reach(t, pod.Labels, false)["9091"]
			require.Equal(t, pushes, slices.ContainsFunc(container.Env,
				func(e corev1.EnvVar) bool { return e.Name == "PUSH_NAMESPACE" }),
				"%s: another deployment would overwrite its metrics", name)

			limit := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
			require.GreaterOrEqual(t, limit, 0, name)
			require.Equal(t, "requests.memory", container.Env[limit].ValueFrom.ResourceFieldRef.Resource, name)
			require.Zero(t, container.Env[limit].ValueFrom.ResourceFieldRef.Divisor.Value(),
				"%s: GOMEMLIMIT is in bytes", name)
			share := float64(container.Resources.Requests.Memory().
				Value()) / float64(container.Resources.Limits.Memory().Value())
			require.LessOrEqual(t, share, 0.9, "%s: the limit leaves no space for memory that Go does not count", name)
		}
		require.Len(t, images, 1, "all programs are in one image")
	})
}

// Secrets are files only, and every file of a setting is mounted.
func TestSecretsAreFiles(t *testing.T) {
	t.Parallel()
	keys := map[string][]string{ // the same list as in prod/kustomization.yaml and docs/deploy.md
		"jajeong-api":     {"mysql-dsn", "redis-password"},
		"jajeong-settle":  {"mysql-dsn", "redis-password"},
		"jajeong-wallet":  {"mysql-dsn", "service-keys"},
		"jajeong-migrate": {"mysql-dsn"},
		"jajeong-console": {"mysql-dsn", "redis-password", "admin-keys"},
		"jajeong-privacy": {"mysql-dsn", "redis-password"},
	}
	everywhere(t, func(t *testing.T, c *cluster) {
		for name, pod := range c.own() {
			pod = withoutCertificates(t, pod)
			container := pod.Spec.Containers[0]
			volumes := 2
			if name == "apply-api" || name == "wallet-api" { // they check tokens
				last := len(pod.Spec.Volumes) - 1
				volumes++
				require.Equal(t, &corev1.SecretVolumeSource{SecretName: "jajeong-identity",
					DefaultMode: new(int32(0o440)), Optional: new(true)},
					pod.Spec.Volumes[last].Secret, "%s: tokens are possible", name)
				require.Equal(t, corev1.VolumeMount{Name: pod.Spec.Volumes[last].Name,
					MountPath: "/run/secrets/identity", ReadOnly: true}, container.VolumeMounts[last], name)
			}
			if name == "apply-api" || name == "settle" || name == "console" { // they sign and check receipts
				volumes++
				require.Equal(t, &corev1.SecretVolumeSource{SecretName: "jajeong-receipts",
					DefaultMode: new(int32(0o440)), Optional: new(true)},
					pod.Spec.Volumes[2].Secret, "%s: receipts are possible", name)
				require.Equal(t, corev1.VolumeMount{Name: pod.Spec.Volumes[2].Name, MountPath: "/run/secrets/receipts",
					ReadOnly: true}, container.VolumeMounts[2], name)
			}
			require.Len(t, pod.Spec.Volumes, volumes, name)
			require.Equal(t,
				&corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "jajeong-ca"},
					Optional: new(true)},
				pod.Spec.Volumes[1].ConfigMap, "%s: a private CA is possible", name)
			require.Equal(t, pod.Spec.Volumes[1].Name, container.VolumeMounts[1].Name, name)
			require.Contains(t, container.Env, corev1.EnvVar{Name: "SSL_CERT_DIR",
				Value: container.VolumeMounts[1].MountPath}, name)
			volume := pod.Spec.Volumes[0].Secret
			require.Equal(t, int32(0o440), *volume.DefaultMode, "%s: others may read the secrets", name)
			require.Positive(t, *pod.Spec.SecurityContext.FSGroup, "%s could not read them", name)
			require.Equal(t, pod.Spec.Volumes[0].Name, container.VolumeMounts[0].Name, name)
			generated := slices.IndexFunc(c.secrets, func(s corev1.Secret) bool { return s.Name == volume.SecretName })
			known := keys[volume.SecretName]
			if generated >= 0 {
				known = nil
				for key := range c.secrets[generated].Data {
					known = append(known, key)
				}
			}
			require.NotEmpty(t, known, "%s: the Secret %s is undefined", name, volume.SecretName)
			for _, env := range container.Env {
				require.True(t, env.ValueFrom == nil || env.ValueFrom.SecretKeyRef == nil,
					"%s: %s is a secret in the environment", name, env.Name)
				if strings.HasSuffix(env.Name, "_FILE") {
					require.Equal(t, container.VolumeMounts[0].MountPath, path.Dir(env.Value), "%s: %s", name, env.Name)
					require.Contains(t, known, path.Base(env.Value), "%s: %s", name, env.Name)
				}
			}
			for _, setting := range []string{"MYSQL_DSN", "REDIS_PASSWORD", "SERVICE_KEYS"} {
				require.NotContains(t, c.settings, setting)
			}
		}
	})
	require.Empty(t, render(t, "prod").secrets, "the repository has no production secrets")
}

// certificates are the settings of the components that mount certificates, by their Secret.
var certificates = map[string]string{
	"jajeong-redis-tls": "REDIS_TLS_DIR", "jajeong-event-redis-tls": "EVENT_REDIS_TLS_DIR",
	"jajeong-mysql-tls": "MYSQL_TLS_DIR",
}

// withoutCertificates returns the pod without what the components add, which is last.
func withoutCertificates(t *testing.T, pod corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	t.Helper()
	pod = *pod.DeepCopy()
	volumes, mounts := &pod.Spec.Volumes, &pod.Spec.Containers[0].VolumeMounts
	for last := len(*volumes) - 1; ; last-- {
		secret := (*volumes)[last].Secret
		if secret == nil || certificates[secret.SecretName] == "" {
			return pod
		}
		require.Equal(t, (*volumes)[last].Name, (*mounts)[last].Name)
		*volumes, *mounts = (*volumes)[:last], (*mounts)[:last]
	}
}

// Each program that connects to a server has the certificates for it. They are mandatory: a pod without the Secret does
// not start.
func TestCertificates_AreMountedWhereTheyAreUsed(t *testing.T) {
	t.Parallel()
	wanted := map[string][]string{
		"jajeong-redis-tls":       {"apply-api", "console", "purge", "settle", "settle-serve", "verify"},
		"jajeong-event-redis-tls": {"settle", "settle-serve"}, // settle: k8s/settle.sh events replay
		"jajeong-mysql-tls": {"apply-api", "console", "migrate", "purge", "settle", "settle-serve", "verify",
			"wallet-api"},
	}
	everywhere(t, func(t *testing.T, c *cluster) {
		with := map[string][]string{}
		for name, pod := range c.pods() {
			container := pod.Spec.Containers[0]
			for _, volume := range pod.Spec.Volumes {
				if volume.Secret == nil || certificates[volume.Secret.SecretName] == "" {
					continue
				}
				secret := volume.Secret
				require.Equal(t, &corev1.SecretVolumeSource{SecretName: secret.SecretName,
					DefaultMode: new(int32(0o440))}, secret)
				at := slices.IndexFunc(container.VolumeMounts,
					func(m corev1.VolumeMount) bool { return m.Name == volume.Name })
				require.GreaterOrEqual(t, at, 0, name)
				mount := container.VolumeMounts[at]
				require.Equal(t, corev1.VolumeMount{Name: volume.Name, MountPath: mount.MountPath, ReadOnly: true},
					mount, "a subPath would not be renewed")
				require.Contains(t, container.Env, corev1.EnvVar{Name: certificates[secret.SecretName],
					Value: mount.MountPath}, name)
				with[secret.SecretName] = append(with[secret.SecretName], name)
			}
		}
		if _, components := c.deployments["console"]; !components {
			require.Empty(t, with)
			return
		}
		for _, names := range with {
			slices.Sort(names)
		}
		require.Equal(t, wanted, with)
	})
}

func TestJobsFollowTheExitCodes(t *testing.T) {
	t.Parallel()
	codes := constants(t, root+"/internal/cli/cli.go")
	require.Equal(t, []int32{0, 1, 2, 3}, []int32{codes["exitDone"], codes["exitInfrastructure"], codes["exitUse"],
		codes["exitInvariant"]})
	everywhere(t, func(t *testing.T, c *cluster) {
		jobs := map[string]batchv1.JobSpec{"migrate": c.jobs["migrate"].Spec}
		for name, cron := range c.cronJobs {
			jobs[name] = cron.Spec.JobTemplate.Spec
		}
		require.Len(t, jobs, 1+len(c.cronJobs))
		require.GreaterOrEqual(t, len(jobs), 3)
		for name, job := range jobs {
			require.Equal(t, corev1.RestartPolicyNever, job.Template.Spec.RestartPolicy, name)
			require.Equal(t, []batchv1.PodFailurePolicyRule{
				{
					Action: batchv1.PodFailurePolicyActionIgnore,
					OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget,
						Status: corev1.ConditionTrue}},
				},
				{
					Action: batchv1.PodFailurePolicyActionFailJob,
					OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
						ContainerName: new(name), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn,
						Values: []int32{codes["exitUse"], codes["exitInvariant"]},
					},
				},
				{
					Action: batchv1.PodFailurePolicyActionCount,
					OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
						ContainerName: new(name), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn,
						Values: []int32{codes["exitInfrastructure"]},
					},
				},
			}, job.PodFailurePolicy.Rules, name)
			require.Equal(t, name, job.Template.Spec.Containers[0].Name)
			require.Positive(t, *job.BackoffLimit, name)
			if name == "migrate" {
				require.Nil(t, job.ActiveDeadlineSeconds,
					"a statement that is stopped in the middle begins again, and would never end")
			} else {
				require.Positive(t, *job.ActiveDeadlineSeconds, name)
			}
			require.GreaterOrEqual(t, *job.TTLSecondsAfterFinished, int32(24*60*60),
				"%s is deleted before an operator can look at it", name)
		}
	})
}

func TestNightlyCronJobs(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, c *cluster) {
		for name, cron := range c.cronJobs {
			spec := cron.Spec
			require.Equal(t, c.settings["SETTLE_TIME_ZONE"], *spec.TimeZone,
				"%s starts at one midnight and settles another", name)
			require.Equal(t, batchv1.ForbidConcurrent, spec.ConcurrencyPolicy, name)
			require.Equal(t, int64(21600), *spec.StartingDeadlineSeconds, name)
			require.Positive(t, *spec.SuccessfulJobsHistoryLimit, name)
			require.Positive(t, *spec.FailedJobsHistoryLimit, name)
			day := int64(24 * 60 * 60)
			require.Less(t, *spec.StartingDeadlineSeconds+*spec.JobTemplate.Spec.ActiveDeadlineSeconds, day,
				"%s may still be at work in the next night", name)
		}
		require.Equal(t, "0 0 * * *", c.cronJobs["settle"].Spec.Schedule)
		require.Equal(t, "Asia/Seoul", *c.cronJobs["settle"].Spec.TimeZone)
	})
}

// The memory of an apply-api pod in `bench apply`: 34 to 47 MiB idle, 364 MiB with 5,000 connections.
const (
	idlePod        = 47 << 20
	eachConnection = 70 << 10
	eachStream     = 32 << 10
)

func TestApplyAPI(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, c *cluster) {
		c.mustServe(t, "apply-api", map[string]int32{"http": 8080, "live": 8081, "admin": 9090})
	})
}

func TestWalletAPI(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, c *cluster) {
		pod := c.mustServe(t, "wallet-api", map[string]int32{"http": 8082, "admin": 9092})
		require.Regexp(t, "^jajeong-wallet(-|$)", pod.Spec.Volumes[0].Secret.SecretName,
			"an account that can issue nothing")
		require.Empty(t, pod.Spec.Volumes[0].Secret.Items)
		require.Empty(t, pod.Spec.Containers[0].VolumeMounts[0].SubPath,
			"Kubernetes would not update a rotated key in the pod")
		require.False(t, slices.ContainsFunc(pod.Spec.Containers[0].Env,
			func(e corev1.EnvVar) bool { return strings.HasPrefix(e.Name, "REDIS_") }),
			"checkout does not depend on Redis")
	})
}

// mustServe demands all that a program with a public port needs, and returns its pod.
func (c *cluster) mustServe(t *testing.T, name string, listens map[string]int32) corev1.PodTemplateSpec {
	t.Helper()
	deployment := c.deployments[name]
	require.Nil(t, deployment.Spec.Replicas, "the autoscaler owns them")
	require.Zero(t, deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue())
	pod, container := deployment.Spec.Template, deployment.Spec.Template.Spec.Containers[0]

	at := slices.IndexFunc(c.autoscalers, func(a autoscalingv2.HorizontalPodAutoscaler) bool { return a.Name == name })
	require.GreaterOrEqual(t, at, 0)
	scaler := c.autoscalers[at].Spec
	require.Equal(t, "Deployment/"+name, scaler.ScaleTargetRef.Kind+"/"+scaler.ScaleTargetRef.Name)
	require.LessOrEqual(t, *scaler.MinReplicas, scaler.MaxReplicas)
	require.Equal(t, 1, c.budget(t, pod.Labels).MaxUnavailable.IntValue())
	mustBeSpread(t, pod)
	require.Equal(t, listens, ports(container))
	require.Equal(t, fmt.Sprint(listens["admin"]), pod.Annotations["prometheus.io/port"])
	var streams int64
	if _, ok := listens["live"]; ok {
		var err error
		streams, err = strconv.ParseInt(c.settings["MAX_STREAMS"], 10, 64)
		require.NoError(t, err)
	}
	require.Less(t, idlePod+c.connections(t, container)*eachConnection+streams*eachStream,
		container.Resources.Requests.Memory().Value(),
		"GOMEMLIMIT is the request: with less memory, the garbage collector would run without pause in a stampede")
	require.Equal(t, "admin", container.LivenessProbe.HTTPGet.Port.StrVal)
	require.Equal(t, "admin", container.ReadinessProbe.HTTPGet.Port.StrVal)
	for _, service := range c.services {
		for _, port := range service.Spec.Ports {
			require.NotEqual(t, "admin", port.TargetPort.StrVal, "the admin port is never public")
			require.NotEqual(t, int(listens["admin"]), port.TargetPort.IntValue(), "the admin port is never public")
		}
	}
	at = slices.IndexFunc(c.services, func(s corev1.Service) bool { return s.Name == name })
	require.GreaterOrEqual(t, at, 0)
	require.Equal(t, "http", c.services[at].Spec.Ports[0].TargetPort.StrVal)
	require.True(t, matches(t, &metav1.LabelSelector{MatchLabels: c.services[at].Spec.Selector}, pod.Labels))
	return pod
}

// connections is how many connections a container has at most: MAX_CONNECTIONS, and those above it that get a refusal.
func (c *cluster) connections(t *testing.T, container corev1.Container) int64 {
	t.Helper()
	limit := c.settings["MAX_CONNECTIONS"]
	for _, env := range container.Env {
		if env.Name == "MAX_CONNECTIONS" {
			limit = env.Value
		}
	}
	connections, err := strconv.ParseInt(limit, 10, 64)
	require.NoError(t, err)
	return connections + int64(constants(t, "../../internal/httpapi/connections.go")["maxSurplus"])
}

func TestSettleServe(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, c *cluster) {
		deployment := c.deployments["settle-serve"]
		require.Equal(t, new(int32(2)), deployment.Spec.Replicas)
		require.Zero(t, deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue())
		require.Positive(t, deployment.Spec.Strategy.RollingUpdate.MaxSurge.IntValue())
		pod, container := deployment.Spec.Template, deployment.Spec.Template.Spec.Containers[0]
		require.Equal(t, 1, c.budget(t, pod.Labels).MinAvailable.IntValue())
		mustBeSpread(t, pod)
		require.Equal(t, map[string]int32{"admin": 9090}, ports(container))
		require.Contains(t, container.Env, corev1.EnvVar{Name: "ADMIN_LISTEN", Value: ":9090"})
		require.Regexp(t, "^jajeong-settle(-|$)", pod.Spec.Volumes[0].Secret.SecretName, "the account of settle")
		for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe,
			container.ReadinessProbe} {
			require.Equal(t, "admin", probe.HTTPGet.Port.StrVal)
		}
		require.False(t, slices.ContainsFunc(c.services, func(s corev1.Service) bool {
			return matches(t, &metav1.LabelSelector{MatchLabels: s.Spec.Selector}, pod.Labels)
		}), "the admin port is never public")
		require.NotEmpty(t, c.settings["ISSUE_INTERVAL"], "both programs have the same interval")
		require.Equal(t, "none", c.settings["EVENT_SINK"], "nothing is published that nobody asked for")
	})
}

// budget returns the only disruption budget of the pods with these labels.
func (c *cluster) budget(t *testing.T, labels map[string]string) policyv1.PodDisruptionBudgetSpec {
	t.Helper()
	all := slices.DeleteFunc(slices.Clone(c.budgets),
		func(b policyv1.PodDisruptionBudget) bool { return !matches(t, b.Spec.Selector, labels) })
	require.Len(t, all, 1)
	require.Equal(t, new(policyv1.AlwaysAllow), all[0].Spec.UnhealthyPodEvictionPolicy)
	return all[0].Spec
}

// mustBeSpread demands that the pods spread over zones and nodes.
func mustBeSpread(t *testing.T, pod corev1.PodTemplateSpec) {
	t.Helper()
	var spread []string
	for _, constraint := range pod.Spec.TopologySpreadConstraints {
		require.True(t, matches(t, constraint.LabelSelector, pod.Labels))
		spread = append(spread, constraint.TopologyKey)
	}
	require.Equal(t, []string{"topology.kubernetes.io/zone", "kubernetes.io/hostname"}, spread)
}

// ports returns the ports of a container by name.
func ports(container corev1.Container) map[string]int32 {
	named := map[string]int32{}
	for _, port := range container.Ports {
		named[port.Name] = port.ContainerPort
	}
	return named
}

// reach returns the peers that may connect to a port of the pods with these labels, or to which these pods may connect.
func (c *cluster) reach(t *testing.T, labels map[string]string, ingress bool) (peers map[string][]string) {
	t.Helper()
	peers = map[string][]string{}
	add := func(ports []networkingv1.NetworkPolicyPort, from []networkingv1.NetworkPolicyPeer) {
		require.NotEmpty(t, ports, "a policy that opens every port")
		require.NotEmpty(t, from, "a policy that opens a port to everybody")
		for _, port := range ports {
			for _, peer := range from {
				var source string
				switch {
				case peer.IPBlock != nil:
					require.NotEqual(t, "0.0.0.0/0", peer.IPBlock.CIDR)
					source = peer.IPBlock.CIDR
				case peer.NamespaceSelector != nil:
					source = "namespace " + peer.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"]
				default:
					for name, pod := range c.pods() {
						if matches(t, peer.PodSelector, pod.Labels) {
							peers[port.Port.String()] = append(peers[port.Port.String()], name)
						}
					}
					continue
				}
				peers[port.Port.String()] = append(peers[port.Port.String()], source)
			}
		}
	}
	for _, policy := range c.policies {
		if !matches(t, &policy.Spec.PodSelector, labels) {
			continue
		}
		if ingress {
			for _, rule := range policy.Spec.Ingress {
				add(rule.Ports, rule.From)
			}
			continue
		}
		for _, rule := range policy.Spec.Egress {
			add(rule.Ports, rule.To)
		}
	}
	for _, source := range peers {
		slices.Sort(source)
	}
	return peers
}

func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	servers := map[string]struct{ redis, mysql, kafka string }{
		"dev+components":  {"redis", "mysql", ""},
		"prod+components": {"10.20.0.0/24", "10.20.1.0/24", "10.20.2.0/24"},
	}
	for overlay, at := range servers {
		t.Run(overlay, func(t *testing.T) {
			t.Parallel()
			c := render(t, overlay)
			require.True(t, slices.ContainsFunc(c.policies, func(p networkingv1.NetworkPolicy) bool {
				return len(p.Spec.PodSelector.MatchLabels)+len(p.Spec.PodSelector.MatchExpressions)+len(
					p.Spec.Ingress)+len(p.Spec.Egress) == 0 &&
					slices.Equal(p.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress,
						networkingv1.PolicyTypeEgress})
			}), "what is not allowed is denied")
			dns := []string{"169.254.20.10/32", "namespace kube-system", "169.254.20.10/32", "namespace kube-system"}
			slices.Sort(dns)
			pods := c.pods()
			require.Equal(t, map[string][]string{"http": {"namespace ingress-nginx"},
				"live": {"namespace ingress-nginx"}, "admin": {"namespace monitoring"}},
				c.reach(t, pods["apply-api"].Labels, true))
			require.Equal(t, map[string][]string{"http": {"namespace checkout", "namespace ingress-nginx"},
				"admin": {"namespace monitoring"}}, c.reach(t, pods["wallet-api"].Labels, true))
			require.Equal(t, map[string][]string{"53": dns, "3306": {at.mysql}},
				c.reach(t, pods["wallet-api"].Labels, false), "no Redis")
			require.Equal(t, map[string][]string{"admin": {"namespace monitoring"}},
				c.reach(t, pods["settle-serve"].Labels, true))
			require.Equal(t, map[string][]string{"53": dns, "6379": {at.redis}, "3306": {at.mysql}},
				c.reach(t, pods["apply-api"].Labels, false))
			events := map[string][]string{"53": dns, "6379": {at.redis}, "3306": {at.mysql}}
			if at.kafka != "" {
				events["9092"] = []string{at.kafka}
			}
			require.Equal(t, events, c.reach(t, pods["settle-serve"].Labels, false))
			events["9091"] = []string{"namespace monitoring"}
			require.Equal(t, events, c.reach(t, pods["settle"].Labels, false))
			for _, job := range []string{"verify", "purge"} {
				require.Equal(t, map[string][]string{"53": dns, "6379": {at.redis}, "3306": {at.mysql},
					"9091": {"namespace monitoring"}}, c.reach(t, pods[job].Labels, false), job)
			}
			require.Equal(t, map[string][]string{"53": dns, "3306": {at.mysql}},
				c.reach(t, pods["migrate"].Labels, false))
			for _, job := range []string{"settle", "verify", "purge", "migrate"} {
				require.Empty(t, c.reach(t, pods[job].Labels, true), job)
			}
			require.Equal(t, map[string][]string{"http": {"namespace ingress-nginx"},
				"admin": {"namespace monitoring"}, "api": {"namespace campaigns"}},
				c.reach(t, pods["console"].Labels, true))
			require.Equal(t, map[string][]string{"53": dns, "6379": {at.redis}, "3306": {at.mysql},
				"443": {"10.0.0.0/8"}, "9091": {"namespace monitoring"}}, c.reach(t, pods["console"].Labels, false))
			if at.redis == "redis" { // they accept what the programs may send
				require.Equal(t, map[string][]string{"redis": {"apply-api", "console", "purge", "settle",
					"settle-serve",
					"verify"}}, c.reach(t, pods["redis"].Labels, true))
				require.Equal(t, map[string][]string{"mysql": {"apply-api", "console", "migrate", "purge", "settle",
					"settle-serve", "verify", "wallet-api"}}, c.reach(t, pods["mysql"].Labels, true))
			}
		})
	}
}

// The prod overlay names every peer outside the namespace, so that a reader can replace it.
func TestProd_NamesAllPeers(t *testing.T) {
	t.Parallel()
	text := content(t, "k8s", "overlays", "prod", "kustomization.yaml")
	var replaced []string
	for _, patch := range read[types.Kustomization](t, text).Patches {
		if patch.Target != nil && patch.Target.Kind == "NetworkPolicy" {
			replaced = append(replaced, patch.Target.Name)
		}
	}
	require.ElementsMatch(t, []string{"redis", "mysql", "kafka", "apply", "wallet", "admin", "pushgateway"}, replaced)
	var outward []string
	for _, policy := range render(t, "prod").policies {
		if policy.Name != "default-deny" && policy.Name != "dns" { // the same in every cluster
			outward = append(outward, policy.Name)
		}
	}
	require.ElementsMatch(t, outward, replaced)
}
