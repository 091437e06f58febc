// Package schedule settles every night by a timetable, in a process that stays running. It catches up on missed nights.
package schedule

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/calendar"
)

const (
	// maxMissed bounds the nights of one catch-up. The first of them settles all older applications too.
	maxMissed = 400
	// A failed night is repeated after firstRetry. The wait doubles with each failure, up to maxRetry.
	firstRetry = time.Minute
	maxRetry   = 15 * time.Minute
	// maxSleep is how long the schedule sleeps before it looks at the Redis clock again.
	maxSleep = 15 * time.Minute
)

// Timetable says when nights are settled, by the clocks of a zone. A time that they skip fires when they are put
// forward, a time that they show twice fires once, at its first instant.
type Timetable struct {
	fields *cron.SpecSchedule // evaluated in UTC, which skips no time
}

// Parse reads a cron expression of five fields, or a descriptor such as @daily. A firing within calendar.MaxEarliness
// before midnight is an error, because such a run would settle the coming cutoff.
func Parse(expression string) (*Timetable, error) {
	timetable, err := cron.ParseStandard("CRON_TZ=UTC " + expression)
	if err != nil {
		return nil, fmt.Errorf("%q is not a cron expression such as 0 0 * * *: %w", expression, err)
	}
	fields, ok := timetable.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("%q has no fixed time of day: want a cron expression such as 0 0 * * *", expression)
	}
	if timetable.Next(time.Unix(0, 0)).IsZero() {
		return nil, fmt.Errorf("%q never fires", expression)
	}
	const lastHour, lastMinutes = 1 << 23, 0b11111 << 55 // 23:55 to 23:59
	if fields.Hour&lastHour != 0 && fields.Minute&lastMinutes != 0 {
		return nil, fmt.Errorf("%q fires within %s before midnight: want midnight or later, such as 0 0 * * *",
			expression, calendar.MaxEarliness)
	}
	return &Timetable{fields}, nil
}

// Next returns the first firing in zone after t, in the location of t; zero if there is none within five years.
func (s *Timetable) Next(t time.Time, zone *time.Location) time.Time {
	wall := s.fields.Next(calendar.Wall(t.In(zone)))
	for ; !wall.IsZero(); wall = s.fields.Next(wall) {
		if at, _ := calendar.At(wall, zone); at.After(t) {
			return at.In(t.Location())
		}
	}
	return time.Time{}
}

// Clock is the Redis clock, which decides whether a midnight has passed.
type Clock interface {
	Now(ctx context.Context) (time.Time, error)
}

// Config is what a Scheduler needs. Every field is required.
type Config struct {
	// Timetable says when the first night after an instant is settled, by the clocks of a zone; see type Timetable.
	Timetable interface {
		Next(after time.Time, zone *time.Location) time.Time
	}
	// Zone returns the zone of the nights. If it becomes another one, that counts from the next look at the clock.
	Zone  func(ctx context.Context) (*time.Location, error)
	Clock Clock
	// LastNight returns the highest cutoff, up to newest, that a nightly run has settled, or zero if there is none.
	LastNight func(ctx context.Context, newest time.Time) (time.Time, error)
	// Kept reports whether MySQL still has the end of the night that Settle has settled last: a failover may have lost
	// it, also in part.
	Kept func(ctx context.Context) (bool, error)
	// Settle settles one night. If the run reached every coupon, complete is true: later nights follow in spite of err.
	Settle func(ctx context.Context, cutoff time.Time) (complete bool, err error)
	// Away reports whether err means that a server is away.
	Away func(err error) bool
	// Wait returns after d, or with an error when ctx has ended.
	Wait   func(ctx context.Context, d time.Duration) error
	Logger *zap.Logger
}

// Scheduler settles every night in one loop. Each coupon's row lock orders it with other schedulers and operators.
type Scheduler struct{ Config }

func New(config Config) (*Scheduler, error) {
	if config.Timetable == nil || config.Zone == nil || config.Clock == nil || config.LastNight == nil ||
		config.Kept == nil || config.Settle == nil ||
		config.Away == nil || config.Wait == nil || config.Logger == nil {
		return nil, errors.New("schedule: a field of Config is missing")
	}
	return &Scheduler{config}, nil
}

// moment is an instant by the Redis clock, and the zone of the nights then.
type moment struct {
	time.Time
	zone *time.Location
}

