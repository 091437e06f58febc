package coupon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDelayed(t *testing.T) {
	t.Parallel()
	for interval, limit := range map[time.Duration]time.Duration{
		20 * time.Millisecond:  time.Second,
		100 * time.Millisecond: time.Second,
		200 * time.Millisecond: 2 * time.Second,
		5 * time.Second:        50 * time.Second,
	} {
		require.False(t, Delayed(limit, interval), interval)
		require.True(t, Delayed(limit+time.Microsecond, interval), interval)
	}
	require.False(t, Delayed(-time.Hour, time.Second), "an arrival may be ahead of the clock")
}
