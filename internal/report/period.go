package report

import (
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Period is a range of arrivals: from From on and before To.
type Period struct {
	From, To time.Time
	Bucket   time.Duration // of the timeline, whole seconds
}

// buckets is the number of buckets in the period.
func (p Period) buckets() int64 { return int64((p.To.Sub(p.From) + p.Bucket - 1) / p.Bucket) }

// edges are the bounds of the buckets from an arrival to the end of the period.
func (p Period) edges(from coupon.Arrival) []coupon.Arrival {
	from = max(from, coupon.ArrivalAt(p.From))
	edges := []coupon.Arrival{from}
	for next := p.From.Add(time.Duration(p.bucket(from)+1) * p.Bucket); next.Before(p.To); next = next.Add(p.Bucket) {
		edges = append(edges, coupon.ArrivalAt(next))
	}
	return append(edges, max(from, coupon.ArrivalAt(p.To)))
}

// bucket is the index of the bucket that counts an arrival.
func (p Period) bucket(arrival coupon.Arrival) int {
	return int(arrival.Time().Sub(p.From) / p.Bucket)
}

func (p Period) contains(arrival coupon.Arrival) bool {
	return coupon.ArrivalAt(p.From) <= arrival && arrival < coupon.ArrivalAt(p.To)
}
