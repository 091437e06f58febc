// Package calendar computes cutoffs and business dates. A cutoff is a midnight, the first instant of a day in the time
// zone of the deployment. A run settles the applications that arrived before its cutoff.
package calendar

import (
	"fmt"
	"time"
)

// MaxEarliness is how early before midnight a run may start: the scheduler's clock may be ahead of the Redis clock.
const MaxEarliness = 5 * time.Minute

// DefaultCutoff returns the last midnight not later than now + MaxEarliness, where now is the time of the Redis clock.
func DefaultCutoff(now time.Time, zone *time.Location) time.Time {
	return LastCutoff(now.Add(MaxEarliness), zone)
}

// LastCutoff returns the last midnight that is not later than t.
func LastCutoff(t time.Time, zone *time.Location) time.Time {
	return midnight(t, zone, 0)
}

// NextCutoff returns the cutoff that settles an application with the arrival t: the first midnight after t.
func NextCutoff(t time.Time, zone *time.Location) time.Time {
	return midnight(t, zone, 1)
}

func PreviousCutoff(cutoff time.Time, zone *time.Location) time.Time {
	return midnight(cutoff, zone, -1)
}

// DateCutoff returns the cutoff of a business date such as 2026-11-20: the midnight at its end.
func DateCutoff(date string, zone *time.Location) (time.Time, error) {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a date: want YYYY-MM-DD, such as 2026-11-20", date)
	}
	year, month, number := day.Date()
	return dayBegins(year, month, number+1, zone), nil
}

// Day returns the first instant of a business date such as 2026-11-20, and the first instant of the next day.
func Day(date string, zone *time.Location) (from, to time.Time, err error) {
	if to, err = DateCutoff(date, zone); err != nil {
		return time.Time{}, time.Time{}, err
	}
	return PreviousCutoff(to, zone), to, nil
}

// Month returns the first instant of a month such as 2026-11, and the first instant of the next month.
func Month(month string, zone *time.Location) (from, to time.Time, err error) {
	first, err := time.Parse("2006-01", month)
	if err != nil {
		return time.Time{}, time.Time{}, fmt.Errorf("%q is not a month: want YYYY-MM, such as 2026-11", month)
	}
	year, m, _ := first.Date()
	return dayBegins(year, m, 1, zone), dayBegins(year, m+1, 1, zone), nil
}

// ExpiresAt returns the end of validity of a coupon, exclusive: the midnight that ends the days-th day after the day of
// issue.
func ExpiresAt(issuedAt time.Time, days int, zone *time.Location) time.Time {
	return midnight(issuedAt, zone, days+1)
}

func midnight(t time.Time, zone *time.Location, daysLater int) time.Time {
	year, month, day := t.In(zone).Date()
	return dayBegins(year, month, day+daysLater, zone)
}

// dayBegins returns the first instant of a day. It is not 00:00 where clocks go forward at midnight, as in Santiago.
func dayBegins(year int, month time.Month, day int, zone *time.Location) time.Time {
	at, _ := At(time.Date(year, month, day, 0, 0, 0, 0, time.UTC), zone)
	return at
}

// At returns the first instant at which the clocks in zone show what wall shows in UTC. If they never show it, because
// they are put forward over it, exists is false, and At returns the instant when they are.
func At(wall time.Time, zone *time.Location) (at time.Time, exists bool) {
	year, month, day := wall.Date()
	at = time.Date(year, month, day, wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), zone)
	began, ends := at.ZoneBounds()
	switch shown := Wall(at); {
	case shown.Before(wall):
		return ends, false
	case shown.After(wall):
		return began, false
	}
	if began.IsZero() {
		return at, true
	}
	_, offset := at.Zone()
	_, before := began.Add(-1).Zone()
	if earlier := at.Add(time.Duration(offset-before) * time.Second); earlier.Before(began) {
		return earlier, true // the clocks were put back, and show it twice
	}
	return at, true
}

// Wall returns what the clocks show at an instant, in its location, as a time of UTC.
func Wall(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.Add(time.Duration(offset) * time.Second).UTC()
}
