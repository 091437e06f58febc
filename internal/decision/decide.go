package decision

import "github.com/jajeong/jajeong/internal/coupon"

// Decisions are the results of a page of the rest of the line. An application in none of the lists stays where it is.
type Decisions struct {
	Read           int                  // applications in the line
	IssuedBefore   []coupon.Application // the user holds the coupon by this application
	RecordedBefore []coupon.Application // the outcome is recorded
	AlreadyIssued  []coupon.Application // the user holds the coupon by another application or by hand
	NotSelected    []coupon.Application
	Review         []coupon.Failure
}

// Decide decides a page. boundary is the highest arrival that ever got a seat. stays reports whether an application stays in
// the DLQ although no seat is left.
func Decide(all []Application, free int, boundary coupon.Arrival, stays func(coupon.Application) bool) (d Decisions) {
	for i, c := range all {
		if i > 0 && c.User() != 0 && c.User() == all[i-1].User() && c.Arrival == all[i-1].Arrival {
			// One application is in queue and DLQ, for example after a failover of Redis. If it stays in the DLQ, it leaves the
			// queue.
			if all[i-1].Source != coupon.SourceQueue {
				d.Review = append(d.Review, coupon.Failure{Application: c.Application, Cause: coupon.CausePassedOver, Retryable: true,
					Message: "stood under review and in the queue"})
			}
			continue
		}
		rejection, rejected := c.Failure()
		if c.Source != coupon.SourceHeld {
			d.Read++
		}
		switch {
		case c.Verdict == Settled && c.Holds:
			d.IssuedBefore = append(d.IssuedBefore, c.Application)
		case c.Verdict == Settled:
			d.RecordedBefore = append(d.RecordedBefore, c.Application)
		case c.Source == coupon.SourceHeld: // an operator decides
		case c.Verdict == HoldsAlready:
			d.AlreadyIssued = append(d.AlreadyIssued, c.Application)
		case rejected:
			d.Review = append(d.Review, rejection)
		case c.Arrival <= boundary:
			if c.Source == coupon.SourceQueue {
				d.Review = append(d.Review, coupon.Failure{Application: c.Application, Cause: coupon.CausePassedOver, Retryable: true,
					Message: "could not be given a coupon in turn; the next free seat is theirs"})
			}
		case free > 0: // kept or added seats, which the next run gives in order
		case stays(c.Application):
		default:
			d.NotSelected = append(d.NotSelected, c.Application)
		}
	}
	return d
}
