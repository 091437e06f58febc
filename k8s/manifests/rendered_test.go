package manifests_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// cluster has the resources of an overlay.
type cluster struct {
	namespaces  []corev1.Namespace
	accounts    []corev1.ServiceAccount
	settings    map[string]string
	secrets     []corev1.Secret
	services    []corev1.Service
	policies    []networkingv1.NetworkPolicy
	deployments map[string]appsv1.Deployment
	cronJobs    map[string]batchv1.CronJob
	jobs        map[string]batchv1.Job
	autoscalers []autoscalingv2.HorizontalPodAutoscaler
	budgets     []policyv1.PodDisruptionBudget
	labels      map[string]map[string]string // of every resource, by kind/name
}

// pods returns the templates of all pods, by name.
func (c *cluster) pods() map[string]corev1.PodTemplateSpec {
	pods := map[string]corev1.PodTemplateSpec{}
	for name, d := range c.deployments {
		pods[name] = d.Spec.Template
	}
	for name, j := range c.cronJobs {
		pods[name] = j.Spec.JobTemplate.Spec.Template
	}
	for name, j := range c.jobs {
		pods[name] = j.Spec.Template
	}
	return pods
}

// own returns the pods of the programs of Jajeong.
func (c *cluster) own() map[string]corev1.PodTemplateSpec {
	own := map[string]corev1.PodTemplateSpec{}
	for name, pod := range c.pods() {
		if program := strings.Join(pod.Spec.Containers[0].Command,
			" "); slices.Contains([]string{"apply-api", "wallet-api", "settle"}, program) {
			own[name] = pod
		}
	}
	return own
}

// withComponents is what follows the name of an overlay that is rendered under another one, with every component.
const withComponents = "+components"

// overlays are the rendered overlays, alone and with the components. No test changes them.
var overlays = func() map[string]*rendered {
	all := map[string]*rendered{}
	for _, name := range folders("../overlays") {
		all[name], all[name+withComponents] = new(rendered), new(rendered)
	}
	return all
}()

type rendered struct {
	once sync.Once
	*cluster
}

func folders(in string) (names []string) {
	entries, err := os.ReadDir(in)
	if err != nil {
		panic(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// render builds an overlay with kustomize.
func render(t *testing.T, overlay string) *cluster {
	t.Helper()
	o := overlays[overlay]
	o.once.Do(func() {
		if name, ok := strings.CutSuffix(overlay, withComponents); ok {
			o.cluster = renderIn(t, above(t, name), "/k8s/overlays/above")
			return
		}
		o.cluster = renderIn(t, filesys.MakeFsOnDisk(), filepath.Join("..", "overlays", overlay))
	})
	require.NotNil(t, o.cluster, "another test could not render it")
	return o.cluster
}

// above has an overlay with every component above one of ours, in memory beside the real files. It has what the headers
// of the components ask for, and no more.
func above(t *testing.T, overlay string) filesys.FileSystem {
	t.Helper()
	files := filesys.MakeFsInMemory()
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".env", ".acl"}, filepath.Ext(path)) {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return files.WriteFile(filepath.Join("/k8s", strings.TrimPrefix(path, "../")), content)
	})
	require.NoError(t, err)
	kustomization := "resources: [../" + overlay + "]\ncomponents:\n"
	for _, component := range folders("../components") {
		kustomization += "- ../../components/" + component + "\n"
	}
	kustomization +=
		"configMapGenerator: [{name: settings, behavior: merge, literals: [CONSOLE_TRUSTED_PROXIES=10.30.0.0/24, " +
			"CONSOLE_ROLES=sre=operator, 'EVENT_REDIS_ADDRS=redis-events.coupons.example:6379']}]\n"
	require.NoError(t, files.WriteFile("/k8s/overlays/above/kustomization.yaml", []byte(kustomization)))
	return files
}

