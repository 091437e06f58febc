package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/jajeong/jajeong/internal/testenv"
)

// kube is shared by all tests. Each test has its own namespace.
var kube struct {
	*cluster
	node       *node
	client     kubernetes.Interface // of an administrator
	programs   string               // the folder with kubectl and the programs of this repository
	kubeconfig string               // of an administrator
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopped := make(chan error, 1)
	if err := setUp(ctx, stopped); err != nil {
		return failed(err)
	}
	code = m.Run()
	cancel()
	if err := errors.Join(<-stopped, kube.stop(), testenv.StopShared()); err != nil {
		return failed(err)
	}
	return code
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}

// setUp starts Kubernetes with one node, which works until ctx ends.
func setUp(ctx context.Context, stopped chan<- error) (err error) {
	if kube.programs, err = filepath.Abs("bin"); err != nil {
		return err
	}
	if err := buildAll(ctx, kube.programs); err != nil {
		return err
	}
	if kube.cluster, err = startCluster(ctx, kube.programs); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, kube.stop())
		}
	}()
	kubeconfig, err := kube.cluster.kubeconfig(adminUser)
	if err != nil {
		return err
	}
	dir := kube.servers[0].Dir() // removed with its server, even if this process is killed
	kube.kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kube.kubeconfig, kubeconfig, 0o600); err != nil {
		return err
	}
	kube.client = kubernetes.NewForConfigOrDie(kube.config(adminUser))
	kube.node = &node{
		client: kubernetes.NewForConfigOrDie(kube.config(nodeUser)),
		// Of prod and of dev.
		programs: map[string]string{"ghcr.io/jajeong/jajeong": kube.programs, "jajeong": kube.programs},
		dir:      filepath.Join(dir, "pods"),
	}
	if err := errors.Join(kube.node.register(ctx), removeTaint(ctx)); err != nil {
		return err
	}
	go func() { stopped <- kube.node.run(ctx) }()
	return nil
}

// removeTaint removes the taint of a new node. The node controller would do it, but it needs a heartbeat every few
// seconds.
func removeTaint(ctx context.Context) error {
	_, err := kube.client.CoreV1().Nodes().Patch(ctx, nodeName, types.JSONPatchType,
		[]byte(`[{"op": "remove", "path": "/spec/taints"}]`), metav1.PatchOptions{})
	return err
}
