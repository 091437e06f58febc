// Package e2e tests the manifests and scripts of k8s on a real Kubernetes control plane, with the built programs, a
// real Redis and a real MySQL-compatible server. `make test-k8s` runs it; `make test` would take too long with it.
//
// # What is real
//
//   - etcd, from the package of the distribution.
//   - kube-apiserver, kube-controller-manager, kube-scheduler and kubectl, built from the module k8s.io/kubernetes.
//     They are tools of a separate module, kubernetes, with the dependencies of that Kubernetes release. A change of
//     the product does not build them again. The programs are kept in bin.
//   - Rights: each component of the control plane, each controller and the node have exactly the rights that Kubernetes
//     gives them. The namespace refuses Pods that break its rules.
//   - The overlays and components. A test changes the addresses of Redis and MySQL, the Secrets and the minute of the
//     schedule, but not its time zone, and removes the servers of overlays/dev. k8s/deploy.sh and k8s/settle.sh are
//     unchanged.
//   - settle, apply-api and wallet-api, built like a release, with the accounts of sql/grants.sql.
//   - Time: a test waits for the minute of its CronJob.
//
// # What is replaced
//
// The node of these tests registers itself and accepts Pods from the scheduler. It resolves their environment from
// ConfigMaps, Secrets, fields and resources, writes mounted Secrets and ConfigMaps into files, and runs the command as
// a child process. It reports phase, readiness and exit code. A deleted or evicted Pod gets SIGTERM, and SIGKILL after
// its grace period. The node does not implement:
//
//   - Images: the name of an image selects a folder with the built programs. A container needs a command.
//   - Isolation: users, capabilities, seccomp, read-only file systems, limits of CPU and memory. The API server
//     validates these fields, but they have no effect on the programs. A mount path at the start of a variable or an
//     argument is replaced by a local folder.
//   - The network: Pods share the network of this machine, each with an address in 127.0.0.0/8. There is no DNS, no
//     Service and no NetworkPolicy.
//   - Startup and liveness probes, and readiness probes after the first success.
//   - Several containers, init containers, restarts in place: the manifests have none. Such a Pod fails.
//   - The health of the node itself.
//
// There is no metrics server, so the HorizontalPodAutoscaler is validated but scales nothing.
//
// # Clean-up
//
// Every process dies with the tests, even after SIGKILL. Linux only.
package e2e
