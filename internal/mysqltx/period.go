package mysqltx

import "time"

// Earliest and Latest are the first and the last day of DATETIME. They stand for no bound.
var (
	Earliest = time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC)
	Latest   = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// Period returns the bounds of a period in UTC. A zero time is no bound.
func Period(from, to time.Time) (first, last time.Time) {
	first, last = Earliest, Latest
	if !from.IsZero() {
		first = from.UTC()
	}
	if !to.IsZero() {
		last = to.UTC()
	}
	return first, last
}
