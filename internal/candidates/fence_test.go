package candidates

import (
	"testing"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/stretchr/testify/require"
)

func TestFenceWaitsForCutoff(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	before := c.content(t)
	for _, ahead := range []time.Duration{time.Microsecond, 1500 * time.Millisecond, 5 * time.Minute} {
		wait, _, err := c.Fence(t.Context(), c.id, noon.Add(ahead), coupon.Promise{})
		require.NoError(t, err)
		require.Equal(t, ahead, wait)
	}
	require.Equal(t, before, c.content(t))
}

func TestApplicationsAfterTheFenceArriveAboveTheCutoff(t *testing.T) {
	t.Parallel()
	for _, passed := range []time.Duration{0, time.Microsecond, time.Hour} {
		t.Run(passed.String(), func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.open(t)
			c.freeze(noon.Add(-time.Second))
			c.accept(t, 1)
			c.freeze(noon)
			cutoff := noon.Add(-passed)
			want := max(µs(noon.Add(-time.Second)), µs(cutoff)-1)
			for range 2 {
				wait, _, err := c.Fence(t.Context(), c.id, cutoff, coupon.Promise{})
				require.NoError(t, err)
				require.Zero(t, wait)
				require.Equal(t, decimal(want), c.get(t, "last"))
			}
			before := c.content(t)
			_, _, err := c.Fence(t.Context(), c.id, cutoff, coupon.Promise{})
			require.NoError(t, err)
			require.Equal(t, before, c.content(t), "the fence stands already")

			c.freeze(noon.Add(-2 * time.Second)) // a new primary's clock
			receipt := c.accept(t, 2)[0]
			require.GreaterOrEqual(t, receipt.Arrival, µs(cutoff))
			require.Equal(t, max(want, µs(noon.Add(-2*time.Second))-1)+1, receipt.Arrival)
			entries, _, err := c.Page(t.Context(), c.id, coupon.Cursor{}, cutoff)
			require.NoError(t, err)
			for _, e := range entries {
				require.Equal(t, "1", e.Member)
			}
		})
	}
}

func TestFenceByTheRealClock(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.openNow(t)
	now, err := c.Now(t.Context())
	require.NoError(t, err)
	wait, _, err := c.Fence(t.Context(), c.id, now.Add(time.Hour), coupon.Promise{})
	require.NoError(t, err)
	require.InDelta(t, time.Hour, wait, float64(time.Minute))
	wait, _, err = c.Fence(t.Context(), c.id, now, coupon.Promise{})
	require.NoError(t, err)
	require.Zero(t, wait)
	require.GreaterOrEqual(t, c.accept(t, 7)[0].Arrival, µs(now))
}

// Without a state, only processes know whether anything was promised.
func TestFenceWaitsForPutBackWithoutState(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	now, err := c.Now(t.Context())
	require.NoError(t, err)
	_, forPods, err := c.Fence(t.Context(), c.id, now, coupon.Promise{})
	require.NoError(t, err)
	require.Positive(t, forPods)

	c.openNow(t)
	_, forPods, err = c.Fence(t.Context(), c.id, now, coupon.Promise{})
	require.NoError(t, err)
	require.Zero(t, forPods, "nobody was promised anything before")
}

func TestFenceSetsTTLOfNewState(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.freeze(noon)
	_, _, err := c.Fence(t.Context(), c.id, noon, coupon.Promise{})
	require.NoError(t, err)
	requireLives(t, c, testTTL)

	require.NoError(t, c.rdb.Expire(t.Context(), c.state, time.Hour).Err())
	c.freeze(noon.Add(time.Minute))
	_, _, err = c.Fence(t.Context(), c.id, noon.Add(time.Minute), coupon.Promise{})
	require.NoError(t, err)
	require.Equal(t, decimal(µs(noon.Add(time.Minute))-1), c.get(t, "last"))
	requireLives(t, c, time.Hour)
}
