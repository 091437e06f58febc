package ops

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/push"
	"go.uber.org/zap"
)

const (
	pushInterval = 10 * time.Second
	// pushTimeout bounds the delay that an unreachable gateway adds to the end of a program, within the grace of a pod.
	pushTimeout = 2 * time.Second
	// The last push is repeated within pushTimeout.
	pushAttempt = time.Second
	pushPause   = 500 * time.Millisecond
)

// Jobs of the groups at the gateway. A run's group also has the label trigger.
const (
	RunJob    = "settle"
	VerifyJob = "settle-verify"
)

// ValidGateway reports whether a value is empty, or a URL without a password, which logs would show.
func ValidGateway(gateway string) bool {
	u, err := url.Parse(gateway)
	return gateway == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}

// Pusher adds metrics to one group of a gateway, whose other metrics stay. It logs failures and never returns them.
type Pusher struct {
	gateway string // empty: nothing is pushed
	group   *push.Pusher
	logger  *zap.Logger
}

// NewPusher pushes nowhere when gateway is empty.
func NewPusher(gateway, job string, logger *zap.Logger, metrics ...prometheus.Collector) *Pusher {
	p := &Pusher{gateway, push.New(gateway, job).Client(new(http.Client)), logger}
	for _, m := range metrics {
		p.group.Collector(m)
	}
	return p
}

func (p *Pusher) Grouping(label, value string) *Pusher {
	p.group.Grouping(label, value)
	return p
}

// Start pushes every ten seconds until finish is called, and once more then.
func (p *Pusher) Start() (finish func()) {
	if p.gateway == "" {
		return func() {}
	}
	running, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(pushInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-running.Done():
				return
			}
			if err := p.once(running, pushTimeout); err != nil && running.Err() == nil {
				p.logger.Warn("metrics not pushed; the run continues", zap.Error(err))
			}
		}
	}()
	return func() {
		stop()
		<-done
		p.Push()
	}
}

// Push pushes the final values, also after a stop signal.
func (p *Pusher) Push() {
	if p.gateway == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), pushTimeout)
	defer cancel()
	for {
		err := p.once(ctx, pushAttempt)
		if err == nil {
			return
		}
		select {
		case <-time.After(pushPause):
		case <-ctx.Done():
			p.logger.Warn("the last metrics not pushed", zap.Error(fmt.Errorf("push to %s: %w", p.gateway, err)))
			return
		}
	}
}

func (p *Pusher) once(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return p.group.AddContext(ctx)
}
