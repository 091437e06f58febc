package issue

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/connect"
)

// setup describes the coupons of one measurement.
type setup struct {
	coupons, seats int // seats of each coupon
	users          int // numbered from 1
	interval       time.Duration
	idle           bool // nobody presses: the pod's refresh of the catalog does not run
}

// stand is one contender with its workers in a shop of its own.
type stand struct {
	*stage.Shop
	setup
	contender contender
	press     press
	workers   []*exec.Cmd
}

// openStand starts the servers and workers of a contender.
func (m *measurement) openStand(ctx context.Context, c contender, of setup) (v *stand, err error) {
	shop, err := m.OpenShop(ctx, of.coupons, of.seats)
	if err != nil {
		return nil, err
	}
	v = &stand{Shop: shop, setup: of, contender: c}
	if err = v.AddUsers(ctx, 1, v.users); err == nil {
		v.press, err = c.open(ctx, v)
	}
	for range c.workers {
		if err == nil {
			err = v.addWorker(ctx)
		}
	}
	if err != nil {
		v.close()
		return nil, fmt.Errorf("%s: %w", c.title, err)
	}
	return v, nil
}

// close ends the workers first, and then the servers.
func (v *stand) close() {
	v.stopWorkers()
	v.Shop.Close()
}

func (v *stand) addWorker(ctx context.Context) error {
	cmd, err := v.worker(ctx)
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	v.workers = append(v.workers, cmd)
	return nil
}

// worker names a consumer by its place, like a StatefulSet, so that a restarted one finds what it had read.
func (v *stand) worker(ctx context.Context) (*exec.Cmd, error) {
	if v.contender.role == "" {
		return v.Settle(ctx, "serve", "--tasks=issue,journal", "--issue-interval="+v.interval.String(),
			"--admin-listen=127.0.0.1:0", "--log-level=error")
	}
	return v.Worker(ctx, v.contender.role, len(v.workers))
}

// killWorker ends the first worker with SIGKILL.
func (v *stand) killWorker() {
	_ = v.workers[0].Process.Kill()
	_ = v.workers[0].Wait()
	v.workers = slices.Delete(v.workers, 0, 1)
}

// stopWorkers lets the workers finish what is in hand.
func (v *stand) stopWorkers() {
	for _, cmd := range v.workers {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, cmd := range v.workers {
		_ = cmd.Wait()
	}
	v.workers = nil
}

// Roles are the workers of contenders.
var Roles = stage.Roles{streamWorker: work(readStream), tasksWorker: work(handleTasks)}

// work runs a worker until SIGTERM or the end of stdin.
func work(run func(ctx context.Context, s *connect.Servers, w stage.Wiring) error) stage.Work {
	return stage.Worker(func(ctx context.Context, w stage.Wiring) error {
		servers, err := connect.Open(&connect.MySQLSettings{MySQLDSN: w.DSN}, connect.Settling,
			&connect.RedisSettings{RedisAddrs: []string{w.Redis}}, zap.NewNop())
		if err != nil {
			return err
		}
		defer servers.Close()
		return run(ctx, servers, w)
	})
}
