package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/kubectl/pkg/util/fieldpath"
	"k8s.io/kubectl/pkg/util/resource"

	"github.com/jajeong/jajeong/internal/testenv/process"
)

const (
	logName = "log" // in the folder of a Pod

	readableEvery = 200 * time.Millisecond
)

// running is the running command of a container.
type running struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// start resolves the environment and mounts of the only container of a Pod, and starts its command.
func (n *node) start(ctx context.Context, l *life) (*running, error) {
	if len(l.pod.Spec.Containers) != 1 || len(l.pod.Spec.InitContainers) > 0 {
		return nil, fmt.Errorf("this node runs Pods of one container")
	}
	container := &l.pod.Spec.Containers[0]
	mounts, err := n.mount(ctx, l, container)
	if err != nil {
		return nil, err
	}
	env, err := n.environment(ctx, l, container)
	if err != nil {
		return nil, err
	}
	command, err := n.command(container, env)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(l.dir, logName))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	for i, arg := range command[1:] {
		command[i+1] = mounts.here(arg)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.dir, log, log
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+mounts.here(value))
	}
	return launch(cmd, &l.pid)
}

// launch starts a command that dies with this process, even after SIGKILL.
func launch(cmd *exec.Cmd, pid *atomic.Int64) (*running, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &running{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel sends the signal at the end of the thread that started the child
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			pid.Store(int64(cmd.Process.Pid))
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // the result is in ProcessState
			close(p.ended)
		}
	}()
	return p, <-started
}

// wait returns the exit code like a container runtime. When stop ends, it sends SIGTERM, and SIGKILL after the grace
// period.
func (p *running) wait(stop context.Context, graceSeconds *atomic.Int64) int {
	select {
	case <-p.ended:
	case <-stop.Done():
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // the process may have ended
		kill := time.NewTimer(time.Duration(graceSeconds.Load()) * time.Second)
		defer kill.Stop()
		select {
		case <-p.ended:
		case <-kill.C:
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	}
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// command returns the program and the arguments of a container. The command is mandatory, because the entry point of
// the image is unknown here.
func (n *node) command(container *v1.Container, env map[string]string) ([]string, error) {
	name, _, _ := strings.Cut(container.Image, "@")
	if tag := strings.LastIndex(name, ":"); tag > strings.LastIndex(name, "/") {
		name = name[:tag]
	}
	folder := n.programs[name]
	if folder == "" || len(container.Command) == 0 {
		return nil, fmt.Errorf("image %s with command %q is not known on this node", container.Image, container.Command)
	}
	var command []string
	for _, word := range slices.Concat(container.Command, container.Args) {
		command = append(command, expand(word, env))
	}
	command[0] = filepath.Join(folder, path.Base(command[0]))
	return command, nil
}

var reference = regexp.MustCompile(`\$\$|\$\([-._a-zA-Z][-._a-zA-Z0-9]*\)`)

// expand replaces $(NAME) by the value of the variable. An unknown reference stays, and $$ becomes a dollar sign.
func expand(text string, env map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		if value, known := env[found[2:len(found)-1]]; known {
			return value
		}
		return found
	})
}

// environment returns the environment of the container, without that of this process.
func (n *node) environment(ctx context.Context, l *life, container *v1.Container) (map[string]string, error) {
	env := map[string]string{"HOSTNAME": l.pod.Name, "PATH": "/usr/bin:/bin"}
	for _, from := range container.EnvFrom {
		if from.ConfigMapRef == nil {
			return nil, fmt.Errorf("%v is not known on this node", from)
		}
		values, err := n.configMap(ctx, l.pod.Namespace, from.ConfigMapRef.Name)
		if err != nil {
			return nil, err
		}
		for name, value := range values {
			env[from.Prefix+name] = value
		}
	}
	for _, variable := range container.Env {
		value := expand(variable.Value, env)
		if variable.ValueFrom != nil {
			var err error
			if value, err = valueFrom(l, container, variable.ValueFrom); err != nil {
				return nil, fmt.Errorf("variable %s: %w", variable.Name, err)
			}
		}
		env[variable.Name] = value
	}
	return env, nil
}

