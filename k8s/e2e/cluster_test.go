package e2e

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"

	"github.com/jajeong/jajeong/internal/testenv/process"
)

// The user names of the components of Kubernetes. The API server grants their rights by itself.
const (
	adminUser      = "admin"
	controllerUser = "system:kube-controller-manager"
	schedulerUser  = "system:kube-scheduler"
	nodeUser       = "system:node:" + nodeName
)

var groups = map[string]string{adminUser: "system:masters", controllerUser: "", schedulerUser: "",
	nodeUser: "system:nodes"}

// controllers are the controllers that the manifests need. There is no cloud and no metrics server.
const controllers = "namespace-controller,serviceaccount-controller,serviceaccount-token-controller," +
	"garbage-collector-controller,pod-garbage-collector-controller,ttl-after-finished-controller," +
	"disruption-controller,job-controller,cronjob-controller,deployment-controller,replicaset-controller"

// cluster is a Kubernetes control plane: etcd, API server, controller manager and scheduler as child processes.
type cluster struct {
	address   string // of the API server
	authority string // file with its self-signed certificate
	tokens    map[string]string
	servers   []*process.Server
}

// startCluster starts a control plane from the programs in a folder. After an error everything is stopped.
func startCluster(ctx context.Context, programs string) (c *cluster, err error) {
	c = &cluster{tokens: map[string]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	etcd, err := c.start(ctx, process.Program{
		Name: "etcd", Hint: "To install it: scripts/setup.sh k8s", Args: etcdArgs,
		Ready: answers("http", "/health", ""),
	})
	if err != nil {
		return c, err
	}
	var csv strings.Builder
	for user, group := range groups {
		c.tokens[user] = rand.Text()
		fmt.Fprintf(&csv, "%s,%s,%s,%q\n", c.tokens[user], user, user, group)
	}
	serviceAccountKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return c, err
	}
	api, err := c.start(ctx, process.Program{
		Name: "kube-apiserver", Path: filepath.Join(programs, "kube-apiserver"),
		Files: map[string][]byte{"tokens.csv": []byte(csv.String()), "service-account.key": serviceAccountKey},
		Args:  func(dir string, port int) []string { return apiServerArgs(dir, port, etcd.Addr()) },
		Ready: answers("https", "/readyz", c.tokens[adminUser]),
	})
	if err != nil {
		return c, err
	}
	c.address, c.authority = "https://"+api.Addr(), filepath.Join(api.Dir(), "certs", "apiserver.crt")

	for name, user := range map[string]string{"kube-controller-manager": controllerUser,
		"kube-scheduler": schedulerUser} {
		kubeconfig, err := c.kubeconfig(user)
		if err != nil {
			return c, err
		}
		_, err = c.start(ctx, process.Program{
			Name: name, Path: filepath.Join(programs, name),
			Files: map[string][]byte{"kubeconfig": kubeconfig, "service-account.key": serviceAccountKey},
			Args: func(dir string, port int) []string {
				args := clientArgs(dir, port)
				if user == controllerUser {
					args = append(args, "--controllers="+controllers, "--use-service-account-credentials",
						"--service-account-private-key-file="+filepath.Join(dir, "service-account.key"))
				}
				return args
			},
			Ready: answers("https", "/healthz", ""),
		})
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *cluster) start(ctx context.Context, p process.Program) (*process.Server, error) {
	s, err := process.Start(ctx, p)
	if err == nil {
		c.servers = append(c.servers, s)
	}
	return s, err
}

// stop ends the processes in reverse order, so that none logs errors about a missing server.
func (c *cluster) stop() (err error) {
	for len(c.servers) > 0 {
		last := len(c.servers) - 1
		err = errors.Join(err, c.servers[last].Stop())
		c.servers = c.servers[:last]
	}
	return err
}

func etcdArgs(dir string, port int) []string {
	clients := fmt.Sprintf("http://127.0.0.1:%d", port)
	peers := fmt.Sprintf("http://127.0.0.1:%d", process.SecondPort(port))
	return []string{
		"--data-dir=" + filepath.Join(dir, "data"),
		"--listen-client-urls=" + clients, "--advertise-client-urls=" + clients,
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=default=" + peers,
	}
}

func apiServerArgs(dir string, port int, etcd string) []string {
	return []string{
		"--etcd-servers=http://" + etcd,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--cert-dir=" + filepath.Join(dir, "certs"),
		"--endpoint-reconciler-type=none", // no Service may have a loopback address
		"--service-cluster-ip-range=10.0.0.0/24",
		"--token-auth-file=" + filepath.Join(dir, "tokens.csv"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + filepath.Join(dir, "service-account.key"),
		"--service-account-signing-key-file=" + filepath.Join(dir, "service-account.key"),
	}
}

// clientArgs are the arguments of a client of the API server.
func clientArgs(dir string, port int) []string {
	return []string{
		"--kubeconfig=" + filepath.Join(dir, "kubeconfig"), "--leader-elect=false",
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--cert-dir=" + filepath.Join(dir, "certs"),
		"--authentication-skip-lookup",
	}
}

// answers returns a check that a server is healthy. It ignores the certificate, which the server has just signed
// itself. A different API server on the same port refuses the token.
func answers(scheme, path, token string) func(context.Context, process.Instance) error {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	return func(ctx context.Context, server process.Instance) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+server.Addr+path, nil)
		if err != nil {
			return err
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", request.URL, response.Status)
		}
		return nil
	}
}

// config is the client configuration of a user.
func (c *cluster) config(user string) *rest.Config {
	return &rest.Config{
		Host: c.address, BearerToken: c.tokens[user], TLSClientConfig: rest.TLSClientConfig{CAFile: c.authority},
		QPS: -1, // the API server limits the rate itself
	}
}

// kubeconfig writes the same configuration to a file.
func (c *cluster) kubeconfig(user string) ([]byte, error) {
	return clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "e2e",
		Contexts:       map[string]*clientcmdapi.Context{"e2e": {Cluster: "e2e", AuthInfo: user}},
		Clusters:       map[string]*clientcmdapi.Cluster{"e2e": {Server: c.address, CertificateAuthority: c.authority}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {Token: c.tokens[user]}},
	})
}

// buildAll builds Kubernetes and the programs of this repository into a folder. Programs that are up to date are kept.
func buildAll(ctx context.Context, into string) error {
	// A first build compiles about 2,600 packages, which takes minutes on two idle cores.
	// No inlining, no debugging information and less garbage collection make the build of Kubernetes much faster.
	hasty := []string{"-gcflags=all=-l", "-ldflags=-s -w"}
	return errors.Join(
		build(ctx, "kubernetes", into, []string{"GOGC=400"}, append(hasty, "tool")...),
		build(ctx, "../..", into, nil, "./cmd/apply-api", "./cmd/wallet-api", "./cmd/settle"),
	)
}

func build(ctx context.Context, module, into string, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-o", into + string(filepath.Separator)},
		args...)...)
	cmd.Dir, cmd.Env = module, append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s in %s: %w\n%s", args[len(args)-1], module, err, output)
	}
	return nil
}

// randomName is valid in the name of a namespace.
func randomName() string { return strings.ToLower(rand.Text()[:8]) }
