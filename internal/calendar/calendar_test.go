package calendar

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func load(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	require.NoError(t, err)
	return zone
}

func TestDefaultCutoff_IsMidnightFromFiveMinutesBefore(t *testing.T) {
	t.Parallel()
	zone := load(t, "Asia/Seoul")
	night := time.Date(2026, 11, 21, 0, 0, 0, 0, zone)
	for now, want := range map[time.Time]time.Time{
		night:                                        night,
		night.Add(time.Hour):                         night,
		night.Add(24*time.Hour - time.Minute*6):      night,
		night.Add(-time.Second):                      night, // the clock of the scheduler is ahead of the Redis clock
		night.Add(-5 * time.Minute):                  night,
		night.Add(-5*time.Minute - time.Microsecond): night.AddDate(0, 0, -1),
		night.Add(-time.Hour):                        night.AddDate(0, 0, -1),
	} {
		require.True(t, want.Equal(DefaultCutoff(now.UTC(), zone)), "at %s", now)
	}
}

func TestNextCutoff_IsAfterArrival(t *testing.T) {
	t.Parallel()
	zone := load(t, "Asia/Seoul")
	night := time.Date(2026, 11, 21, 0, 0, 0, 0, zone)
	require.True(t, night.Equal(NextCutoff(night.Add(-time.Microsecond).UTC(), zone)))
	require.True(t, night.AddDate(0, 0, 1).Equal(NextCutoff(night.UTC(), zone)))
}

func TestDateCutoff_IsMidnightAtEndOfDay(t *testing.T) {
	t.Parallel()
	zone := load(t, "Asia/Seoul")
	cutoff, err := DateCutoff("2026-12-31", zone)
	require.NoError(t, err)
	require.Equal(t, "2027-01-01T00:00:00+09:00", cutoff.Format(time.RFC3339))
	for _, wrong := range []string{"", "2026-13-01", "2026-02-30", "20261120", "2026-11-20T00:00:00Z", "어제"} {
		_, err := DateCutoff(wrong, zone)
		require.ErrorContains(t, err, "YYYY-MM-DD", wrong)
	}
}

// Each day of each kind of zone begins at the end of the day before, and the cutoff of an arrival is later than the
// arrival.
func TestDay_BeginsAtEndOfDayBefore(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Asia/Seoul", "Europe/Berlin", "America/Santiago", "Africa/Cairo", "America/Havana",
		"Asia/Beirut", "Pacific/Apia"} {
		zone := load(t, name)
		for day := time.Date(2009, 1, 1, 12, 0, 0, 0, time.UTC); day.Year() < 2030; day = day.AddDate(0, 0, 1) {
			date := day.Format(time.DateOnly)
			if name == "Pacific/Apia" && date == "2011-12-30" {
				continue // there was no such day
			}
			cutoff, err := DateCutoff(date, zone)
			require.NoError(t, err)
			before := cutoff.Add(-time.Microsecond)
			require.Equal(t, date, before.In(zone).Format(time.DateOnly), name)
			require.NotEqual(t, date, cutoff.In(zone).Format(time.DateOnly), name)
			require.True(t, cutoff.Equal(NextCutoff(before, zone)), "%s in %s", date, name)
			require.True(t, cutoff.Equal(DefaultCutoff(cutoff, zone)), "%s in %s", date, name)
		}
	}
}

// A month begins with its first day and ends with its last, also where the first day has no 00:00, as in Asunción in
// October 2017 and in Amman in April 2011.
func TestMonth_IsFromFirstDayToLast(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Asia/Seoul", "Europe/Berlin", "America/Asuncion", "Asia/Amman", "America/Havana",
		"Africa/Cairo", "Pacific/Apia"} {
		zone := load(t, name)
		for first := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); first.Year() < 2030; first = first.AddDate(0, 1, 0) {
			from, to, err := Month(first.Format("2006-01"), zone)
			require.NoError(t, err)
			begins, _, err := Day(first.Format(time.DateOnly), zone)
			require.NoError(t, err)
			_, ends, err := Day(first.AddDate(0, 1, -1).Format(time.DateOnly), zone)
			require.NoError(t, err)
			require.True(t, from.Equal(begins), "%s in %s begins at %s, its first day at %s", first.Format("2006-01"),
				name, from, begins)
			require.True(t, to.Equal(ends), "%s in %s ends at %s, its last day at %s", first.Format("2006-01"), name,
				to, ends)
		}
	}
}

