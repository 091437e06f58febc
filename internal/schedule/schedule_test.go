package schedule

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/calendar"
)

// errCoupon is an error of one coupon.
var errCoupon = errors.New("coupon 7 is busy")

// night is a scheduler whose clock moves only when it waits.
type night struct {
	zone      *time.Location // nil: Seoul
	now       time.Time
	last      time.Time
	settled   []time.Time
	settledAt []time.Time // by the Redis clock
	waits     []time.Duration
	settle    func(cutoff time.Time) error // nil: every night succeeds
	until     time.Time                    // when the scheduler is stopped
	away      time.Time                    // until then MySQL is away, and the last night unknown
	ahead     time.Duration                // of the Redis clock
	waiting   func()                       // called in each wait; may be nil
	noticed   bool                         // whether the scheduler can tell that MySQL is away
}

func (n *night) Now(context.Context) (time.Time, error) { return n.now.Add(n.ahead), nil }

func seoul(t *testing.T) *time.Location {
	zone, err := time.LoadLocation("Asia/Seoul")
	require.NoError(t, err)
	return zone
}

var errAway = errors.New("mysql is away")

func (n *night) run(t *testing.T) error {
	n.zone = cmp.Or(n.zone, seoul(t))
	timetable, err := Parse("0 0 * * *")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	scheduler, err := New(Config{
		Timetable: timetable, Zone: func(context.Context) (*time.Location, error) { return n.zone, nil }, Clock: n,
		Logger: zap.NewNop(),
		LastNight: func(_ context.Context, newest time.Time) (last time.Time, err error) {
			if n.now.Before(n.away) {
				return time.Time{}, errAway
			}
			for _, settled := range append([]time.Time{n.last}, n.settled...) {
				if !settled.After(newest) && settled.After(last) {
					last = settled
				}
			}
			return last, nil
		},
		Kept: func(context.Context) (bool, error) {
			if n.now.Before(n.away) {
				return false, errAway
			}
			return len(n.settled) > 0, nil
		},
		Settle: func(_ context.Context, cutoff time.Time) (complete bool, err error) {
			if n.settle != nil {
				if err := n.settle(cutoff); err != nil {
					return errors.Is(err, errCoupon), err
				}
			}
			n.settled, n.settledAt = append(n.settled, cutoff), append(n.settledAt, n.now)
			return true, nil
		},
		Away: func(err error) bool { return n.noticed && errors.Is(err, errAway) },
		Wait: func(ctx context.Context, d time.Duration) error {
			n.waits, n.now = append(n.waits, d), n.now.Add(d)
			if n.waiting != nil {
				n.waiting()
			}
			if !n.now.Before(n.until) {
				stop()
			}
			return context.Cause(ctx)
		},
	})
	require.NoError(t, err)
	return scheduler.Run(ctx)
}

func at(t *testing.T, text string) time.Time {
	layout := "2006-01-02 15:04:05"[:len(text)] // a date is its midnight
	instant, err := time.ParseInLocation(layout, text, seoul(t))
	require.NoError(t, err)
	return instant
}

func TestScheduler_CatchesUpInOrder(t *testing.T) {
	t.Parallel()
	n := &night{now: at(t, "2026-11-20 15:00:00"), last: at(t, "2026-11-17"), until: at(t, "2026-11-23")}
	require.NoError(t, n.run(t))
	require.Equal(t, []time.Time{
		at(t, "2026-11-18"), at(t, "2026-11-19"), at(t, "2026-11-20"), // missed
		at(t, "2026-11-21"), at(t, "2026-11-22"),
	}, n.settled)
	require.Equal(t, []time.Time{at(t, "2026-11-21"), at(t, "2026-11-22")}, n.settledAt[3:])
	require.LessOrEqual(t, slices.Max(n.waits), maxSleep)
}

// A Redis clock that was ahead led to runs of cutoffs in the future. Those cutoffs are settled again when they come.
func TestScheduler_RepeatsNightsThatRanTooEarly(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{12 * time.Hour, 60 * time.Hour} {
		n := &night{now: at(t, "2026-11-20 13:00:00"), last: at(t, "2026-11-20"), ahead: ahead,
			until: at(t, "2026-11-24 12:00:00")}
		n.waiting = func() { n.ahead = 0 } // the clock is corrected before the next look
		require.NoError(t, n.run(t))
		require.True(t, n.settled[0].After(n.settledAt[0]))
		var due []time.Time
		for i, cutoff := range n.settled {
			if cutoff.Equal(n.settledAt[i]) {
				due = append(due, cutoff)
			}
		}
		require.Equal(t, []time.Time{
			at(t, "2026-11-21"), at(t, "2026-11-22"), at(t, "2026-11-23"), at(t, "2026-11-24"),
		}, due, "ahead by %s: %v at %v", ahead, n.settled, n.settledAt)
	}
}

