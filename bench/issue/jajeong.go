package issue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/batch"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/handover"
)

// openJajeong wires what an apply-api pod has behind its HTTP handler.
func openJajeong(ctx context.Context, v *stand) (press, error) {
	if err := v.Exec(ctx, "UPDATE coupon SET cadence = 'IMMEDIATE'"); err != nil {
		return nil, err
	}
	memory := handover.New(v.Store, candidates.HandOverTime, time.Now, zap.NewNop())
	v.Store.Recorder = memory
	coupons := catalog.New(catalog.Options{DB: v.Servers.MySQL, Store: v.Store, Memory: memory, Logger: zap.NewNop(),
		Now: time.Now})
	if err := coupons.Refresh(ctx); err != nil {
		return nil, err
	}
	if !v.idle {
		refresh, stop := context.WithCancel(ctx)
		var refreshing sync.WaitGroup
		refreshing.Go(func() { coupons.Run(refresh) })
		refreshing.Go(func() { memory.Run(refresh) })
		v.AtEnd(func() { stop(); refreshing.Wait() })
	}
	batches := batch.New(v.Store.ApplyAll, prometheus.NewRegistry(), time.Now)
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