func valueFrom(l *life, container *v1.Container, from *v1.EnvVarSource) (string, error) {
	switch {
	case from.FieldRef != nil && from.FieldRef.FieldPath == "status.podIP":
		return l.address, nil
	case from.FieldRef != nil:
		return fieldpath.ExtractFieldPathAsString(l.pod, from.FieldRef.FieldPath)
	case from.ResourceFieldRef != nil:
		return resource.ExtractContainerResourceValue(from.ResourceFieldRef, container)
	default:
		return "", fmt.Errorf("%v is not known on this node", from)
	}
}

// mounted has the local folders that replace the mounts of a container, by mount path.
type mounted map[string]string

// here replaces a mount path at the start of a text by the local folder.
func (m mounted) here(text string) string {
	for there, dir := range m {
		if rest, ok := strings.CutPrefix(text, there); ok && (rest == "" || rest[0] == '/') {
			return dir + rest
		}
	}
	return text
}

// mount creates and fills a folder for each volume.
func (n *node) mount(ctx context.Context, l *life, container *v1.Container) (mounted, error) {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return nil, err
	}
	volumes := map[string]v1.Volume{}
	for _, volume := range l.pod.Spec.Volumes {
		volumes[volume.Name] = volume
	}
	m := mounted{}
	for _, mount := range container.VolumeMounts {
		dir := filepath.Join(l.dir, "volumes", mount.Name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		files, err := n.files(ctx, l.pod.Namespace, volumes[mount.Name])
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", mount.Name, err)
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				return nil, err
			}
		}
		m[mount.MountPath] = dir
	}
	return m, nil
}

func (n *node) files(ctx context.Context, namespace string, volume v1.Volume) (map[string]string, error) {
	switch {
	case volume.Secret != nil && len(volume.Secret.Items) == 0:
		files, err := n.secret(ctx, namespace, volume.Secret.SecretName)
		return optionally(volume.Secret.Optional, files, err)
	case volume.ConfigMap != nil && len(volume.ConfigMap.Items) == 0:
		files, err := n.configMap(ctx, namespace, volume.ConfigMap.Name)
		return optionally(volume.ConfigMap.Optional, files, err)
	case volume.EmptyDir != nil:
		return nil, nil
	default:
		return nil, fmt.Errorf("this kind is not known on this node")
	}
}

// optionally returns no files, and no error, for an optional volume that does not exist.
func optionally(optional *bool, files map[string]string, err error) (map[string]string, error) {
	if optional != nil && *optional && apierrors.IsNotFound(err) {
		return nil, nil
	}
	return files, err
}

func (n *node) configMap(ctx context.Context, namespace, name string) (values map[string]string, err error) {
	err = readable(ctx, func(ctx context.Context) error {
		found, err := n.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			values = maps.Clone(found.Data)
		}
		return err
	})
	return values, err
}

func (n *node) secret(ctx context.Context, namespace, name string) (values map[string]string, err error) {
	err = readable(ctx, func(ctx context.Context) error {
		found, err := n.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			values = map[string]string{}
			for key, value := range found.Data {
				values[key] = string(value)
			}
		}
		return err
	})
	return values, err
}

// readable repeats a read until it is allowed: the API server may assign a Pod to a node shortly before it lets the
// node read the Secrets of the Pod.
func readable(ctx context.Context, read func(context.Context) error) (last error) {
	err := wait.PollUntilContextCancel(ctx, readableEvery, true, func(ctx context.Context) (bool, error) {
		last = read(ctx)
		return !apierrors.IsForbidden(last), nil
	})
	if last != nil {
		return last
	}
	return err
}

// unlessGone ignores the error of a missing object.
func unlessGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (l *life) probe() *v1.Probe { return l.pod.Spec.Containers[0].ReadinessProbe }

// awaitReady waits until the Pod is ready for the first time.
func (n *node) awaitReady(ctx context.Context, l *life) error {
	probe := l.probe().HTTPGet
	if probe == nil {
		return fmt.Errorf("this node probes by HTTP")
	}
	port := probe.Port.IntVal
	for _, p := range l.pod.Spec.Containers[0].Ports {
		if p.Name == probe.Port.StrVal {
			port = p.ContainerPort
		}
	}
	ready := answers("http", probe.Path, "")
	return wait.PollUntilContextCancel(ctx, probeEvery, true, func(ctx context.Context) (bool, error) {
		return ready(ctx, process.Instance{Addr: fmt.Sprintf("%s:%d", l.address, port)}) == nil, nil
	})
}
