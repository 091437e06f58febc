// Package standing says where a user's application for a coupon is: its standing. apply-api and its streams tell it to
// applicants, `settle explain` to customer service, and `settle user` counts on it.
//
// # Facts
//
// Redis is read first, and then MySQL: an application that leaves Redis is in MySQL already. Two reads are enough for
// any number of users of a coupon: candidates.Store.Watch, and Records.Read for those about whom MustAsk says so.
//
// # Precedence
//
// There may be several facts: a user may apply again, a clean-up may be pending, and Redis may have lost something. The
// first line that is true gives the standing:
//
//	ISSUED        MySQL has a coupon of the user
//	ISSUED        Redis marks the user as issued, and MySQL was not asked
//	PENDING       an application without outcome is in the queue
//	UNDER_REVIEW  an application without outcome is in the DLQ
//	LOST          the journal has an application that Redis has lost and that a restore will put back
//	NOT_SELECTED  the latest outcome is that; ALREADY_ISSUED does not count
//	REJECTED      likewise
//	REJECTED      Redis marks the user as rejected, and MySQL was not asked
//	NONE
//
// MySQL is the source of truth: a mark that it does not confirm counts for nothing. An outcome that was not read cannot
// count either: until the clean-up, an applicant is told PENDING. A restore enters a user at the first arrival of the
// journal that is accounted for nowhere: no coupon is from a run, no outcome is REJECTED, and no run with an outcome of
// the user had a cutoff above the arrival.
//
// # Nowhere
//
// What NONE means depends on the coupon: Losses.Judge says whether a restore may find the user, or the application may
// be lost for good.
package standing

import (
	"slices"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// Facts are what is known of one user and one coupon.
type Facts struct {
	candidates.Found
	Asked      bool             // whether MySQL was asked
	Outcomes   []Outcome        // outcomes that MySQL has, in any order
	Journalled []coupon.Arrival // arrivals that the journal has, ascending; empty: none, or it was not asked
}

// Outcome is a coupon of the user (ISSUED), or a row of application_outcome.
type Outcome struct {
	Outcome coupon.Outcome
	Arrival coupon.Arrival // 0: unknown
	Cutoff  coupon.Arrival // of the run; 0: not read
}

// Conclusion is the standing of an application, with its arrival and its position.
type Conclusion struct {
	Is       coupon.Standing
	Arrival  coupon.Arrival // 0: unknown
	Position int64          // position in the queue, from 1; 0: not in the queue
}

// MustAsk reports whether MySQL must be asked about a user whose standing Redis gives: it may have settled an
// application of which Redis has nothing, or promises may be missing. While marks are written again in a server that is
// new to the coupon, a user in the queue may have the coupon.
func MustAsk(of coupon.Coupon, w candidates.Watch, is coupon.Standing) bool {
	isNew := w.Since == 0 || !w.Restored
	switch is {
	case coupon.StandingNone:
		gone := w.Accepted > w.Waiting+w.DLQ || w.Returned > 0
		return isNew || gone || w.Restores > 0 || w.Sold || of.IssuedCount > 0 || of.Finalised()
	case coupon.StandingPending, coupon.StandingUnderReview:
		return isNew && of.IssuedCount > 0
	default:
		return false
	}
}

// Conclude returns the standing that follows from the facts.
func (f Facts) Conclude() Conclusion {
	latest, waiting := f.latest(), f.Undecided()
	switch {
	case latest.Outcome == coupon.OutcomeIssued:
		return Conclusion{Is: coupon.StandingIssued, Arrival: latest.Arrival}
	case f.MarkedIssued && !f.Asked:
		return Conclusion{Is: coupon.StandingIssued}
	case len(waiting) > 0 && waiting[0].Source == coupon.SourceQueue:
		return Conclusion{Is: coupon.StandingPending, Arrival: waiting[0].Arrival, Position: f.Position}
	case len(waiting) > 0:
		return Conclusion{Is: coupon.StandingUnderReview, Arrival: waiting[0].Arrival}
	case f.lost() > 0:
		return Conclusion{Is: coupon.StandingLost, Arrival: f.lost()}
	case latest.Outcome != "":
		return Conclusion{Is: coupon.Standing(latest.Outcome), Arrival: latest.Arrival}
	case f.MarkedRejected && !f.Asked:
		return Conclusion{Is: coupon.StandingRejected}
	default:
		return Conclusion{Is: coupon.StandingNone}
	}
}

// latest returns ISSUED or else the latest outcome but ALREADY_ISSUED; the zero Outcome if there is none.
func (f Facts) latest() (latest Outcome) {
	for _, o := range f.Outcomes {
		if o.Outcome == coupon.OutcomeIssued {
			return o
		}
		if o.Outcome != coupon.OutcomeAlreadyIssued && o.Arrival >= latest.Arrival {
			latest = o
		}
	}
	return latest
}

// Undecided returns the entries in Redis without an outcome, that of the queue first.
func (f Facts) Undecided() []coupon.Application {
	if len(f.Outcomes) == 0 {
		return f.Entries
	}
	return slices.DeleteFunc(slices.Clone(f.Entries), func(entry coupon.Application) bool {
		return slices.ContainsFunc(f.Outcomes, func(o Outcome) bool { return o.Arrival == entry.Arrival })
	})
}

// lost returns the arrival at which a restore will enter the user; 0: it enters nobody.
func (f Facts) lost() coupon.Arrival {
	below := AccountedBelow(f.Outcomes)
	for _, arrival := range f.Journalled {
		if arrival >= below {
			return arrival
		}
	}
	return 0
}

// AccountedBelow returns the arrival below which the user of the outcomes is accounted for.
func AccountedBelow(outcomes []Outcome) (below coupon.Arrival) {
	for _, o := range outcomes {
		if o.Outcome == coupon.OutcomeRejected {
			return coupon.MaxArrival + 1
		}
		below = max(below, o.Cutoff, o.Arrival+1)
	}
	return below
}
