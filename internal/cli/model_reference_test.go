package cli

import (
	"cmp"
	"maps"
	"slices"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// The rules of a coupon in their simplest form, in memory: no pages, no transactions, nothing that can fail. It knows
// what DESIGN.md promises and not how the code keeps it.

// place is where in Redis an application stands.
type place string

const (
	absent    place = ""
	waiting   place = "waiting"
	retryable place = "under review, retryable"
	held      place = "under review, held"
)

// What became of an application.
const (
	undecided     = ""
	issued        = "ISSUED"
	notSelected   = "NOT_SELECTED"
	rejected      = "REJECTED"
	alreadyIssued = "ALREADY_ISSUED"
)

// applied names an application: one user at one arrival.
type applied struct {
	user    coupon.UserID
	arrival coupon.Arrival
}

// active is the status of a user who can hold a coupon; that of a user whom nobody knows is empty.
const active = "ACTIVE"

// person is a user.
type person struct {
	status string
	odd    bool // the database refuses rows of user_coupon about this user
}

// fact is all that is known of one application. It may stand somewhere and be decided: Redis has not heard yet.
type fact struct {
	stands  place
	cause   string // why it is under review
	outcome string
	seat    int            // of an issued one
	run     coupon.RunID   // that decided
	refused int            // how often the database refused the row of one under review
	night   coupon.Arrival // the cutoff of the last night to which it was refused
}

// facts are all that can be seen of one coupon from outside. The model says what they must be, and the same is read from
// the servers.
type facts struct {
	seats      int
	soldOut    bool // what the door says to newcomers
	finalised  bool
	writtenOff int // lost applications that an operator has accepted
	line       map[applied]fact
	byHand     map[coupon.UserID]int           // holders without application, and their seats
	toldIssued map[coupon.UserID]bool          // whom the door answers ALREADY_ISSUED
	toldNo     map[coupon.UserID]bool          // whom the door answers REJECTED
	unclean    map[coupon.RunID]coupon.Arrival // runs of which Redis has not heard everything, and their cutoffs
	odd        []string                        // what may never be
}

func newFacts(seats int) facts {
	return facts{
		seats: seats, line: map[applied]fact{}, byHand: map[coupon.UserID]int{},
		toldIssued: map[coupon.UserID]bool{}, toldNo: map[coupon.UserID]bool{}, unclean: map[coupon.RunID]coupon.Arrival{},
	}
}

func (f facts) clone() facts {
	f.line, f.byHand = maps.Clone(f.line), maps.Clone(f.byHand)
	f.toldIssued, f.toldNo, f.unclean = maps.Clone(f.toldIssued), maps.Clone(f.toldNo), maps.Clone(f.unclean)
	return f
}

// byArrival are the applications in the order they came.
func (f facts) byArrival() []applied {
	return slices.SortedFunc(maps.Keys(f.line), func(a, b applied) int {
		return cmp.Or(cmp.Compare(a.arrival, b.arrival), cmp.Compare(a.user, b.user))
	})
}

func (f facts) before(cutoff coupon.Arrival) []applied {
	return slices.DeleteFunc(f.byArrival(), func(a applied) bool { return a.arrival >= cutoff })
}

func (f facts) holds(user coupon.UserID) bool {
	if _, given := f.byHand[user]; given {
		return true
	}
	for a, is := range f.line {
		if a.user == user && is.outcome == issued {
			return true
		}
	}
	return false
}

func (f facts) issuedCount() int {
	n := len(f.byHand)
	for _, is := range f.line {
		if is.outcome == issued {
			n++
		}
	}
	return n
}

// decidedBy counts what a run has decided.
func (f facts) decidedBy(run coupon.RunID) (given, not, already int) {
	for _, is := range f.line {
		if is.run != run {
			continue
		}
		switch is.outcome {
		case issued:
			given++
		case notSelected:
			not++
		case alreadyIssued:
			already++
		}
	}
	return given, not, already
}

// placeOf is the applicant's place among those waiting, from 1.
func (f facts) placeOf(a applied) (n int64) {
	for other, is := range f.line {
		if is.stands == waiting && other.arrival <= a.arrival {
			n++
		}
	}
	return n
}

func (f facts) free() int { return f.seats - f.issuedCount() }

// lastSeated is the highest arrival that ever got a seat.
func (f facts) lastSeated() (last coupon.Arrival) {
	for a, is := range f.line {
		if is.outcome == issued {
			last = max(last, a.arrival)
		}
	}
	return last
}

func (f facts) anyNotSelected() bool {
	for _, is := range f.line {
		if is.outcome == notSelected {
			return true
		}
	}
	return false
}

func (f facts) anyStands() bool {
	for _, is := range f.line {
		if is.stands != absent {
			return true
		}
	}
	return false
}

// of is the user's application that stands in Redis.
func (f facts) of(user coupon.UserID) (standing applied, found fact) {
	for a, is := range f.line { // the door looks into the queue first
		if a.user == user && is.stands != absent && found.stands != waiting {
			standing, found = a, is
		}
	}
	return standing, found
}

// answer is what the door must say to the user.
func (f facts) answer(user coupon.UserID, closed bool) (candidates.Code, applied) {
	standing, is := f.of(user)
	switch {
	case closed:
		return candidates.Closed, applied{}
	case is.stands == waiting:
		return candidates.Duplicate, standing
	case is.stands != absent:
		return candidates.UnderReview, standing
	case f.toldIssued[user]:
		return candidates.AlreadyIssued, applied{}
	case f.toldNo[user]:
		return candidates.Rejected, applied{}
	case f.soldOut:
		return candidates.SoldOut, applied{}
	default:
		return candidates.Accepted, applied{}
	}
}

// modelCoupon is one coupon of the model.
type modelCoupon struct {
	name string
	id   coupon.CouponID
	facts
	promised  int               // applications ever accepted
	highest   coupon.Arrival    // arrival ever given
	settledTo coupon.Arrival    // highest cutoff ever settled: nothing arrives below it any more
	closesAt  coupon.Arrival    // µs since 1970
	closed    bool              // the door is shut
	backup    *facts            // what a backup of its Redis holds
	dumps     map[string]string // the backup itself: key → dump
}

// gap is how many promises are lost and not accepted as lost.
func (c *modelCoupon) gap() int { return c.promised - len(c.line) - c.writtenOff }

// kind is what a run was asked for, as far as that matters to the line.
type kind struct {
	acceptGap, isRetry bool
	isNight            bool
	canaries           []coupon.UserID // try these alone of those under review; nil: everybody
}

// leavesOut is whether a run keeps a seat for somebody under review instead of trying the row: a night tries nobody's twice,
// and canaries go alone.
func (k kind) leavesOut(a applied, is fact, cutoff coupon.Arrival) bool {
	switch {
	case is.stands != retryable:
		return false
	case k.canaries != nil:
		return !slices.Contains(k.canaries, a.user)
	default:
		return k.isNight && is.night == cutoff
	}
}

// settle is one settlement by that run of what arrived before the cutoff. It says whether the coupon is held.
func (c *modelCoupon) settle(run coupon.RunID, cutoff coupon.Arrival, users map[coupon.UserID]person, k kind) (isHeld bool) {
	if c.gap() > 0 && !k.acceptGap {
		return true
	}
	if c.gap() > 0 {
		c.writtenOff += c.gap()
		c.backup = nil // what is written off never comes back
	}
	c.settledTo = max(c.settledTo, cutoff)
	c.give(run, cutoff, users, k)
	c.tell(run)
	c.conclude(run, cutoff, users, k)
	c.finish(cutoff)
	return false
}

// give hands out the free seats: whoever came first and can hold the coupon. A seat that somebody cannot take goes to
// the next; who had been told NOT_SELECTED before and cannot take the seat now is told so for good. Who is left out keeps a
// seat.
func (c *modelCoupon) give(run coupon.RunID, cutoff coupon.Arrival, users map[coupon.UserID]person, k kind) {
	kept := 0
	for _, a := range c.before(cutoff) {
		is := c.line[a]
		waits := is.outcome == undecided && (is.stands == waiting || is.stands == retryable)
		if !waits && is.outcome != notSelected {
			continue
		}
		if c.free()-kept <= 0 {
			return
		}
		switch {
		case c.holds(a.user) && is.outcome == notSelected:
			is.outcome, is.run = alreadyIssued, run
		case c.holds(a.user): // concluded below
		case users[a.user].status == active && is.outcome == undecided && k.leavesOut(a, is, cutoff):
			kept++
		case users[a.user].status == active && users[a.user].odd:
			is = c.setApart(a, is, run)
			if k.isNight && is.cause == "BAD_ROW" {
				is.night = cutoff
			}
		case users[a.user].status == active:
			is.seat = c.issuedCount() + 1
			is.outcome, is.run = issued, run
		case is.outcome == notSelected:
			is.outcome, is.run = rejected, run
		}
		c.line[a] = is
	}
}

// mostRefusals is how often a row is tried before a person must decide.
const mostRefusals = 10

// setApart puts under review, to be tried again by every run but not for ever, who cannot be given a seat because of a row
// that the database refuses. Who was told NOT_SELECTED before is told so no more; when another application of this user is under
// review already, this one ends.
func (c *modelCoupon) setApart(a applied, is fact, run coupon.RunID) fact {
	switch another := c.anotherUnderReview(a); {
	case another && is.outcome == notSelected:
		is.outcome, is.run = rejected, run
	case !another:
		was := fact{}
		if is.stands == retryable {
			was = is
		}
		is = fact{stands: retryable, cause: "BAD_ROW", refused: was.refused + 1, night: was.night}
		if is.refused >= mostRefusals {
			is.stands = held
		}
	}
	return is
}

func (c *modelCoupon) anotherUnderReview(a applied) bool {
	for other, is := range c.line {
		if other.user == a.user && other != a && (is.stands == retryable || is.stands == held) {
			return true
		}
	}
	return false
}

// tell lets Redis hear what this run, and those that did not come so far, have decided.
func (c *modelCoupon) tell(run coupon.RunID) {
	for a, is := range c.line {
		if _, unheard := c.unclean[is.run]; !unheard && is.run != run {
			continue
		}
		switch is.outcome {
		case issued:
			c.toldIssued[a.user] = true
			is.stands, is.cause = absent, ""
		case rejected:
			c.toldNo[a.user] = true
			is.stands, is.cause = absent, ""
		}
		c.line[a] = is
	}
}

// conclude gives everybody who still stands before the cutoff what is theirs when the seats have been given. A retry that finds
// no seat ends nobody under review.
func (c *modelCoupon) conclude(run coupon.RunID, cutoff coupon.Arrival, users map[coupon.UserID]person, k kind) {
	lastSeated := c.lastSeated()
	for _, a := range c.before(cutoff) {
		is := c.line[a]
		decided := is.outcome != undecided
		switch {
		case is.stands == absent, !decided && is.stands == held:
			continue // a person decides
		case !decided && is.stands == waiting && c.anotherUnderReview(a) && !c.holds(a.user) &&
			(users[a.user].status != active || a.arrival <= lastSeated):
			continue // two promises never become one
		case decided:
		case c.holds(a.user):
			is.outcome, is.run = alreadyIssued, run
		case users[a.user].status == "":
			is.stands, is.cause = held, "UNKNOWN_USER"
		case users[a.user].status != active:
			is.stands, is.cause = held, "INACTIVE_USER"
		case a.arrival <= lastSeated:
			if is.stands == waiting {
				is.stands, is.cause = retryable, "PASSED_OVER"
			}
		case c.free() <= 0 && is.stands == retryable && (k.isRetry || k.leavesOut(a, is, cutoff)):
		case c.free() <= 0:
			is.outcome, is.run = notSelected, run
		}
		if is.outcome != undecided {
			is.stands, is.cause = absent, ""
			if c.holds(a.user) {
				c.toldIssued[a.user] = true
			}
		}
		c.line[a] = is
	}
}

// finish says at the door whether seats are left, and ends a coupon that is over.
func (c *modelCoupon) finish(cutoff coupon.Arrival) {
	for run, itsCutoff := range c.unclean {
		if itsCutoff <= cutoff {
			delete(c.unclean, run)
		}
	}
	switch {
	case c.free() <= 0:
		c.soldOut = true
	case c.anyNotSelected():
		return // they come before any newcomer
	default:
		c.soldOut = false
	}
	if c.closesAt > cutoff || c.gap() > 0 || c.anyStands() {
		return
	}
	clear(c.unclean)
	clear(c.toldIssued)
	clear(c.toldNo)
	c.finalised = true
}

// underReview are the users under review, in order of arrival.
func (c *modelCoupon) underReview() (users []coupon.UserID) {
	for _, a := range c.byArrival() {
		if is := c.line[a]; is.stands == retryable || is.stands == held {
			users = append(users, a.user)
		}
	}
	return users
}

// release lets every run try again who is under review.
func (c *modelCoupon) release(users []coupon.UserID) {
	for a, is := range c.line {
		if is.stands == held && slices.Contains(users, a.user) {
			is.stands = retryable
			c.line[a] = is
		}
	}
}

// drop ends applications under review for good.
func (c *modelCoupon) drop(run coupon.RunID, users []coupon.UserID) {
	for a, is := range c.line {
		if (is.stands == held || is.stands == retryable) && slices.Contains(users, a.user) && is.outcome == undecided {
			c.line[a] = fact{outcome: rejected, run: run}
			c.toldNo[a.user] = true
		}
	}
}

// forget is a Redis that has lost everything of this coupon; what is decided stands in the database.
func (c *modelCoupon) forget() {
	for a, is := range c.line {
		c.vanish(a, is)
	}
	clear(c.toldIssued)
	clear(c.toldNo)
}

func (c *modelCoupon) vanish(a applied, is fact) {
	if is.outcome == undecided {
		delete(c.line, a)
		return
	}
	is.stands, is.cause = absent, ""
	c.line[a] = is
}

// restore is a Redis that is as it was at the backup: who stood then stands again.
func (c *modelCoupon) restore() {
	c.forget()
	for a, was := range c.backup.line {
		if was.stands == absent {
			continue
		}
		is := c.line[a] // decided since, or none
		is.stands, is.cause, is.refused, is.night = was.stands, was.cause, was.refused, was.night
		c.line[a] = is
	}
	c.soldOut = c.backup.soldOut
	c.toldIssued, c.toldNo = maps.Clone(c.backup.toldIssued), maps.Clone(c.backup.toldNo)
}
