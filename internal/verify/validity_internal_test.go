package verify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/calendar"
)

// Whatever the time zone: the end of validity is accepted, another day or another time of day is not.
func TestEndsDay(t *testing.T) {
	t.Parallel()
	var zones []*time.Location
	for _, name := range []string{"Asia/Seoul", "UTC", "America/Santiago", "Asia/Kathmandu", "Pacific/Kiritimati"} {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		zones = append(zones, zone)
	}
	rapid.Check(t, func(t *rapid.T) {
		issued := time.UnixMicro(rapid.Int64Range(1_767_225_600_000_000, 4e15).Draw(t, "issued µs")).UTC()
		days := rapid.IntRange(1, 36_500).Draw(t, "days")
		expires := calendar.ExpiresAt(issued, days, rapid.SampledFrom(zones).Draw(t, "zone"))
		require.True(t, endsDay(issued, expires, days))
		require.False(t, endsDay(issued, expires.Add(time.Microsecond), days))
		require.False(t, endsDay(issued, expires.AddDate(0, 0, 2), days))
		require.False(t, endsDay(issued, expires.AddDate(0, 0, -2), days))
	})
}
