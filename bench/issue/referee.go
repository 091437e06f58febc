package issue

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// promise is a press that was answered with yes.
type promise struct {
	coupon, user int
	order        uint64        // place in the order in which the contender accepted
	due          time.Duration // since the start
}

// row is an issued coupon as MySQL has it.
type row struct {
	coupon, user int
	place        uint64 // number in the order in which the coupons were issued
}

// verdict is what the referee found.
type verdict struct {
	// Inversions counts users who were issued after a user of the same coupon whose application was accepted later, or
	// never.
	Inversions int
	Overtaken  time.Duration // the longest time by which a press was due before another that was issued first
	Oversold   int           // rows above the seats
	Twice      int           // users with more than one row or more than one yes
	Lost       int           // users who were told yes, have no row, and were not told that all is issued
}

type key struct{ coupon, user int }

// judge compares what a contender promised with what MySQL has. notSelected are the users whom it took into its line
// and told later that all is issued.
func judge(seats int, promises []promise, rows []row, notSelected map[key]bool) (v verdict) {
	told := make(map[key]promise, len(promises))
	for _, p := range promises {
		k := key{p.coupon, p.user}
		if _, before := told[k]; before {
			v.Twice++
			continue
		}
		told[k] = p
	}
	stored := make(map[key]int, len(rows))
	byCoupon := map[int][]row{}
	for _, r := range rows {
		k := key{r.coupon, r.user}
		if stored[k]++; stored[k] == 2 {
			v.Twice++
		}
		byCoupon[r.coupon] = append(byCoupon[r.coupon], r)
	}
	for k := range told {
		if stored[k] == 0 && !notSelected[k] {
			v.Lost++
		}
	}
	latestOf := map[int]uint64{}
	for coupon, issued := range byCoupon {
		v.Oversold += max(0, len(issued)-seats)
		slices.SortFunc(issued, func(a, b row) int { return cmp.Compare(a.place, b.place) })
		var latest uint64
		latestDue := time.Duration(math.MinInt64 / 2) // no difference overflows
		for _, r := range issued {
			p, known := told[key{coupon, r.user}]
			if !known {
				continue // told an error: its order is unknown
			}
			if p.order < latest {
				v.Inversions++
			}
			v.Overtaken = max(v.Overtaken, latestDue-p.due)
			latest, latestDue = max(latest, p.order), max(latestDue, p.due)
		}
		latestOf[coupon] = latest
	}
	for k := range notSelected {
		if p, known := told[k]; known && p.order < latestOf[k.coupon] {
			v.Inversions++
		}
	}
	return v
}
