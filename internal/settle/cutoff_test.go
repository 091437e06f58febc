package settle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func seoul(t *testing.T) *time.Location {
	zone, err := time.LoadLocation("Asia/Seoul")
	require.NoError(t, err)
	return zone
}

func TestDefaultCutoffIsTheLastMidnightWithFiveMinutesOfEarliness(t *testing.T) {
	t.Parallel()
	zone := seoul(t)
	night := time.Date(2026, 11, 21, 0, 0, 0, 0, zone)
	for now, want := range map[time.Time]time.Time{
		night:                                        night,
		night.Add(time.Hour):                         night,
		night.Add(24*time.Hour - time.Minute*6):      night,
		night.Add(-time.Second):                      night, // the controller's clock is ahead of Redis's
		night.Add(-5 * time.Minute):                  night,
		night.Add(-5*time.Minute - time.Microsecond): night.AddDate(0, 0, -1),
		night.Add(-time.Hour):                        night.AddDate(0, 0, -1),
	} {
		require.True(t, want.Equal(DefaultCutoff(now.UTC(), zone)), "at %s", now)
	}
}

func TestNextCutoffIsStrictlyAfterTheArrival(t *testing.T) {
	t.Parallel()
	zone := seoul(t)
	night := time.Date(2026, 11, 21, 0, 0, 0, 0, zone)
	require.True(t, night.Equal(NextCutoff(night.Add(-time.Microsecond).UTC(), zone)))
	require.True(t, night.AddDate(0, 0, 1).Equal(NextCutoff(night.UTC(), zone)))
}

func TestDateCutoffIsTheMidnightThatEndsTheDay(t *testing.T) {
	t.Parallel()
	zone := seoul(t)
	cutoff, err := DateCutoff("2026-12-31", zone)
	require.NoError(t, err)
	require.Equal(t, "2027-01-01T00:00:00+09:00", cutoff.Format(time.RFC3339))
	for _, wrong := range []string{"", "2026-13-01", "2026-02-30", "20261120", "2026-11-20T00:00:00Z", "어제"} {
		_, err := DateCutoff(wrong, zone)
		require.ErrorContains(t, err, "YYYY-MM-DD", wrong)
	}
}

func TestMidnightWhereClocksChange(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin") // 29 March 2026 has 23 hours
	require.NoError(t, err)
	began := time.Date(2026, 3, 29, 0, 0, 0, 0, zone)
	require.Equal(t, 23*time.Hour, NextCutoff(began, zone).Sub(began))
}
