package cli

import (
	"strings"
	"testing"
	"time"
)

// The cutoff of a date is the first instant after that day, also where clocks change. The cutoff of an instant is the
// instant. Every error is one line that names a flag.
func FuzzCutoff(f *testing.F) {
	zones := []*time.Location{time.UTC}
	for _, name := range []string{
		"Asia/Seoul", "Europe/Berlin", "America/Santiago", "Africa/Cairo", "America/Havana", "Asia/Beirut",
		"Pacific/Apia", "Asia/Kathmandu",
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			f.Fatal(err)
		}
		zones = append(zones, zone)
	}
	f.Fuzz(func(t *testing.T, date, cutoff string, place byte) {
		zone := zones[int(place)%len(zones)]
		for _, c := range []runCmd{{Date: date}, {Cutoff: cutoff}} {
			got, err := c.cutoff(zone)
			if err != nil {
				if text := err.Error(); strings.ContainsAny(text, "\n\r\x1b") || !strings.Contains(text, "--") &&
					!strings.Contains(text, "1970") {
					t.Errorf("%+v has the error %q", c, text)
				}
				continue
			}
			switch {
			case c.Date != "":
				day, err := time.Parse(time.DateOnly, c.Date)
				if err != nil {
					t.Fatalf("%q was parsed as a date", c.Date)
				}
				// Apia left 2011-12-30 out.
				if last := got.Add(-time.Nanosecond).In(zone).Format(time.DateOnly); last != c.Date &&
					c.Date != "2011-12-30" {
					t.Errorf("the cutoff of %s in %s is %s: before it is %s", c.Date, zone, got, last)
				}
				if first := got.In(zone).Format(time.DateOnly); first <= c.Date && day.Year() < 9999 {
					t.Errorf("the cutoff of %s in %s is %s, on that day", c.Date, zone, got)
				}
			case c.Cutoff == "" || c.Cutoff == "now":
				if !got.IsZero() {
					t.Errorf("%q is %s", c.Cutoff, got)
				}
			case got.Before(time.Unix(0, 0)):
				t.Errorf("%q is %s", c.Cutoff, got)
			default:
				if again, err := (&runCmd{Cutoff: got.Format(time.RFC3339Nano)}).cutoff(zone); err != nil ||
					!again.Equal(got) {
					t.Errorf("%q is %s, and that is %s, %v", c.Cutoff, got, again, err)
				}
			}
		}
	})
}
