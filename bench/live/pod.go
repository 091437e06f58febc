package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jajeong/jajeong/bench/line"
	"github.com/jajeong/jajeong/bench/process"
	"github.com/jajeong/jajeong/internal/testenv"
)

// pod is a running apply-api.
type pod struct {
	*testenv.Program
	stage *stage
}

// podConnections is more than what the bench opens beside the streams.
const podConnections = 256

func (s *stage) startPod(ctx context.Context) (*pod, error) {
	settings := []string{
		"MYSQL_DSN=" + s.mysql.DSN(s.name), "REDIS_ADDRS=" + s.redis.Addr(),
		"APPLY_LISTEN=127.0.0.1:0", "APPLY_ADMIN_LISTEN=127.0.0.1:0", "LIVE_LISTEN=127.0.0.1:0",
		fmt.Sprint("MAX_CONNECTIONS=", podConnections), "SHUTDOWN_DELAY=0s", "SHUTDOWN_GRACE=2s",
	}
	if s.streams > wantedStreams {
		settings = append(settings, fmt.Sprint("MAX_STREAMS=", s.streams))
	}
	p, err := testenv.StartProgram(ctx, s.command(ctx, settings, s.apply))
	if err != nil {
		return nil, err
	}
	return &pod{p, s}, nil
}

func (p *pod) stop() { _ = p.Stop() }

func (p *pod) memory() int64 {
	size, _ := process.ResidentMemory(p.Process.Pid)
	return size
}

const (
	applyWithin = 30 * time.Second // all users, with the loading of the catalog
	askWithin   = time.Minute
	askPause    = 50 * time.Millisecond
	connections = 64
)

func applying(coupon int) string {
	return fmt.Sprintf("POST /v1/coupons/%d/applications", coupon)
}

func asking(coupon int) string {
	return fmt.Sprintf("GET /v1/coupons/%d/applications/me", coupon)
}

// applyAll lets every user apply for the coupon.
func (p *pod) applyAll(ctx context.Context, coupon int) error {
	until := time.Now().Add(applyWithin)
	var next atomic.Int64
	var all sync.WaitGroup
	failures := make(chan error, connections)
	for range connections {
		all.Go(func() {
			l := line.New(p.Apply, applying(coupon), until)
			defer l.Close()
			for i := next.Add(1) - 1; i < int64(p.stage.streams); i = next.Add(1) - 1 {
				if err := applyOnce(ctx, l, firstUser+uint64(i), until); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failures)
	return <-failures
}

// applyOnce repeats an application until it is accepted: a new pod does not know its coupons yet.
func applyOnce(ctx context.Context, l *line.Line, user uint64, until time.Time) error {
	for {
		r, err := l.Ask(user)
		if err == nil && (r.Status == http.StatusAccepted || r.Status == http.StatusOK) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("status %d", r.Status)
		}
		if ctx.Err() != nil || time.Now().After(until) {
			return fmt.Errorf("user %d is not accepted: %w", user, err)
		}
		if err := pause(ctx, askPause); err != nil {
			return err
		}
	}
}

// quietly measures applying for a while.
func (p *pod) quietly(ctx context.Context) (waits, error) {
	return p.during(ctx, func() (from, to time.Time, err error) {
		from = time.Now()
		err = pause(ctx, p.stage.load)
		return from, time.Now(), err
	})
}
