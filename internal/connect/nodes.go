package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// Limits for a node of a Cluster that hangs or is gone.
const (
	// hungAfter is the number of consecutive timeouts after which calls fail immediately for hungPause.
	hungAfter = 3
	hungPause = time.Second
	// topologyTimeout leaves time to ask the next node.
	topologyTimeout = 500 * time.Millisecond
	// reloads of the topology follow a failed call, one per reloadPause. The client itself reloads once a minute.
	reloads     = 10
	reloadPause = 500 * time.Millisecond
)

// guardNodes keeps a node that hangs from blocking calls to other nodes, and makes the client find the promoted replica.
func guardNodes(cluster *redis.ClusterClient) {
	topology := &topology{cluster: cluster}
	cluster.OnNewNode(func(node *redis.Client) {
		node.AddHook(&guard{node: node.Options().Addr, topology: topology, breaker: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
			Timeout:      hungPause,
			ReadyToTrip:  func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= hungAfter },
			IsSuccessful: func(err error) bool { return !timedOut(err) },
			IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) },
		})})
	})
}

type guard struct {
	node     string // its address
	topology *topology
	breaker  *gobreaker.CircuitBreaker[struct{}]
}

func (*guard) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := cmd.Name(); name == "cluster" || name == "command" { // of the client itself, about the topology
			ctx, cancel := context.WithTimeout(inside(ctx), topologyTimeout)
			defer cancel()
			return next(ctx, cmd)
		}
		return g.call(ctx, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

func (g *guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return g.call(ctx, func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

type insideKey struct{}

// inside marks commands within a guarded call, such as the handshake of a new connection.
func inside(ctx context.Context) context.Context { return context.WithValue(ctx, insideKey{}, true) }

func (g *guard) call(ctx context.Context, call func(ctx context.Context) error) error {
	if ctx.Value(insideKey{}) != nil {
		return call(ctx)
	}
	_, err := g.breaker.Execute(func() (struct{}, error) { return struct{}{}, call(inside(ctx)) })
	switch {
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return fmt.Errorf("redis %s does not answer; calls to it fail for a second: %w", g.node, err)
	case unreachable(err):
		g.topology.changed()
	}
	return err
}

func timedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redis.ErrPoolTimeout) || ok && timeout.Timeout()
}

// unreachable is false for canceled calls.
func unreachable(err error) bool {
	_, answered := errors.AsType[redis.Error](err)
	return err != nil && !answered && !errors.Is(err, context.Canceled)
}

type topology struct {
	cluster *redis.ClusterClient
	left    atomic.Int32 // reloads to come
}

func (t *topology) changed() {
	if t.left.Swap(reloads) == 0 {
		t.reload()
	}
}

func (t *topology) reload() {
	t.cluster.ReloadState(context.Background()) // does not wait
	time.AfterFunc(reloadPause, func() {
		if t.left.Add(-1) > 0 {
			t.reload()
		}
	})
}
