package decision

import "github.com/jajeong/jajeong/internal/coupon"

// Decisions are the results of one page. An application in none of the lists stays where it is.
type Decisions struct {
	RecordedBefore []coupon.Application // MySQL has the outcome already
	AlreadyIssued  []coupon.Application // the user holds the coupon by another application, or got it by hand
	Holders        []coupon.Application // of both: the users who hold the coupon, with its arrival; 0: given by hand
	NotSelected    []coupon.Application
	Review         []coupon.Failure
}

// Decide decides a page of the line after the seats were given. boundary is the highest arrival that ever got a seat.
// stays reports whether a DLQ entry stays in the DLQ although no seat is left.
func Decide(all []Application, free int, boundary coupon.Arrival, stays func(coupon.Application) bool) (d Decisions) {
	for i, c := range all {
		if i > 0 && c.User() != 0 && c.User() == all[i-1].User() && c.Arrival == all[i-1].Arrival {
			// Redis has one application in queue and DLQ after some failovers. If it stays in the DLQ, it leaves the
			// queue.
			if all[i-1].Source != coupon.SourceQueue {
				d.Review = append(d.Review, coupon.Failure{Application: c.Application, Cause: coupon.CausePassedOver,
					Retryable: true})
			}
			continue
		}
		if c.Holds && (c.Verdict == Settled || c.Verdict == HoldsAlready) {
			d.Holders = append(d.Holders, coupon.Application{Member: c.Member, Arrival: c.HeldAt})
		}
		rejection, rejected := c.Failure()
		switch {
		case c.Verdict == Settled:
			d.RecordedBefore = append(d.RecordedBefore, c.Application)
		case c.Source == coupon.SourceHeld: // stays until an operator decides
		case c.Verdict == HoldsAlready:
			d.AlreadyIssued = append(d.AlreadyIssued, c.Application)
		case rejected:
			d.Review = append(d.Review, rejection)
		case c.Arrival <= boundary:
			if c.Source == coupon.SourceQueue {
				d.Review = append(d.Review, coupon.Failure{Application: c.Application, Cause: coupon.CausePassedOver,
					Retryable: true})
			}
		case free > 0: // the next run gives these kept or added seats in order
		case stays(c.Application):
		default:
			if d.NotSelected == nil {
				d.NotSelected = make([]coupon.Application, 0, len(all)-i) // almost all of a long line
			}
			d.NotSelected = append(d.NotSelected, c.Application)
		}
	}
	return d
}
