package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-retry"
	"github.com/sony/gobreaker/v2"
)

const (
	// hungAfter is the number of consecutive timeouts of a node after which calls to it fail immediately for hungPause.
	hungAfter = 3
	hungPause = time.Second
	// topologyTimeout bounds a topology query to one node, so that time is left to ask the next node.
	topologyTimeout = 500 * time.Millisecond
	// reloads is how many reloads of the topology follow a failed call. Otherwise, go-redis reloads it once a minute.
	reloads     = 10
	reloadPause = 500 * time.Millisecond
)

// guardNodes keeps a node that hangs from blocking calls to other nodes, and makes the client find a promoted replica.
// The only address may be that of a server that is no Cluster.
func guardNodes(cluster *redis.ClusterClient, only bool) {
	topology := &topology{cluster: cluster}
	cluster.OnNewNode(func(node *redis.Client) {
		node.AddHook(&guard{node: node.Options().Addr, only: only, topology: topology,
			breaker: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
				Timeout:      hungPause,
				ReadyToTrip:  func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= hungAfter },
				IsSuccessful: func(err error) bool { return !timedOut(err) },
				IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) },
			})})
	})
}

type guard struct {
	node     string // address of the node
	only     bool   // the node may be no Cluster
	topology *topology
	breaker  *gobreaker.CircuitBreaker[struct{}]
}

func (*guard) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := cmd.Name(); name == "cluster" || name == "command" { // go-redis itself asks for the topology
			ctx, cancel := context.WithTimeout(inside(ctx), topologyTimeout)
			defer cancel()
			if slots, ok := cmd.(*redis.ClusterSlotsCmd); ok && g.only {
				return g.slots(ctx, slots, next)
			}
			return next(ctx, cmd)
		}
		return g.call(ctx, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// slots asks the node which slots there are. A server that is no Cluster has all of them, and refuses the question.
func (g *guard) slots(ctx context.Context, cmd *redis.ClusterSlotsCmd, next redis.ProcessHook) error {
	if g.topology.isCluster.Load() {
		return next(ctx, cmd)
	}
	info := redis.NewStringCmd(ctx, "info", "cluster")
	if err := next(ctx, info); err != nil {
		cmd.SetErr(err)
		return err
	}
	if strings.Contains(info.Val(), "cluster_enabled:1") {
		g.topology.isCluster.Store(true)
		return next(ctx, cmd)
	}
	cmd.SetVal([]redis.ClusterSlot{{Start: 0, End: lastSlot, Nodes: []redis.ClusterNode{{Addr: g.node}}}})
	return nil
}

const lastSlot = 16383

func (g *guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return g.call(ctx, func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

type insideKey struct{}

// inside marks commands of a guarded call, such as the handshake of a new connection. They are not guarded again.
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

// unreachable reports whether a call failed without a reply. It is false for a canceled call.
func unreachable(err error) bool {
	_, answered := errors.AsType[redis.Error](err)
	return err != nil && !answered && !errors.Is(err, context.Canceled)
}

type topology struct {
	cluster   *redis.ClusterClient
	left      atomic.Int32 // number of reloads still to do
	isCluster atomic.Bool  // a node has said so, and the others need not be asked
}

func (t *topology) changed() {
	if t.left.Swap(reloads) == 0 {
		t.reload()
	}
}

func (t *topology) reload() {
	t.cluster.ReloadState(context.Background()) // returns immediately
	time.AfterFunc(reloadPause, func() {
		if t.left.Add(-1) > 0 {
			t.reload()
		}
	})
}

// refusals are errors that say: Redis has not executed the command, but may execute it if it is repeated in a moment.
var refusals = []string{"TRYAGAIN", "ASK", "MOVED", "CLUSTERDOWN", "MASTERDOWN", "LOADING"}

// refusalBackoff gives up after about 3 s, the time limit of a call: in a transaction, others wait for its locks
// meanwhile. The coupon then fails, and the next run settles it or cleans up after it.
func refusalBackoff() retry.Backoff {
	const repetitions, first, maxPause = 6, 50 * time.Millisecond, time.Second
	return retry.WithMaxRetries(repetitions,
		retry.WithJitterPercent(25, retry.WithCappedDuration(maxPause, retry.NewExponential(first))))
}

// RetryRefused makes the client repeat commands that Redis refused without executing them. Only settle uses it.
func (s *Servers) RetryRefused() { s.Redis.AddHook(refusalHook{}) }

type refusalHook struct{}

func (refusalHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook does not repeat pipelines: only metrics use them.
func (refusalHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (refusalHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		var answer error
		ended := retry.Do(ctx, refusalBackoff(), func(ctx context.Context) error {
			if answer = next(ctx, cmd); refused(answer) {
				return retry.RetryableError(answer)
			}
			return answer
		})
		if answer == nil && ended != nil {
			return ctx.Err() // ctx ended before the first call
		}
		return answer
	}
}

func refused(err error) bool {
	return err != nil && slices.ContainsFunc(refusals,
		func(code string) bool { return redis.HasErrorPrefix(err, code+" ") })
}
