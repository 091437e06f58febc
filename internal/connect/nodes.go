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

// What a node of a Cluster may cost that hangs or is gone.
const (
	// hungAfter calls of a node in a row ran out of time, it is left alone.
	hungAfter = 3
	// hungPause is how long. Then one call is tried.
	hungPause = time.Second
	// topologyTimeout bounds asking one node who the nodes are: one that hangs must leave time to ask the next.
	topologyTimeout = 500 * time.Millisecond
	// After a node could not be reached the client asks so many times, with that pause, who the nodes are now: five seconds,
	// while every further call in vain begins them anew. By itself it would ask once a minute.
	reloads     = 10
	reloadPause = 500 * time.Millisecond
)

// guardNodes keeps a node that hangs from holding up those who ask for what other nodes have, and has the client look for
// the node that takes over.
func guardNodes(cluster *redis.ClusterClient) {
	topology := &topology{cluster: cluster}
	cluster.OnNewNode(func(node *redis.Client) {
		node.AddHook(&guard{node: node.Options().Addr, topology: topology, breaker: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
			Timeout:      hungPause,
			ReadyToTrip:  func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= hungAfter },
			IsSuccessful: func(err error) bool { return !outOfTime(err) },
			IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) },
		})})
	})
}

// guard is a hook around the calls of one node.
type guard struct {
	node     string // its address
	topology *topology
	breaker  *gobreaker.CircuitBreaker[struct{}]
}

// DialHook implements redis.Hook.
func (*guard) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (g *guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := cmd.Name(); name == "cluster" || name == "command" { // the client's own: about all nodes, asked of any
			ctx, cancel := context.WithTimeout(inside(ctx), topologyTimeout)
			defer cancel()
			return next(ctx, cmd)
		}
		return g.call(ctx, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (g *guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return g.call(ctx, func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

type insideKey struct{}

// inside marks what belongs to a call that is guarded already, as the greeting on a new connection does.
func inside(ctx context.Context) context.Context { return context.WithValue(ctx, insideKey{}, true) }

func (g *guard) call(ctx context.Context, call func(ctx context.Context) error) error {
	if ctx.Value(insideKey{}) != nil {
		return call(ctx)
	}
	_, err := g.breaker.Execute(func() (struct{}, error) { return struct{}{}, call(inside(ctx)) })
	switch {
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return fmt.Errorf("redis %s does not answer and is left alone for a second: %w", g.node, err)
	case unreached(err):
		g.topology.changed()
	}
	return err
}

// outOfTime: the node took longer than anybody waits.
func outOfTime(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &timeout) && timeout.Timeout()
}

// unreached: the node did not answer, and neither was the call given up.
func unreached(err error) bool {
	var answer redis.Error
	return err != nil && !errors.As(err, &answer) && !errors.Is(err, context.Canceled)
}

// topology is who the nodes are, as the client knows it.
type topology struct {
	cluster *redis.ClusterClient
	left    atomic.Int32 // how many times it is still asked for
}

// changed: a node may not be what it was.
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
