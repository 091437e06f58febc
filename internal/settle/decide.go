package settle

import "github.com/jajeong/jajeong/internal/coupon"

// decisions are what becomes of a page of the rest of the line; who is in none of them stays in line.
type decisions struct {
	read           int                  // how many stood in line
	issuedBefore   []coupon.Application // hold the coupon by this very application
	recordedBefore []coupon.Application // their outcome stands already
	alreadyIssued  []coupon.Application // hold the coupon by another application or by hand
	notSelected    []coupon.Application
	review         []coupon.Failure
}

// decide is pure: what the page's verdicts mean when so many seats are free and boundary is the highest arrival that
// ever got one. stays tells who stays under review although no seat is left.
func decide(all []classified, free int, boundary coupon.Arrival, stays func(coupon.Application) bool) (d decisions) {
	for i, c := range all {
		if i > 0 && c.User() != 0 && c.User() == all[i-1].User() && c.Arrival == all[i-1].Arrival {
			// One application in two places, by somebody's hand or after Redis fell back. Removing takes it out of both;
			// what stays under review leaves the queue, or stands only there by now.
			if all[i-1].Source != coupon.SourceQueue {
				d.review = append(d.review, coupon.Failure{Application: c.Application, Cause: coupon.CausePassedOver, Retryable: true,
					Message: "stood under review and in the queue"})
			}
			continue
		}
		rejection, rejected := c.rejection()
		if c.Source != coupon.SourceHeld {
			d.read++
		}
		switch {
		case c.verdict == alreadySettled && c.holds:
			d.issuedBefore = append(d.issuedBefore, c.Application)
		case c.verdict == alreadySettled:
			d.recordedBefore = append(d.recordedBefore, c.Application)
		case c.Source == coupon.SourceHeld: // a person decides
		case c.verdict == holdsAlready:
			d.alreadyIssued = append(d.alreadyIssued, c.Application)
		case rejected:
			d.review = append(d.review, rejection)
		case c.Arrival <= boundary:
			if c.Source == coupon.SourceQueue {
				d.review = append(d.review, coupon.Failure{Application: c.Application, Cause: coupon.CausePassedOver, Retryable: true,
					Message: "could not be given a coupon in turn; the next free seat is theirs"})
			}
		case free > 0: // they are kept for somebody, or were added meanwhile: the next run gives them in order
		case stays(c.Application):
		default:
			d.notSelected = append(d.notSelected, c.Application)
		}
	}
	return d
}
