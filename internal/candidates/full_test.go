package candidates

import (
	"regexp"
	"testing"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/stretchr/testify/require"
)

// fill lets no memory be left on the coupon's own Redis, or all of it again.
func (c *fixture) fill(t *testing.T, full bool) {
	t.Helper()
	most := "0"
	if full {
		most = "1"
	}
	require.NoError(t, c.rdb.ConfigSet(t.Context(), "maxmemory", most).Err())
}

// Only newcomers need memory that is not there: what settles, clears, tells a window or shuts a door works without, since it
// is what frees memory again.
func TestOnlyNewcomersNeedMemory(t *testing.T) {
	t.Parallel()
	c := privateCoupon(t)
	ctx := t.Context()
	c.openNow(t)
	at := c.accept(t, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	entry := func(user int) coupon.Application {
		return coupon.Application{Member: decimal(int64(user)), Arrival: at[user-1].Arrival, Source: coupon.SourceQueue}
	}
	now, err := c.Now(ctx)
	require.NoError(t, err)
	c.fill(t, true)

	_, err = c.Apply(ctx, c.id, 10)
	require.ErrorContains(t, err, "OOM")
	require.Equal(t, Duplicate, c.apply(t, 1).Code, "who stands in line is answered")

	wait, _, err := c.Fence(ctx, c.id, now.Add(-time.Second), coupon.Promise{})
	require.NoError(t, err)
	require.Zero(t, wait)
	require.NoError(t, c.Renew(ctx, c.id, now.Add(time.Hour)))
	require.EqualValues(t, 3, c.remove(t, now, coupon.MarkIssued, entry(1), entry(2), entry(3)), "side by side")
	require.EqualValues(t, 2, c.remove(t, now, coupon.MarkIssued, entry(4), entry(6)), "one by one")
	reviewed, err := c.moveToDLQ(ctx, c.id, []failed{{Application: entry(5)}})
	require.NoError(t, err)
	require.EqualValues(t, 1, reviewed)
	released, err := c.Release(ctx, c.id, []coupon.Application{entry(5)})
	require.NoError(t, err)
	require.EqualValues(t, 1, released)
	require.EqualValues(t, 1, c.remove(t, now, coupon.MarkRejected, entry(5)))
	require.EqualValues(t, 3, c.remove(t, now, coupon.MarkNone, entry(7), entry(8), entry(9)))
	require.NoError(t, c.SetSold(ctx, c.id, true))
	version, end, err := c.stopApplying(ctx, c.id, 2, false)
	require.NoError(t, err)
	require.EqualValues(t, 2, version)
	c.publish(t, coupon.Window{Coupon: c.id, Version: 3, Opens: now.Add(-time.Hour), Closes: end})

	f := c.counts(t)
	require.EqualValues(t, []int64{0, 0, 5, 1}, []int64{f.Waiting, f.DLQ, f.Issued, f.Rejected})
	swept, err := c.Sweep(ctx, c.id, end)
	require.NoError(t, err)
	require.True(t, swept)
	c.requireExists(t, false, c.queue, c.dlq, c.issued, c.rejected)

	// A door that has forgotten everything is told its window too.
	c.publish(t, coupon.Window{Coupon: 43, Version: 1, Opens: now.Add(-time.Hour), Closes: now.Add(time.Hour)})
	c.fill(t, false)
	receipt, err := c.Apply(ctx, 43, 10)
	require.NoError(t, err)
	require.Equal(t, Accepted, receipt.Code)
}

// What only reads is answered while a server lets nobody write, as in a failover, once it knows the script.
func TestReadersNeedNoWrites(t *testing.T) {
	t.Parallel()
	c := privateCoupon(t)
	ctx := t.Context()
	c.openNow(t)
	c.accept(t, 1)
	read := func() {
		t.Helper()
		status, err := c.Status(ctx, c.id, 1)
		require.NoError(t, err)
		require.Equal(t, coupon.StandingPending, status.Standing)
		require.EqualValues(t, 1, c.counts(t).Waiting)
		entries, _, err := c.Page(ctx, c.id, coupon.Cursor{}, time.UnixMicro(9e15))
		require.NoError(t, err)
		require.Len(t, entries, 1)
		traces, err := c.LookupUser(ctx, c.id, 1)
		require.NoError(t, err)
		require.EqualValues(t, 1, traces.Waiting)
		waiting, _, err := c.CountByInterval(ctx, c.id, []int64{0, 9e15})
		require.NoError(t, err)
		require.Equal(t, []int64{1}, waiting)
	}
	read()
	require.NoError(t, c.rdb.Do(ctx, "CLIENT", "PAUSE", "60000", "WRITE").Err())
	read()
}

// An end lies behind every arrival, also of those that run ahead of the clock, and never behind the end there was.
func TestShutEndsBehindEveryArrival(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		last, closes, want time.Duration // from noon
	}{
		"now":                             {-time.Second, time.Hour, 0},
		"arrivals run ahead":              {time.Second, time.Hour, time.Second + time.Microsecond},
		"the window has ended by itself":  {-time.Hour, -time.Minute, -time.Minute},
		"a settlement has fenced its end": {time.Hour - time.Microsecond, time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.freeze(noon)
			c.publish(t, coupon.Window{Coupon: c.id, Version: 5, Opens: noon.Add(-2 * time.Hour), Closes: noon.Add(tc.closes)})
			c.set(t, "last", µs(noon.Add(tc.last)))
			version, end, err := c.stopApplying(t.Context(), c.id, 6, false)
			require.NoError(t, err)
			require.EqualValues(t, 6, version)
			require.Equal(t, noon.Add(tc.want), end)
			require.Equal(t, decimal(µs(end)), c.get(t, "closes"))
			if tc.want < time.Hour {
				require.Equal(t, Closed, c.apply(t, 7).Code)
			}
		})
	}
}

