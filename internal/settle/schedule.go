package settle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/zap"
)

// Bounds of a schedule.
const (
	// mostMissed bounds the nights caught up at once. Older applications are not lost: the first night settled takes
	// everything before its cutoff.
	mostMissed = 400
	// A night that failed is tried again after firstRetry, then twice as long each time up to longestRetry.
	firstRetry   = time.Minute
	longestRetry = 15 * time.Minute
	// longestSleep is how long the Redis clock may have been wrong before the schedule notices.
	longestSleep = 15 * time.Minute
)

// Scheduler settles by a timetable in this process. It is one loop, so that it can never overlap itself; beside other
// schedulers, CronJobs and people the coupon's row lock keeps order.
type Scheduler struct {
	Timetable cron.Schedule
	Zone      *time.Location
	Clock     Clock // Redis's, which decides what midnight has passed
	// LastNight is the highest cutoff up to the newest that a nightly run has settled; zero when there was none.
	LastNight func(ctx context.Context, newest time.Time) (time.Time, error)
	// Settle settles one night.
	Settle func(ctx context.Context, cutoff time.Time) error
	// Wait returns when d has passed, or with an error when ctx has ended.
	Wait   func(ctx context.Context, d time.Duration) error
	Logger *zap.Logger
}

// ParseSchedule reads a cron expression of five fields, or @daily and its like, in zone.
func ParseSchedule(expression string, zone *time.Location) (cron.Schedule, error) {
	schedule, err := cron.ParseStandard(fmt.Sprintf("CRON_TZ=%s %s", zone, expression))
	if err != nil {
		return nil, fmt.Errorf("%q is not a cron expression such as 0 0 * * *: %w", expression, err)
	}
	if schedule.Next(time.Unix(0, 0)).IsZero() {
		return nil, fmt.Errorf("%q never comes", expression)
	}
	return schedule, nil
}

// Run catches up what was missed and then settles at every tick until ctx ends. A run in hand is told to stop by the
// same ctx, has its grace, and is waited for.
func (s *Scheduler) Run(ctx context.Context) {
	retry := firstRetry
	for {
		now, err := s.settleMissed(ctx)
		if ctx.Err() != nil {
			if err != nil {
				s.Logger.Info("night interrupted", zap.Error(err))
			}
			return
		}
		if err != nil {
			wait := retry
			if !now.IsZero() {
				wait = min(retry, max(s.Timetable.Next(now).Sub(now), firstRetry))
			}
			retry = min(2*retry, longestRetry)
			s.Logger.Error("night not settled", zap.Duration("next_try_in", wait), zap.Error(err))
			err = s.Wait(ctx, wait)
		} else {
			retry = firstRetry
			err = s.sleep(ctx, now)
		}
		if err != nil {
			return
		}
	}
}

// sleep returns at the next tick by the Redis clock: this pod's may be wrong. So may that one have been, and be set right
// meanwhile; therefore it is looked at again and again.
func (s *Scheduler) sleep(ctx context.Context, now time.Time) error {
	tick := s.Timetable.Next(now)
	s.Logger.Info("waiting for the next night", zap.Duration("in", tick.Sub(now)))
	for {
		wait := min(tick.Sub(now), longestSleep)
		if err := s.Wait(ctx, wait); err != nil {
			return err
		}
		at, err := s.Clock.Now(ctx)
		if err != nil {
			at = now.Add(wait) // Redis may be back when it is needed
		}
		if now = at; !now.Before(tick) {
			return nil
		}
		if earlier := s.Timetable.Next(now); earlier.Before(tick) {
			tick = earlier
			s.Logger.Warn("the Redis clock was set back", zap.Duration("next_night_in", tick.Sub(now)))
		}
	}
}

// settleMissed settles every midnight that has passed since the last one settled, in order, one run each, and returns the
// Redis clock. The newest is settled whatever is recorded: that costs little, and mends what a stop left, or a clock that was
// ahead, by which it had been settled before it came. A coupon that fails stays due and does not keep the nights behind from
// the others.
func (s *Scheduler) settleMissed(ctx context.Context) (now time.Time, err error) {
	now, err = s.Clock.Now(ctx)
	if err != nil {
		return time.Time{}, err
	}
	newest := DefaultCutoff(now, s.Zone)
	last, err := s.LastNight(ctx, newest)
	if err != nil {
		// MySQL is away, or worse. The newest night does what can be done without; it holds everything of those before it.
		if settling := s.settleNight(ctx, newest); settling != nil {
			err = settling
		}
		return time.Time{}, err
	}
	var failed *CouponsFailed
	for _, cutoff := range missedNights(last, newest, s.Zone) {
		err := s.settleNight(ctx, cutoff)
		if err != nil && !errors.As(err, &failed) {
			return time.Time{}, err // nobody was settled: the nights behind must not be before this one
		}
	}
	if now, err = s.Clock.Now(ctx); err != nil {
		return time.Time{}, err
	}
	if failed != nil {
		return now, failed
	}
	return now, nil
}

// missedNights are the cutoffs behind last up to the newest, which is always among them; alone when nothing was ever
// settled.
func missedNights(last, newest time.Time, zone *time.Location) (nights []time.Time) {
	nights = []time.Time{newest}
	if last.IsZero() {
		return nights
	}
	for night := midnight(newest, zone, -1); night.After(last) && len(nights) < mostMissed; night = midnight(night, zone, -1) {
		nights = append([]time.Time{night}, nights...)
	}
	return nights
}

// settleNight settles one night; a panic in it is an error like any other.
func (s *Scheduler) settleNight(ctx context.Context, cutoff time.Time) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return s.Settle(ctx, cutoff)
}