// renderIn builds an overlay with kustomize. Unknown fields are errors.
func renderIn(t *testing.T, files filesys.FileSystem, overlay string) *cluster {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, overlay)
	require.NoError(t, err)
	c := &cluster{
		deployments: map[string]appsv1.Deployment{}, cronJobs: map[string]batchv1.CronJob{},
		jobs:   map[string]batchv1.Job{},
		labels: map[string]map[string]string{},
	}
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		require.NoError(t, err)
		if resource.GetKind() != "Namespace" {
			require.Equal(t, "jajeong", resource.GetNamespace(), resource.GetName())
		}
		c.labels[resource.GetKind()+"/"+resource.GetName()] = resource.GetLabels()
		switch kind := resource.GetKind(); kind {
		case "Namespace":
			c.namespaces = append(c.namespaces, read[corev1.Namespace](t, text))
		case "ServiceAccount":
			c.accounts = append(c.accounts, read[corev1.ServiceAccount](t, text))
		case "ConfigMap":
			require.Nil(t, c.settings, "one ConfigMap")
			c.settings = read[corev1.ConfigMap](t, text).Data
		case "Secret":
			c.secrets = append(c.secrets, read[corev1.Secret](t, text))
		case "Service":
			c.services = append(c.services, read[corev1.Service](t, text))
		case "NetworkPolicy":
			c.policies = append(c.policies, read[networkingv1.NetworkPolicy](t, text))
		case "Deployment":
			c.deployments[resource.GetName()] = read[appsv1.Deployment](t, text)
		case "CronJob":
			c.cronJobs[resource.GetName()] = read[batchv1.CronJob](t, text)
		case "Job":
			c.jobs[resource.GetName()] = read[batchv1.Job](t, text)
		case "HorizontalPodAutoscaler":
			c.autoscalers = append(c.autoscalers, read[autoscalingv2.HorizontalPodAutoscaler](t, text))
		case "PodDisruptionBudget":
			c.budgets = append(c.budgets, read[policyv1.PodDisruptionBudget](t, text))
		default:
			t.Fatalf("%s %s: no test checks this kind", kind, resource.GetName())
		}
	}
	return c
}

func read[T any](t *testing.T, text []byte) (object T) {
	t.Helper()
	asJSON, err := yaml.YAMLToJSONStrict(text)
	require.NoError(t, err)
	unknown, err := json.UnmarshalStrict(asJSON, &object)
	require.NoError(t, err, "%s", text)
	require.Empty(t, unknown, "%s", text)
	return object
}

// everywhere runs a test on each overlay, alone and with the components.
func everywhere(t *testing.T, test func(t *testing.T, c *cluster)) {
	for overlay := range overlays {
		t.Run(overlay, func(t *testing.T) { test(t, render(t, overlay)) })
	}
}

// matches reports whether a selector matches these labels.
func matches(t *testing.T, selector *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	require.NoError(t, err)
	return s.Matches(labels.Set(of))
}

// programs are the programs of the image. TestMain removes them.
var programs struct {
	once  sync.Once
	dir   string
	built bool
}

func TestMain(m *testing.M) {
	code := m.Run()
	if programs.dir != "" {
		if err := os.RemoveAll(programs.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// programsDir returns the folder of the built programs.
func programsDir(t *testing.T) string {
	t.Helper()
	programs.once.Do(func() {
		var err error
		programs.dir, err = os.MkdirTemp("", "jajeong-k8s-")
		require.NoError(t, err)
		buildImage(t, programs.dir)
		programs.built = true
	})
	require.True(t, programs.built, "another test could not build the programs")
	return programs.dir
}

// program returns the path of a built program.
func program(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(programsDir(t), name)
}

var helpTexts struct {
	once sync.Once
	said string
}

// help returns the help texts of all programs.
func help(t *testing.T) string {
	t.Helper()
	helpTexts.once.Do(func() {
		var said string
		for _, command := range [][]string{{"apply-api"}, {"wallet-api"}, {"settle"}, {"settle", "migrate"},
			{"settle", "run"}, {"settle", "serve"}, {"settle", "console"},
			{"settle", "purge"}} {
			output, err := exec.CommandContext(t.Context(), program(t, command[0]),
				append(command[1:], "--help")...).CombinedOutput()
			require.NoError(t, err, "%s", output)
			said += string(output)
		}
		helpTexts.said = said
	})
	require.NotEmpty(t, helpTexts.said, "another test could not read them")
	return helpTexts.said
}

// constants returns the integer constants of a Go file.
func constants(t *testing.T, file string) map[string]int32 {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	found := map[string]int32{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 {
			return true
		}
		value, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(spec.Values[0]))
		if err != nil || value.Value == nil {
			return true
		}
		if number, exact := constant.Int64Val(constant.ToInt(value.Value)); exact {
			found[spec.Names[0].Name] = int32(number)
		}
		return true
	})
	return found
}
