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
)

// Scheduler settles by a timetable in this process. It is one loop, so that it can never overlap itself; beside other
// schedulers, CronJobs and people the coupon's row lock keeps order.
type Scheduler struct {
	Timetable cron.Schedule
	Zone      *time.Location
	Clock     Clock // Redis's, which decides what midnight has passed
	// LastNight is the highest cutoff that a nightly run has settled; zero when there was none.
	LastNight func(ctx context.Context) (time.Time, error)
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
	retry, again := firstRetry, true // at the start the newest night is settled again: it costs little and mends what a stop left
	for {
		wait, err := s.settleMissed(ctx, again)
		again = err != nil
		if ctx.Err() != nil {
			if err != nil {
				s.Logger.Info("night interrupted", zap.Error(err))
			}
			return
		}
		if err != nil {
			wait, retry = min(retry, max(wait, firstRetry)), min(2*retry, longestRetry)
			s.Logger.Error("night not settled", zap.Duration("next_try_in", wait), zap.Error(err))
		} else {
			retry = firstRetry
			s.Logger.Info("waiting for the next night", zap.Duration("in", wait))
		}
		if s.Wait(ctx, wait) != nil {
			return
		}
	}
}

// settleMissed settles every midnight that has passed since the last one settled, in order, one run each, and returns
// how long it is to the next tick by the Redis clock: this pod's may be wrong. With again the newest is settled in any
// case. A coupon that fails stays due and does not keep the nights behind from the others.
func (s *Scheduler) settleMissed(ctx context.Context, again bool) (untilNext time.Duration, err error) {
	now, err := s.Clock.Now(ctx)
	if err != nil {
		return longestRetry, err
	}
	newest := DefaultCutoff(now, s.Zone)
	last, err := s.LastNight(ctx)
	if err != nil {
		// MySQL is away, or worse. The newest night does what can be done without; it holds everything of those before it.
		if settling := s.settleNight(ctx, newest); settling != nil {
			err = settling
		}
		return longestRetry, err
	}
	nights := missedNights(last, newest, s.Zone)
	if len(nights) == 0 && again {
		nights = []time.Time{newest}
	}
	var failed *CouponsFailed
	for _, cutoff := range nights {
		err := s.settleNight(ctx, cutoff)
		if err != nil && !errors.As(err, &failed) {
			return longestRetry, err // nobody was settled: the nights behind must not be before this one
		}
	}
	if now, err = s.Clock.Now(ctx); err != nil {
		return longestRetry, err
	}
	untilNext = s.Timetable.Next(now).Sub(now)
	if failed != nil {
		return untilNext, failed
	}
	return untilNext, nil
}

// missedNights are the cutoffs behind last up to the newest; only the newest when nothing was ever settled.
func missedNights(last, newest time.Time, zone *time.Location) (nights []time.Time) {
	if last.IsZero() {
		return []time.Time{newest}
	}
	for night := newest; night.After(last) && len(nights) < mostMissed; night = midnight(night, zone, -1) {
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
