package settle

import (
	"fmt"
	"time"
)

// earliness is how much before midnight a scheduler may fire and still mean that midnight: the clocks of a Kubernetes
// controller and of Redis differ, and the fence waits for the rest.
const earliness = 5 * time.Minute

// DefaultCutoff is the last midnight in zone not later than now plus earliness. now is the Redis clock.
func DefaultCutoff(now time.Time, zone *time.Location) time.Time {
	return midnight(now.Add(earliness), zone, 0)
}

// NextCutoff is when an application that arrived at t is settled: the first midnight in zone after t.
func NextCutoff(t time.Time, zone *time.Location) time.Time {
	return midnight(t, zone, 1)
}

// DateCutoff is the cutoff of a business date such as 2026-11-20: the midnight that ends it.
func DateCutoff(date string, zone *time.Location) (time.Time, error) {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a date: want YYYY-MM-DD, such as 2026-11-20", date)
	}
	year, month, number := day.Date()
	return dayBegins(year, month, number+1, zone), nil
}

// Day is a business date such as 2026-11-20: what arrives from its midnight on and before the next one's.
func Day(date string, zone *time.Location) (from, to time.Time, err error) {
	if to, err = DateCutoff(date, zone); err != nil {
		return time.Time{}, time.Time{}, err
	}
	return midnight(to, zone, -1), to, nil
}

// Month is a month such as 2026-11: exactly its days.
func Month(month string, zone *time.Location) (from, to time.Time, err error) {
	first, err := time.Parse("2006-01", month)
	if err != nil {
		return time.Time{}, time.Time{}, fmt.Errorf("%q is not a month: want YYYY-MM, such as 2026-11", month)
	}
	year, m, _ := first.Date()
	return dayBegins(year, m, 1, zone), dayBegins(year, m+1, 1, zone), nil
}

func midnight(t time.Time, zone *time.Location, daysLater int) time.Time {
	year, month, day := t.In(zone).Date()
	return dayBegins(year, month, day+daysLater, zone)
}

// dayBegins is the first instant of a day. Where clocks are put forward at midnight, as in Santiago, there is no 00:00,
// and time.Date may answer 23:00 of the day before.
func dayBegins(year int, month time.Month, day int, zone *time.Location) time.Time {
	at := time.Date(year, month, day, 0, 0, 0, 0, zone)
	if at.Day() != time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Day() {
		_, changed := at.ZoneBounds()
		return changed
	}
	return at
}
