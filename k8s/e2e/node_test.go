package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
)

const nodeName = "midnight"

// node replaces a machine and its kubelet: it accepts Pods from the scheduler, runs the command of each as a local
// process, and reports its status to the API server. It has exactly the rights of a kubelet. The package comment lists
// its limits.
type node struct {
	client   kubernetes.Interface
	programs map[string]string // folders of programs, by image name without tag
	dir      string            // has a folder for each Pod

	addresses atomic.Int32
	lives     sync.WaitGroup
	mu        sync.Mutex
	pods      map[types.UID]*life
}

// life is the state of one Pod on this node.
type life struct {
	pod     *v1.Pod // as received
	dir     string
	address string
	end     context.CancelFunc // stops it with its grace period
	grace   atomic.Int64       // in seconds
	pid     atomic.Int64       // 0 before its start
}

// run serves the node until ctx ends, and then waits for the end of all processes.
func (n *node) run(ctx context.Context) error {
	n.pods = map[types.UID]*life{}
	mine := informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", nodeName).String()
	})
	pods := informers.NewSharedInformerFactoryWithOptions(n.client, 0, mine).Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(pod any) { n.sync(ctx, pod.(*v1.Pod)) },
		UpdateFunc: func(_, pod any) { n.sync(ctx, pod.(*v1.Pod)) },
		DeleteFunc: func(pod any) { n.forget(pod) },
	})
	if err != nil {
		return err
	}
	pods.RunWithContext(ctx)
	n.lives.Wait()
	return nil
}

// register creates the Node with enough resources for all tests.
func (n *node) register(ctx context.Context) error {
	much := v1.ResourceList{v1.ResourceCPU: resource.MustParse("100"), v1.ResourceMemory: resource.MustParse("200Gi"),
		v1.ResourcePods: resource.MustParse("500")}
	_, err := n.client.CoreV1().Nodes().Create(ctx, &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{v1.LabelHostname: nodeName}},
		Status: v1.NodeStatus{
			Capacity: much, Allocatable: much,
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady",
				LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}},
		},
	}, metav1.CreateOptions{})
	return err
}

// sync starts a new Pod and stops a deleted one.
func (n *node) sync(ctx context.Context, pod *v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.pods[pod.UID]
	if l == nil {
		if pod.Status.Phase != v1.PodPending {
			return
		}
		number := n.addresses.Add(1)
		stop, end := context.WithCancel(ctx)
		l = &life{pod: pod, dir: filepath.Join(n.dir, string(pod.UID)),
			address: fmt.Sprintf("127.8.%d.%d", number>>8, number&255), end: end}
		n.pods[pod.UID] = l
		n.lives.Go(func() { n.live(ctx, stop, l) })
	}
	if pod.DeletionTimestamp != nil {
		l.grace.Store(*pod.DeletionGracePeriodSeconds)
		l.end()
	}
}

// forget kills the process of a removed Pod.
func (n *node) forget(gone any) {
	if last, ok := gone.(cache.DeletedFinalStateUnknown); ok {
		gone = last.Obj
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.pods[gone.(*v1.Pod).UID]; l != nil {
		l.grace.Store(0)
		l.end()
	}
}

// kill sends SIGKILL, like the kernel to a process that exceeds its memory.
func (n *node) kill(pod *v1.Pod) error { return n.signal(pod, syscall.SIGKILL) }

func (n *node) signal(pod *v1.Pod, signal syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.pods[pod.UID]
	if l == nil || l.pid.Load() == 0 {
		return fmt.Errorf("signal pod %s: it does not run here", pod.Name)
	}
	return syscall.Kill(int(l.pid.Load()), signal)
}

// output returns the output of a Pod so far.
func (n *node) output(pod *v1.Pod) string {
	written, err := os.ReadFile(filepath.Join(n.dir, string(pod.UID), logName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	return string(written)
}

// live runs one Pod from its arrival to its end and reports its status.
func (n *node) live(ctx, stop context.Context, l *life) {
	defer l.end()
	started := metav1.Now()
	command, err := n.start(stop, l)
	if err != nil {
		n.report(ctx, l, v1.PodFailed, v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: exitNotStarted, Reason: "StartError", Message: err.Error(), StartedAt: started,
			FinishedAt: metav1.Now()}}, false)
		return
	}
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: started}}
	n.report(ctx, l, v1.PodRunning, running, l.probe() == nil)
	if l.probe() != nil {
		n.lives.Go(func() {
			if n.awaitReady(stop, l) == nil {
				n.report(stop, l, v1.PodRunning, running, true)
			}
		})
	}
	code := command.wait(stop, &l.grace)
	phase, reason := v1.PodSucceeded, "Completed"
	if code != 0 {
		phase, reason = v1.PodFailed, "Error"
	}
	deleted := stop.Err() != nil
	l.end()
	n.report(ctx, l, phase, v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		ExitCode: int32(code), Reason: reason, StartedAt: started, FinishedAt: metav1.Now()}}, false)
	if deleted { // the node removes a deleted Pod
		now := int64(0)
		_ = n.client.CoreV1().Pods(l.pod.Namespace).Delete(ctx, l.pod.Name, metav1.DeleteOptions{
			// It may not exist any more.
			GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &l.pod.UID}})
	}
}

// exitNotStarted is the exit code of container runtimes for a command that cannot be started.
const exitNotStarted = 128

// report updates the status of a Pod. It keeps conditions of other writers, such as the reason of an eviction.
func (n *node) report(ctx context.Context, l *life, phase v1.PodPhase, state v1.ContainerState, ready bool) {
	container := l.pod.Spec.Containers[0]
	pods := n.client.CoreV1().Pods(l.pod.Namespace)
	err := retry.OnError(retry.DefaultBackoff, func(error) bool { return ctx.Err() == nil }, func() error {
		pod, err := pods.Get(ctx, l.pod.Name, metav1.GetOptions{})
		if err != nil || pod.UID != l.pod.UID {
			return unlessGone(err)
		}
		status := &pod.Status
		status.Phase, status.PodIP, status.PodIPs = phase, l.address, []v1.PodIP{{IP: l.address}}
		status.ContainerStatuses = []v1.ContainerStatus{{
			Name: container.Name, Image: container.Image, ImageID: container.Image, State: state, Ready: ready,
			Started: new(state.Running != nil),
		}}
		if status.StartTime == nil {
			status.StartTime = new(metav1.Now())
		}
		for _, kind := range []v1.PodConditionType{v1.PodInitialized, v1.ContainersReady, v1.PodReady} {
			setCondition(status, kind, ready || kind == v1.PodInitialized)
		}
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return unlessGone(err)
	})
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "node: report %s of pod %s/%s: %v\n", phase, l.pod.Namespace, l.pod.Name, err)
	}
}

func setCondition(status *v1.PodStatus, kind v1.PodConditionType, holds bool) {
	is := v1.ConditionFalse
	if holds {
		is = v1.ConditionTrue
	}
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == kind {
			if c.Status != is {
				c.Status, c.LastTransitionTime = is, metav1.Now()
			}
			return
		}
	}
	status.Conditions = append(status.Conditions,
		v1.PodCondition{Type: kind, Status: is, LastTransitionTime: metav1.Now()})
}

// probeEvery is the interval of readiness probes.
const probeEvery = 200 * time.Millisecond