// After the Redis clock is put forward, a night is settled when it has come by that clock.
func TestScheduler_FollowsClockPutForward(t *testing.T) {
	t.Parallel()
	n := &night{now: at(t, "2026-11-20 13:00:00"), last: at(t, "2026-11-20"), until: at(t, "2026-11-20 15:00:00")}
	n.waiting = func() { n.ahead = 11 * time.Hour }
	require.NoError(t, n.run(t))
	require.Equal(t, []time.Time{at(t, "2026-11-20"), at(t, "2026-11-21")}, n.settled)
	require.Equal(t, []time.Time{at(t, "2026-11-20 13:00:00"), at(t, "2026-11-20 13:15:00")}, n.settledAt)
}

// A new zone of the nights counts from the next look at the clock: a night that has passed in it is settled at once.
func TestScheduler_FollowsAnotherZone(t *testing.T) {
	t.Parallel()
	berlin := load(t, "Europe/Berlin") // its midnight is at 08:00 in Seoul
	n := &night{now: at(t, "2026-11-20 13:00:00"), last: at(t, "2026-11-20"), until: at(t, "2026-11-22 12:00:00")}
	n.waiting = func() { n.zone = berlin }
	require.NoError(t, n.run(t))
	require.Equal(t, []string{"2026-11-19T15:00:00Z", "2026-11-19T23:00:00Z", "2026-11-20T23:00:00Z",
		"2026-11-21T23:00:00Z"}, instants(n.settled))
	require.Equal(t, []string{"2026-11-20T04:15:00Z", "2026-11-20T23:00:00Z", "2026-11-21T23:00:00Z"},
		instants(n.settledAt)[1:])
}

// MySQL can lose a night that was settled: it is settled again at the next look.
func TestScheduler_SettlesALostNightAgain(t *testing.T) {
	t.Parallel()
	n := &night{now: at(t, "2026-11-20 00:00:00"), last: at(t, "2026-11-19"), until: at(t, "2026-11-20 03:00:00")}
	n.waiting = func() {
		if n.now.Equal(at(t, "2026-11-20 01:00:00")) {
			n.settled = nil
		}
	}
	require.NoError(t, n.run(t))
	require.Equal(t, []time.Time{at(t, "2026-11-20")}, n.settled)
	require.Equal(t, []time.Time{at(t, "2026-11-20 00:00:00"), at(t, "2026-11-20 01:00:00")}, n.settledAt)
}

func instants(times []time.Time) (in []string) {
	for _, t := range times {
		in = append(in, t.UTC().Format(time.RFC3339))
	}
	return in
}

// Without MySQL a nightly run moves the first applications of the queue to the DLQ.
func TestScheduler_SettlesNewestNightWithoutMySQL(t *testing.T) {
	t.Parallel()
	var tried []time.Time
	n := &night{now: at(t, "2026-11-21"), last: at(t, "2026-11-18"),
		away: at(t, "2026-11-21 00:02:30"), until: at(t, "2026-11-21 12:00:00")}
	n.settle = func(cutoff time.Time) error {
		tried = append(tried, cutoff)
		if n.now.Before(n.away) {
			return errors.New("mysql is away")
		}
		return nil
	}
	require.NoError(t, n.run(t))
	newest := at(t, "2026-11-21")
	require.Equal(t, []time.Time{newest, newest, at(t, "2026-11-19"), at(t, "2026-11-20"), newest}, tried)
	require.Equal(t, []time.Duration{time.Minute, 2 * time.Minute}, n.waits[:2])
}

// The caller repeats such a night within seconds. It does not repeat a night with failed coupons.
func TestScheduler_ReturnsIfServersAreAway(t *testing.T) {
	t.Parallel()
	n := &night{now: at(t, "2026-11-21"), last: at(t, "2026-11-20"), until: at(t, "2026-11-21 12:00:00"), noticed: true}
	n.away = at(t, "2026-11-21 00:00:01")
	require.ErrorIs(t, n.run(t), errAway)
	require.Empty(t, n.waits)

	n.away, n.settle = time.Time{}, func(time.Time) error { return errAway }
	require.ErrorIs(t, n.run(t), errAway, "the run could not begin")
	require.Empty(t, n.waits)

	n.settle = func(time.Time) error { return errors.Join(errCoupon, errAway) }
	require.NoError(t, n.run(t))
	require.Equal(t, []time.Duration{time.Minute, 2 * time.Minute}, n.waits[:2])
}

func TestScheduler_RepeatsFailedNightFirst(t *testing.T) {
	t.Parallel()
	failures := 3
	n := &night{now: at(t, "2026-11-21"), last: at(t, "2026-11-19"), until: at(t, "2026-11-21 12:00:00")}
	n.settle = func(cutoff time.Time) error {
		if failures--; failures >= 0 {
			return errors.New("mysql is away")
		}
		return nil
	}
	require.NoError(t, n.run(t))
	require.Equal(t, []time.Time{at(t, "2026-11-20"), at(t, "2026-11-21")}, n.settled)
	require.Equal(t, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute}, n.waits[:3])
}

func TestScheduler_GoesOnAfterErrorOfOneCoupon(t *testing.T) {
	t.Parallel()
	var tried []time.Time
	n := &night{now: at(t, "2026-11-21"), last: at(t, "2026-11-19"), until: at(t, "2026-11-21 00:01:00")}
	n.settle = func(cutoff time.Time) error {
		tried = append(tried, cutoff)
		return errCoupon
	}
	require.NoError(t, n.run(t))
	require.Equal(t, []time.Time{at(t, "2026-11-20"), at(t, "2026-11-21")}, tried)
}

