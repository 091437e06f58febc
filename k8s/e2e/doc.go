// Package e2e plays nights on Kubernetes: the manifests and scripts of k8s on a real control plane, the built programs on a
// real Redis and a real MySQL-compatible server. `make test-k8s` runs it, since `make test` would take too long with it.
//
// # What is real
//
//   - etcd, of the distribution's package.
//   - kube-apiserver, kube-controller-manager, kube-scheduler and kubectl, built from the module k8s.io/kubernetes. They are
//     tools of a module of their own, kubernetes, which takes every dependency in the version that Kubernetes was released
//     with, whatever the product needs, and which no change of the product makes build again. The programs are kept in bin.
//   - Who may do what: each part of the control plane, each controller and the node work with the rights that Kubernetes gives
//     to such a part, and no more; the namespace refuses Pods that break its rules.
//   - overlays/prod, of which a test changes where Redis and MySQL are, the Secrets, and the minute of the schedule; its zone
//     stays. And k8s/deploy.sh and k8s/settle.sh, run as a person would.
//   - settle and apply-api, as they are shipped, under the accounts of sql/grants.sql.
//   - Time: a test waits for the minute in which its CronJob is due.
//
// # What stands in
//
// The node of these tests registers itself, takes the Pods that the scheduler gives it, resolves their environment from
// ConfigMaps, Secrets, fields and resources, writes mounted Secrets and ConfigMaps into files, and runs the command as a child
// of the tests. It reports phase, readiness and exit code, and sends SIGTERM and, after the grace, SIGKILL to who is deleted
// or evicted. It leaves out:
//
//   - Images: the name of an image leads to a folder with the built programs. A container without a command is refused.
//   - Isolation: users, capabilities, seccomp, read-only file systems, limits of CPU and memory. Whether the API server
//     accepts what the manifests say of them is seen; whether the programs live with it is not. A path that is mounted is
//     replaced by the path of a folder where the environment or an argument begins with it.
//   - The network: Pods share that of this machine, each with an address of 127.0.0.0/8. No name is resolved, no Service
//     leads anywhere, no NetworkPolicy holds anybody back.
//   - Liveness probes; and a Pod that was ready once is not asked again.
//   - Several containers, init containers, restarts in place: the manifests have none. Such a Pod fails.
//   - Its own death: nobody looks whether the node is alive.
//
// There is no metrics server, so that nothing is scaled, and the HorizontalPodAutoscaler is only accepted.
//
// # Down whatever happens
//
// Every process dies with the tests, in whatever way they end. Linux only.
package e2e
