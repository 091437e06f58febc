package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/push"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
)

const (
	// pushEvery is as often as a gateway is usually scraped.
	pushEvery = 10 * time.Second
	// pushTimeout bounds one push, and by how much a gateway that is away can hold up the end of a verb: a pod has 30 s
	// after SIGTERM, of which the grace takes 25 and writing down the end 3.
	pushTimeout = 2 * time.Second
	// The last push is the one that stays. A gateway that restarts, or drops a connection, is asked again in that time.
	pushAttempt = time.Second
	pushAgain   = 500 * time.Millisecond

	// Groups at the gateway. That of runs goes with the trigger: a person's run leaves that of the night alone.
	runJob    = "settle"
	verifyJob = "settle-verify"
)

// checkGateway refuses what is no address, and a password, which would show in logs.
func checkGateway(gateway string) error {
	if gateway == "" {
		return nil
	}
	u, err := url.Parse(gateway)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return errors.New("PUSH_GATEWAY is not the URL of a gateway: want one such as http://pushgateway:9091, without a password")
	}
	return nil
}

// push tells a gateway of a run while it goes on, and once more when finish is called. It never fails a run: a gateway that
// is away is a warning.
func (p *program) push(gateway string, trigger coupon.Trigger, metrics prometheus.Collector) (finish func()) {
	if gateway == "" {
		return func() {}
	}
	group := pushGroup(gateway, runJob, metrics).Grouping("trigger", string(trigger))
	running, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for settle.Wait(running, pushEvery) == nil {
			if err := pushWithin(running, pushTimeout, group); err != nil && running.Err() == nil {
				p.logger.Warn("metrics not pushed: the settlement goes on without", zap.Error(err))
			}
		}
	}()
	return func() {
		stop()
		<-done
		p.pushLast(gateway, group)
	}
}

func pushGroup(gateway, job string, metrics prometheus.Collector) *push.Pusher {
	return push.New(gateway, job).Collector(metrics).Client(new(http.Client))
}

// pushWithin adds to what the gateway holds: what is not among it, as the last success, stays as it is.
func pushWithin(ctx context.Context, bound time.Duration, group *push.Pusher) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return group.AddContext(ctx)
}

// pushLast tells what stays until the next push, also when the verb was told to stop.
func (p *program) pushLast(gateway string, group *push.Pusher) {
	ctx, cancel := context.WithTimeout(context.Background(), pushTimeout)
	defer cancel()
	err := pushWithin(ctx, pushAttempt, group)
	for err != nil && settle.Wait(ctx, pushAgain) == nil {
		err = pushWithin(ctx, pushAttempt, group)
	}
	if err != nil {
		p.logger.Warn("the last metrics not pushed", zap.Error(fmt.Errorf("push to %s: %w", gateway, err)))
	}
}