func (s *Scheduler) now(ctx context.Context) (now moment, err error) {
	if now.zone, err = s.Zone(ctx); err == nil {
		now.Time, err = s.Clock.Now(ctx)
	}
	if err != nil {
		return moment{}, err
	}
	return now, nil
}

func (s *Scheduler) firing(after moment) time.Time { return s.Timetable.Next(after.Time, after.zone) }

// Run settles the missed nights, and then one night at each firing. The end of ctx ends it, and the current run too. If
// a night could not begin because a server is away, Run returns the error: it should be called again within seconds.
func (s *Scheduler) Run(ctx context.Context) error {
	retry := firstRetry
	for {
		now, err := s.settleMissed(ctx)
		if ctx.Err() != nil {
			if err != nil {
				s.Logger.Info("night interrupted", zap.Error(err))
			}
			return nil
		}
		switch {
		case err == nil:
			retry = firstRetry
			err = s.sleep(ctx, now)
		case now.IsZero() && s.Away(err):
			return err
		default:
			wait := retry
			if !now.IsZero() {
				wait = min(retry, max(s.firing(now).Sub(now.Time), firstRetry))
			}
			retry = min(2*retry, maxRetry)
			s.Logger.Error("night not settled", zap.Duration("next_try_in", wait), zap.Error(err))
			err = s.Wait(ctx, wait)
		}
		if err != nil {
			return nil
		}
	}
}

// sleep returns at the next firing by the Redis clock, which may be adjusted during the sleep. It returns at once if
// the nights are of another zone, in which some may already have passed, or if MySQL has lost the last night.
func (s *Scheduler) sleep(ctx context.Context, now moment) error {
	firing := s.firing(now)
	s.Logger.Info("waiting for the next night", zap.Duration("in", firing.Sub(now.Time)))
	for {
		wait := min(firing.Sub(now.Time), maxSleep)
		if err := s.Wait(ctx, wait); err != nil {
			return err
		}
		at, err := s.now(ctx)
		if err != nil {
			at = moment{now.Add(wait), now.zone} // if a server does not answer, go by the time slept
		}
		if at.zone.String() != now.zone.String() {
			s.Logger.Warn("the nights are of another zone", zap.Stringer("before", now.zone),
				zap.Stringer("now", at.zone))
			return nil
		}
		if now = at; !now.Before(firing) {
			return nil
		}
		if kept, err := s.Kept(ctx); err == nil && !kept {
			s.Logger.Warn("MySQL does not have the end of the last night: settling it again",
				zap.Time("cutoff", calendar.DefaultCutoff(now.Time, now.zone)))
			return nil
		}
		if earlier := s.firing(now); earlier.Before(firing) {
			firing = earlier
			s.Logger.Warn("the Redis clock was set back", zap.Duration("next_night_in", firing.Sub(now.Time)))
		}
	}
}

// settleMissed settles every cutoff after the last settled one, in order. It returns the Redis clock, or zero if a
// failure left nights unsettled. The newest cutoff is settled again: its run may have been interrupted or early.
func (s *Scheduler) settleMissed(ctx context.Context) (now moment, err error) {
	now, err = s.now(ctx)
	if err != nil {
		return moment{}, err
	}
	newest := calendar.DefaultCutoff(now.Time, now.zone)
	last, err := s.LastNight(ctx, newest)
	if err != nil {
		// MySQL is probably away. A run of the newest night moves the first applications of all nights to the DLQ.
		if _, settling := s.settle(ctx, newest); settling != nil {
			err = settling
		}
		return moment{}, err
	}
	var failed error
	for _, cutoff := range missedNights(last, newest, now.zone) {
		complete, err := s.settle(ctx, cutoff)
		if err != nil && !complete {
			return moment{}, err // no later night may be settled before this one
		}
		if err != nil {
			failed = err
		}
	}
	if now, err = s.now(ctx); err != nil {
		return moment{}, err
	}
	return now, failed
}

// missedNights returns the cutoffs after last up to newest, in order; only newest if last is zero.
func missedNights(last, newest time.Time, zone *time.Location) (nights []time.Time) {
	nights = []time.Time{newest}
	if last.IsZero() {
		return nights
	}
	for night := calendar.PreviousCutoff(newest, zone); night.After(last) &&
		len(nights) < maxMissed; night = calendar.PreviousCutoff(night, zone) {
		nights = append(nights, night)
	}
	slices.Reverse(nights)
	return nights
}

func (s *Scheduler) settle(ctx context.Context, cutoff time.Time) (complete bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			complete, err = false, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return s.Settle(ctx, cutoff)
}