func TestShutPauses(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	w := c.open(t)
	_, end, err := c.stopApplying(t.Context(), c.id, 2, true)
	require.NoError(t, err)
	require.Equal(t, noon, end)
	require.Equal(t, Paused, c.apply(t, 7).Code)
	require.Equal(t, decimal(µs(w.Closes)), c.get(t, "closes"))
}

func TestShutNeedsAWindow(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	_, _, err := c.stopApplying(t.Context(), c.id, 2, false)
	require.ErrorContains(t, err, "redis has no window")
	c.requireExists(t, false, c.state)
}

// The row that was to be written after the door was shut was not: the catalog, which reads the version before, opens the door
// again after three minutes, and not before. A clock that was ahead once makes nobody wait for it.
func TestADoorThatWasShutInVainOpensAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		later time.Duration
		opens bool
	}{
		"at once":               {0, false},
		"within three minutes":  {3*time.Minute - time.Microsecond, false},
		"after three minutes":   {3 * time.Minute, true},
		"the clock was ahead":   {-time.Hour, true},
		"it was a little ahead": {-time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			w := c.open(t)
			_, _, err := c.stopApplying(t.Context(), c.id, w.Version+1, true)
			require.NoError(t, err)
			c.freeze(noon.Add(tc.later))
			_, published, err := c.Publish(t.Context(), w, coupon.Promise{})
			require.NoError(t, err)
			require.Equal(t, tc.opens, published)
			require.Equal(t, tc.opens, c.get(t, "status") == "OPEN")
		})
	}
}

// What stands there already is not written again.
func TestPublishingTheSameWritesNothing(t *testing.T) {
	t.Parallel()
	c := privateCoupon(t)
	c.freeze(noon)
	w := coupon.Window{Coupon: c.id, Version: 1, Opens: noon.Add(-time.Hour), Closes: noon.Add(-time.Minute)}
	c.publish(t, w)
	writes := func() string {
		info, err := c.rdb.Info(t.Context(), "persistence").Result()
		require.NoError(t, err)
		return regexp.MustCompile(`rdb_changes_since_last_save:\d+`).FindString(info)
	}
	before, expires := writes(), c.expires(t, c.state)
	for range 5 {
		c.publish(t, w)
	}
	c.freeze(noon.Add(time.Hour - time.Second))
	c.publish(t, w)
	require.Equal(t, before, writes())
	c.freeze(noon.Add(time.Hour))
	c.publish(t, w)
	require.Equal(t, expires+3600, c.expires(t, c.state), "life is given again in steps of an hour")
}
