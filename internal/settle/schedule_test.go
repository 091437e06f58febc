package settle

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// night is a scheduler whose clock moves only when it waits.
type night struct {
	now     time.Time
	last    time.Time
	settled []time.Time
	waits   []time.Duration
	settle  func(cutoff time.Time) error // nil settles
	until   time.Time                    // it is told to stop then
	away    time.Time                    // until then nobody knows the last night
}

func (n *night) Now(context.Context) (time.Time, error) { return n.now, nil }

func (n *night) run(t *testing.T) {
	zone := seoul(t)
	timetable, err := ParseSchedule("0 0 * * *", zone)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	(&Scheduler{
		Timetable: timetable, Zone: zone, Clock: n, Logger: zap.NewNop(),
		LastNight: func(context.Context) (time.Time, error) {
			if n.now.Before(n.away) {
				return time.Time{}, errors.New("mysql is away")
			}
			return n.last, nil
		},
		Settle: func(_ context.Context, cutoff time.Time) error {
			if n.settle != nil {
				if err := n.settle(cutoff); err != nil {
					return err
				}
			}
			n.settled, n.last = append(n.settled, cutoff), cutoff
			return nil
		},
		Wait: func(ctx context.Context, d time.Duration) error {
			n.waits, n.now = append(n.waits, d), n.now.Add(d)
			if !n.now.Before(n.until) {
				stop()
			}
			return context.Cause(ctx)
		},
	}).Run(ctx)
}

func at(t *testing.T, text string) time.Time {
	instant, err := time.ParseInLocation("2006-01-02 15:04:05", text, seoul(t))
	require.NoError(t, err)
	return instant
}

func TestScheduleSettlesEveryNightAndCatchesUpInOrder(t *testing.T) {
	t.Parallel()
	n := &night{now: at(t, "2026-11-20 15:00:00"), last: at(t, "2026-11-17 00:00:00"), until: at(t, "2026-11-23 00:00:00")}
	n.run(t)
	require.Equal(t, []time.Time{
		at(t, "2026-11-18 00:00:00"), at(t, "2026-11-19 00:00:00"), at(t, "2026-11-20 00:00:00"), // missed
		at(t, "2026-11-21 00:00:00"), at(t, "2026-11-22 00:00:00"),
	}, n.settled)
	require.Equal(t, 9*time.Hour, n.waits[0])
}

func TestScheduleThatNeverRanSettlesTheLastMidnightOnly(t *testing.T) {
	t.Parallel()
	n := &night{now: at(t, "2026-11-20 15:00:00"), until: at(t, "2026-11-20 23:00:00")}
	n.run(t)
	require.Equal(t, []time.Time{at(t, "2026-11-20 00:00:00")}, n.settled)
}

// Without MySQL the first in line are put under review, which is the night's to do.
func TestScheduleSettlesTheNewestNightWhereNobodyKnowsTheLast(t *testing.T) {
	t.Parallel()
	var tried []time.Time
	n := &night{now: at(t, "2026-11-21 00:00:00"), last: at(t, "2026-11-18 00:00:00"),
		away: at(t, "2026-11-21 00:02:30"), until: at(t, "2026-11-21 12:00:00")}
	n.settle = func(cutoff time.Time) error {
		tried = append(tried, cutoff)
		if n.now.Before(n.away) {
			return errors.New("mysql is away")
		}
		return nil
	}
	n.run(t)
	newest := at(t, "2026-11-21 00:00:00")
	require.Equal(t, []time.Time{newest, newest, at(t, "2026-11-19 00:00:00"), at(t, "2026-11-20 00:00:00"), newest}, tried)
	require.Equal(t, []time.Duration{time.Minute, 2 * time.Minute}, n.waits[:2])
}

func TestScheduleTriesAFailedNightAgainBeforeTheNext(t *testing.T) {
	t.Parallel()
	failures := 3
	n := &night{now: at(t, "2026-11-21 00:00:00"), last: at(t, "2026-11-19 00:00:00"), until: at(t, "2026-11-21 12:00:00")}
	n.settle = func(cutoff time.Time) error {
		if failures--; failures >= 0 {
			return errors.New("mysql is away")
		}
		return nil
	}
	n.run(t)
	require.Equal(t, []time.Time{at(t, "2026-11-20 00:00:00"), at(t, "2026-11-21 00:00:00")}, n.settled)
	require.Equal(t, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute}, n.waits[:3])
}

func TestScheduleSurvivesAPanic(t *testing.T) {
	t.Parallel()
	panics := 1
	n := &night{now: at(t, "2026-11-21 00:00:00"), until: at(t, "2026-11-21 01:00:00")}
	n.settle = func(time.Time) error {
		if panics--; panics >= 0 {
			panic("nil map")
		}
		return nil
	}
	n.run(t)
	require.Equal(t, []time.Time{at(t, "2026-11-21 00:00:00")}, n.settled)
}

func TestMissedNightsAreBounded(t *testing.T) {
	t.Parallel()
	zone := seoul(t)
	newest := at(t, "2026-11-21 00:00:00")
	nights := missedNights(newest.AddDate(-10, 0, 0), newest, zone)
	require.Len(t, nights, mostMissed)
	require.Equal(t, newest, nights[len(nights)-1])
	require.Empty(t, missedNights(newest, newest, zone))
}

func TestParseSchedule(t *testing.T) {
	t.Parallel()
	zone := seoul(t)
	schedule, err := ParseSchedule("0 0 * * *", zone)
	require.NoError(t, err)
	require.True(t, at(t, "2026-11-21 00:00:00").Equal(schedule.Next(at(t, "2026-11-20 23:59:59"))))
	for _, wrong := range []string{"", "midnight", "0 0 0 * * *", "61 0 * * *", "0 0 31 2 *"} {
		_, err := ParseSchedule(wrong, zone)
		require.Error(t, err, wrong)
	}
}
