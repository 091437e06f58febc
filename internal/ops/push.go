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
	// pushTimeout bounds how long an unreachable gateway delays the end of a program. A pod's grace period is longer.
	pushTimeout = 2 * time.Second
	// The last push is tried until pushTimeout. A try takes at most pushAttempt; pushPause is the wait between tries.
	pushAttempt = time.Second
	pushPause   = 500 * time.Millisecond
)

// The gateway groups metrics by the label job, with these values, and by the deployment. Metrics of a run also have the
// label trigger.
const (
	RunJob    = "settle"
	VerifyJob = "settle-verify"
	PurgeJob  = "settle-purge"
	TablesJob = "settle-tables"
)

// ValidGateway reports whether gateway is empty, or an HTTP URL without user and password. Logs would show a password.
func ValidGateway(gateway string) bool {
	u, err := url.Parse(gateway)
	return gateway == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}

// Pusher pushes metrics to one group of a gateway, keeps the group's other metrics, and logs failures.
type Pusher struct {
	gateway string // empty: nothing is pushed
	group   *push.Pusher
	whole   bool // the group has no other metrics
	logger  *zap.Logger
}

func NewPusher(gateway, job string, logger *zap.Logger, metrics ...prometheus.Collector) *Pusher {
	p := &Pusher{gateway: gateway, group: push.New(gateway, job).Client(new(http.Client)), logger: logger}
	for _, m := range metrics {
		p.group.Collector(m)
	}
	return p
}

func (p *Pusher) Grouping(label, value string) *Pusher {
	p.group.Grouping(label, value)
	return p
}

// Whole lets the group have no metrics but these: those of an earlier push go.
func (p *Pusher) Whole() *Pusher {
	p.whole = true
	return p
}

// Start pushes every ten seconds until finish is called. finish pushes once more.
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

// Push pushes the final values. It also works after a stop signal, since it has a timeout of its own.
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
	if p.whole {
		return p.group.PushContext(ctx)
	}
	return p.group.AddContext(ctx)
}
