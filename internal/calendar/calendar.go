// Package calendar computes the cutoffs at which coupons are settled, and business dates. A cutoff is a midnight, the first
// instant of a day in the time zone of the deployment, exclusive: a run settles the applications that arrived before it.
package calendar

import (
	"fmt"
	"time"
)

// MaxEarliness is how long before a midnight a scheduler, whose clock may be ahead of the Redis clock, may start its run.
const MaxEarliness = 5 * time.Minute

// DefaultCutoff is the last midnight in zone not later than now plus MaxEarliness. now is the Redis clock.
func DefaultCutoff(now time.Time, zone *time.Location) time.Time {
	return LastCutoff(now.Add(MaxEarliness), zone)
}

// LastCutoff is not later than t.
func LastCutoff(t time.Time, zone *time.Location) time.Time {
	return midnight(t, zone, 0)
}

// NextCutoff is the cutoff that settles an application with arrival t: the first midnight in zone after t.
func NextCutoff(t time.Time, zone *time.Location) time.Time {
	return midnight(t, zone, 1)
}

func PreviousCutoff(cutoff time.Time, zone *time.Location) time.Time {
	return midnight(cutoff, zone, -1)
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

// Day is a business date such as 2026-11-20: from its first instant to that of the next day, exclusive.
func Day(date string, zone *time.Location) (from, to time.Time, err error) {
	if to, err = DateCutoff(date, zone); err != nil {
		return time.Time{}, time.Time{}, err
	}
	return PreviousCutoff(to, zone), to, nil
}

// Month is a month such as 2026-11: from the first instant of its first day to that of the next month, exclusive.
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

// dayBegins is the first instant of a day. Where clocks go forward at midnight it is not 00:00, as in Santiago.
func dayBegins(year int, month time.Month, day int, zone *time.Location) time.Time {
	at := time.Date(year, month, day, 0, 0, 0, 0, zone)
	if at.Day() != time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Day() {
		_, changed := at.ZoneBounds()
		return changed
	}
	return at
}
