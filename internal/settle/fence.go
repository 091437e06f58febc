package settle

import (
	"context"
	"time"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"go.uber.org/zap"
)

// takeovers are how often a settlement is attempted where another server takes over each time while it reads the line. Each
// costs the time that pods have.
const takeovers = 3

// errTakenOver: the line was read while another server of Redis took over.
var errTakenOver = &coupon.Error{Class: coupon.Infrastructure, Err: told(TakenOver)}

// meet renews the life of the line, and has the door note which server it is on.
func (s *settlement) meet(ctx context.Context) error {
	if err := s.Door.Renew(ctx, s.coupon.ID, s.coupon.ClosesAt); err != nil || !s.due() {
		return err
	}
	_, _, err := s.fence(ctx)
	return err
}

// waitForFence returns when the clock of the coupon's shard has passed the cutoff, and pods have had the time to put back
// whom a failover took with it: from then on nothing can arrive below it, so that what the settlement reads is all there
// will ever be.
func (s *settlement) waitForFence(ctx context.Context) error {
	s.begin(StepFence)
	for {
		wait, forPods, err := s.fence(ctx)
		if err != nil || wait+forPods == 0 {
			return err
		}
		if forPods > 0 {
			s.logger.Warn("another redis server took over: pods put people back first", zap.Duration("wait", forPods))
			wait = forPods
		}
		if err := s.run.stopped(); err != nil {
			return err
		}
		if wait > calendar.MaxEarliness {
			return setupError("the cutoff %s is %s in the future by the Redis clock", s.run.cutoff.Format(time.RFC3339), wait.Round(time.Second))
		}
		if Wait(s.run.told, wait) != nil {
			return s.run.stopped()
		}
	}
}

func (s *settlement) fence(ctx context.Context) (wait, forPods time.Duration, err error) {
	if s.coupon.Finalised() { // nobody can have been told anything since its door was shut
		wait, _, err = s.Door.Fence(ctx, s.coupon.ID, s.run.cutoff, coupon.Promise{})
		return wait, 0, err
	}
	return s.Door.Fence(ctx, s.coupon.ID, s.run.cutoff, s.coupon.Promise)
}

// sameServer is an error when another server has taken over since the fence, or the coupon's state was lost.
func (s *settlement) sameServer(ctx context.Context) error {
	if s.run.dryRun {
		return nil
	}
	_, forPods, err := s.fence(ctx)
	if err == nil && forPods > 0 {
		return errTakenOver
	}
	return err
}
