package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var atNoon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A user may send a burst of two seconds, and then one request per share of a second.
func TestUserRates_RefillWithTime(t *testing.T) {
	t.Parallel()
	rates := newUserRates(5, atNoon)
	may := func(at time.Time) (times int) {
		for rates.wait(7, at) == 0 {
			times++
		}
		return times
	}
	require.Equal(t, 10, may(atNoon))
	require.Equal(t, 0, may(atNoon.Add(199*time.Millisecond)))
	require.Equal(t, 1, may(atNoon.Add(200*time.Millisecond)))
	require.Equal(t, 4, may(atNoon.Add(time.Second)))
	require.Equal(t, 10, may(atNoon.Add(time.Hour)))
	require.Equal(t, 0, may(atNoon.Add(59*time.Minute)), "a clock that falls back gives nothing twice")
}

func TestUserRates_BelowOnePerSecond(t *testing.T) {
	t.Parallel()
	rates := newUserRates(0.1, atNoon)
	require.Zero(t, rates.wait(7, atNoon))
	require.Equal(t, time.Second, rates.wait(7, atNoon.Add(9*time.Second)))
	require.Zero(t, rates.wait(7, atNoon.Add(10*time.Second)))
}

// New users are always admitted, and do not replace a user who sends without pause.
func TestUserRates_ManyUsersDoNotReplaceABusyOne(t *testing.T) {
	t.Parallel()
	rates := newUserRates(5, atNoon)
	let := 0
	for user := range uint64(4 * userShards * shardSets * setUsers) {
		require.Zero(t, rates.wait(user+1000, atNoon))
		if rates.wait(7, atNoon) == 0 {
			let++
		}
	}
	require.Equal(t, 10, let)
}

// The table has its full size from the start.
func TestUserRates_UseConstantMemory(t *testing.T) {
	rates, user := newUserRates(5, atNoon), uint64(0)
	require.Zero(t, testing.AllocsPerRun(1, func() { // of all together: an average of each would be rounded down
		for range 120_000 {
			user++
			rates.wait(user, atNoon)
		}
	}))
}
