package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/batch"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/recall"
)

const keysLive = 168 * time.Hour // the default of CANDIDATE_TTL

// openJajeong wires what an apply-api pod has behind its HTTP handler.
func openJajeong(ctx context.Context, v *stand) (press, error) {
	if _, err := v.db.ExecContext(ctx, "UPDATE coupon SET cadence = 'IMMEDIATE'"); err != nil {
		return nil, err
	}
	store, err := candidates.NewStore(v.servers.Redis, candidates.Options{TTL: keysLive})
	if err != nil {
		return nil, err
	}
	coupons := catalog.New(catalog.Options{DB: v.servers.MySQL, Store: store, Memory: recall.New(store), Logger: zap.NewNop(), Now: time.Now})
	if err := coupons.Refresh(ctx); err != nil {
		return nil, err
	}
	if !v.idle {
		refresh, stop := context.WithCancel(ctx)
		var refreshing sync.WaitGroup
		refreshing.Go(func() { coupons.Run(refresh) })
		v.atEnd(func() { stop(); refreshing.Wait() })
	}
	batches := batch.New(store.ApplyAll, prometheus.NewRegistry(), time.Now)
	return func(ctx context.Context, couponID, user int) (answer, uint64, error) {
		receipt, err := batches.Apply(ctx, coupon.CouponID(couponID), coupon.UserID(user))
		if err != nil {
			return failed, 0, err
		}
		switch receipt.Code {
		case candidates.Accepted:
			return accepted, uint64(receipt.Arrival), nil
		case candidates.Duplicate, candidates.AlreadyIssued, candidates.UnderReview:
			return duplicate, 0, nil
		case candidates.SoldOut:
			return soldOut, 0, nil
		default:
			return failed, 0, fmt.Errorf("apply: %s", receipt.Code)
		}
	}, nil
}

// settleCommand is a command of settle on the servers of this stand.
func (v *stand) settleCommand(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, v.stage.settle, append(args, "--mysql-dsn="+v.dsn, "--redis-addrs="+v.redis.Addr())...)
}

func serveIssue(ctx context.Context, v *stand, _ int) (*exec.Cmd, error) {
	cmd := v.settleCommand(ctx, "serve", "--tasks=issue", "--issue-interval="+v.interval.String(), "--admin-listen=127.0.0.1:0", "--log-level=error")
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// verify runs `settle verify`, which knows every invariant.
func (v *stand) verify(ctx context.Context) error {
	cmd := v.settleCommand(ctx, "verify")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("settle verify: %w: %s", err, out.String())
	}
	return nil
}