func TestDaysAndMonths(t *testing.T) {
	t.Parallel()
	seoul := load(t, "Asia/Seoul")
	from, to, err := Day("2026-11-20", seoul)
	require.NoError(t, err)
	require.Equal(t, "2026-11-19T15:00:00Z 2026-11-20T15:00:00Z",
		from.UTC().Format(time.RFC3339)+" "+to.UTC().Format(time.RFC3339))
	from, to, err = Month("2026-12", seoul)
	require.NoError(t, err)
	require.Equal(t, "2026-11-30T15:00:00Z 2026-12-31T15:00:00Z",
		from.UTC().Format(time.RFC3339)+" "+to.UTC().Format(time.RFC3339))
	from, to, err = Day("2026-11-01", load(t, "America/New_York"))
	require.NoError(t, err)
	require.Equal(t, 25*time.Hour, to.Sub(from))
	for _, wrong := range []string{"", "2026-13", "2026-1", "2026", "2026-11-20", "11-2026"} {
		_, _, err := Month(wrong, seoul)
		require.Error(t, err, wrong)
	}
}

// A local time that the clocks skip does not exist, and stands for the end of the gap; of one that comes twice, the
// first is taken.
func TestAt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		zone, wall, at string
		exists         bool
	}{
		"an ordinary time":           {"Asia/Seoul", "2026-11-20 14:00:00", "2026-11-20T05:00:00Z", true},
		"before the gap":             {"America/New_York", "2026-03-08 01:59:59", "2026-03-08T06:59:59Z", true},
		"the beginning of the gap":   {"America/New_York", "2026-03-08 02:00:00", "2026-03-08T07:00:00Z", false},
		"in the gap":                 {"America/New_York", "2026-03-08 02:59:59", "2026-03-08T07:00:00Z", false},
		"the end of the gap":         {"America/New_York", "2026-03-08 03:00:00", "2026-03-08T07:00:00Z", true},
		"before the hour comes":      {"America/New_York", "2026-11-01 00:59:59", "2026-11-01T04:59:59Z", true},
		"an hour that comes twice":   {"America/New_York", "2026-11-01 01:30:00", "2026-11-01T05:30:00Z", true},
		"after the hour came twice":  {"America/New_York", "2026-11-01 02:00:00", "2026-11-01T07:00:00Z", true},
		"a gap in another direction": {"Europe/Berlin", "2026-03-29 02:30:00", "2026-03-29T01:00:00Z", false},
		"twice in Europe":            {"Europe/Berlin", "2026-10-25 02:30:00", "2026-10-25T00:30:00Z", true},
		"a midnight that is skipped": {"America/Santiago", "2026-09-06 00:00:00", "2026-09-06T04:00:00Z", false},
		"a midnight that is twice":   {"America/Havana", "2026-11-01 00:00:00", "2026-11-01T04:00:00Z", true},
		"half an hour is skipped":    {"Australia/Lord_Howe", "2026-10-04 02:15:00", "2026-10-03T15:30:00Z", false},
		"half an hour is twice":      {"Australia/Lord_Howe", "2026-04-05 01:45:00", "2026-04-04T14:45:00Z", true},
		"a day is skipped":           {"Pacific/Apia", "2011-12-30 12:00:00", "2011-12-30T10:00:00Z", false},
		"UTC":                        {"UTC", "2026-03-08 02:30:00", "2026-03-08T02:30:00Z", true},
	} {
		wall, err := time.Parse(time.DateTime, c.wall)
		require.NoError(t, err)
		at, exists := At(wall, load(t, c.zone))
		require.Equal(t, c.at, at.UTC().Format(time.RFC3339), name)
		require.Equal(t, c.exists, exists, name)
		if exists {
			require.Equal(t, wall, Wall(at), name)
		}
	}
}
