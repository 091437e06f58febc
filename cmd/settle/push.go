package main

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

	"github.com/jajeong/jajeong/internal/settle"
)

const (
	// pushEvery is as often as a gateway is usually scraped.
	pushEvery = 10 * time.Second
	// pushTimeout bounds one push, and by how much a gateway that is away can hold up the end of a run: a pod has 30 s
	// after SIGTERM, of which the grace takes 25 and writing down the end 3.
	pushTimeout = 2 * time.Second
	// pushJob is the group of all runs at the gateway, with the trigger: a person's run leaves that of the night alone.
	pushJob = "settle"
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
func (p *program) push(gateway string, trigger settle.Trigger, metrics prometheus.Collector) (finish func()) {
	if gateway == "" {
		return func() {}
	}
	pusher := push.New(gateway, pushJob).Grouping("trigger", string(trigger)).Collector(metrics).Client(new(http.Client))
	send := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, pushTimeout)
		defer cancel()
		return pusher.AddContext(ctx) // what is not among it, as the last success, stays as it is
	}
	running, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for settle.Wait(running, pushEvery) == nil {
			if err := send(running); err != nil && running.Err() == nil {
				p.logger.Warn("metrics not pushed: the settlement goes on without", zap.Error(err))
			}
		}
	}()
	return func() {
		stop()
		<-done
		if err := send(context.Background()); err != nil {
			p.logger.Warn("metrics of the run not pushed", zap.Error(fmt.Errorf("push to %s: %w", gateway, err)))
		}
	}
}