func TestScheduler_FirstStartSettlesLastMidnight(t *testing.T) {
	t.Parallel()
	for name, panics := range map[string]int{"succeeds": 0, "panics once": 1} {
		n := &night{now: at(t, "2026-11-20 15:00:00"), until: at(t, "2026-11-20 23:00:00")}
		n.settle = func(time.Time) error {
			if panics--; panics >= 0 {
				panic("nil map")
			}
			return nil
		}
		require.NoError(t, n.run(t))
		require.Equal(t, []time.Time{at(t, "2026-11-20")}, n.settled, name)
	}
}

func TestMissedNights_AreBounded(t *testing.T) {
	t.Parallel()
	zone := seoul(t)
	newest := at(t, "2026-11-21")
	nights := missedNights(newest.AddDate(-10, 0, 0), newest, zone)
	require.Len(t, nights, maxMissed)
	require.Equal(t, newest, nights[len(nights)-1])
	require.Equal(t, []time.Time{newest}, missedNights(newest, newest, zone))
}

func TestParse(t *testing.T) {
	t.Parallel()
	schedule, err := Parse("0 0 * * *")
	require.NoError(t, err)
	require.True(t, at(t, "2026-11-21").Equal(schedule.Next(at(t, "2026-11-20 23:59:59"), seoul(t))))
	for _, right := range []string{"@daily", "30 4 * * *", "54 23 * * *", "55 22 * * 1-5", "0 0-22 * * *"} {
		_, err := Parse(right)
		require.NoError(t, err, right)
	}
	for _, wrong := range []string{"", "midnight", "0 0 0 * * *", "61 0 * * *", "0 0 31 2 *", "* * * * *",
		"55 23 * * *", "@every 1h"} {
		_, err := Parse(wrong)
		require.Error(t, err, wrong)
	}
}

// skipping are zones whose clocks skip a midnight in spring, or show it twice in autumn.
var skipping = []string{"America/Santiago", "Africa/Cairo", "Asia/Beirut", "America/Havana", "Asia/Seoul"}

func load(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	require.NoError(t, err)
	return zone
}

// A night whose midnight is skipped is settled when the clocks are put forward, not at the next midnight; one whose
// midnight comes twice is settled at the first.
func TestTimetable_FiresOnceInEveryNight(t *testing.T) {
	t.Parallel()
	for _, name := range skipping {
		zone := load(t, name)
		for expression, latest := range map[string]time.Duration{"0 0 * * *": 0, "@daily": 0, "30 0 * * *": time.Hour,
			"15 1 * * *": 3 * time.Hour, "30 4 * * *": 6 * time.Hour} {
			timetable, err := Parse(expression)
			require.NoError(t, err)
			night := calendar.LastCutoff(time.Date(2024, 1, 1, 12, 0, 0, 0, zone), zone)
			fires := timetable.Next(night.Add(-time.Microsecond), zone)
			for ; night.Year() < 2028; night = calendar.NextCutoff(night, zone) {
				late := fires.Sub(night)
				require.True(t, 0 <= late && late <= latest, "%s in %s: the night of %s is settled at %s", expression,
					name, night, fires)
				fires = timetable.Next(fires, zone)
			}
		}
	}
}

func TestTimetable_FiresInOrder(t *testing.T) {
	t.Parallel()
	for _, name := range skipping {
		timetable, err := Parse("*/20 0-22 * * *")
		require.NoError(t, err)
		for at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2027; {
			next := timetable.Next(at, load(t, name))
			require.True(t, next.After(at) && next.Sub(at) <= 2*time.Hour+20*time.Minute, "%s: %s follows %s", name,
				next, at)
			at = next
		}
	}
	never, err := Parse("0 0 29 2 *")
	require.NoError(t, err)
	require.True(t, never.Next(time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC), seoul(t)).IsZero(), "within five years")
}

func TestScheduler_SettlesANightWithoutMidnight(t *testing.T) {
	t.Parallel()
	for name, instant := range map[string]string{"America/Santiago": "2026-09-06T04:00:00Z",
		"Africa/Cairo": "2026-04-23T22:00:00Z", "Asia/Beirut": "2026-03-28T22:00:00Z"} {
		zone := load(t, name)
		cutoff, err := time.ParseInLocation(time.RFC3339, instant, zone)
		require.NoError(t, err)
		cutoff = cutoff.In(zone)
		require.Equal(t, 1, cutoff.Hour(), "%s has no midnight on this day", name)
		n := &night{zone: zone, now: cutoff.Add(-10 * time.Hour), last: calendar.PreviousCutoff(cutoff, zone),
			until: cutoff.Add(30 * time.Hour)}
		require.NoError(t, n.run(t))
		require.Equal(t, []time.Time{calendar.PreviousCutoff(cutoff, zone), cutoff, calendar.NextCutoff(cutoff, zone)},
			n.settled, name)
		require.Equal(t, cutoff, n.settledAt[1], name)
	}
}
