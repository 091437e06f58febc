package candidates

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

func TestFenceWaitsForCutoff(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	before := c.content(t)
	for _, ahead := range []time.Duration{time.Microsecond, 1500 * time.Millisecond, 5 * time.Minute} {
		wait, _ := c.fence(t, noon.Add(ahead))
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
				wait, _ := c.fence(t, cutoff)
				require.Zero(t, wait)
				require.Equal(t, decimal(want), c.get(t, "last"))
			}
			before := c.content(t)
			c.fence(t, cutoff)
			require.Equal(t, before, c.content(t), "a repetition changes nothing")

			c.freeze(noon.Add(-2 * time.Second)) // the clock of a new primary
			receipt := c.accept(t, 2)[0]
			require.GreaterOrEqual(t, receipt.Arrival, µs(cutoff))
			require.Equal(t, max(want, µs(noon.Add(-2*time.Second))-1)+1, receipt.Arrival)
			entries, _ := c.page(t, coupon.Cursor{}, cutoff)
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
	wait, _ := c.fence(t, now.Add(time.Hour))
	require.InDelta(t, time.Hour, wait, float64(time.Hour/2))
	wait, _ = c.fence(t, now)
	require.Zero(t, wait)
	require.GreaterOrEqual(t, c.accept(t, 7)[0].Arrival, µs(now))
}

// Without a state, only processes know of accepted applications.
func TestFenceWaitsForPutBackWithoutState(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	now, err := c.Now(t.Context())
	require.NoError(t, err)
	_, putBackWait := c.fence(t, now)
	require.Positive(t, putBackWait)

	c.openNow(t)
	_, putBackWait = c.fence(t, now)
	require.Zero(t, putBackWait, "no earlier epoch counted anything")
}

func TestFenceSetsTTLOfNewState(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.freeze(noon)
	c.fence(t, noon)
	requireLives(t, c, testTTL)

	require.NoError(t, c.rdb.Expire(t.Context(), c.state, time.Hour).Err())
	c.freeze(noon.Add(time.Minute))
	c.fence(t, noon.Add(time.Minute))
	require.Equal(t, decimal(µs(noon.Add(time.Minute))-1), c.get(t, "last"))
	requireLives(t, c, time.Hour)
}
