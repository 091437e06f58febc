package candidates

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

// The end is also above arrivals ahead of the clock, and never after the previous end.
func TestStopApplyingEndsAboveEveryArrival(t *testing.T) {
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
			c.publish(t, coupon.Window{Coupon: c.id, Version: 5, Opens: noon.Add(-2 * time.Hour),
				Closes: noon.Add(tc.closes)})
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

func TestStopApplyingPauses(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	w := c.open(t)
	_, end, err := c.stopApplying(t.Context(), c.id, 2, true)
	require.NoError(t, err)
	require.Equal(t, noon, end)
	require.Equal(t, Paused, c.apply(t, 7).Code)
	require.Equal(t, decimal(µs(w.Closes)), c.get(t, "closes"))
}

func TestStopApplyingFailsWithoutWindow(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	_, _, err := c.stopApplying(t.Context(), c.id, 2, false)
	require.ErrorContains(t, err, "redis has no window")
	c.requireExists(t, false, c.state)
}

// The row was not written, so the catalog still publishes the old version. A clock that was ahead once delays nothing.
func TestPublishRestoresWindowThreeMinutesAfterStopApplying(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		later time.Duration
		opens bool
	}{
		"immediately":           {0, false},
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
			_, published, err := c.Publish(t.Context(), w, 0)
			require.NoError(t, err)
			require.Equal(t, tc.opens, published)
			require.Equal(t, tc.opens, c.get(t, "status") == "OPEN")
		})
	}
}
