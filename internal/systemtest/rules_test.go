package systemtest

import (
	"cmp"
	"maps"
	"slices"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// The model keeps the rules of a coupon in their simplest form, in memory: no pages, no transactions, nothing that can
// fail. It follows docs/design.md and not the code.

// place is where in Redis an application is stored.
type place string

const (
	absent    place = ""
	waiting   place = "waiting"
	retryable place = "under review, retryable"
	held      place = "under review, held"
)

func (p place) underReview() bool { return p == retryable || p == held }

// Outcomes of an application.
const (
	undecided     = ""
	issued        = "ISSUED"
	notSelected   = "NOT_SELECTED"
	rejected      = "REJECTED"
	alreadyIssued = "ALREADY_ISSUED"
)

// applicationKey identifies an application.
type applicationKey struct {
	user    coupon.UserID
	arrival coupon.Arrival
}

// active is the status of a user who can get a coupon. The status of an unknown user is empty.
const active = "ACTIVE"

type user struct {
	status     string
	rowRefused bool // MySQL refuses rows of user_coupon about this user
}

type users map[coupon.UserID]user

// record is everything known of one application. Before the clean-up it has both a place in Redis and an outcome in
// MySQL.
type record struct {
	place   place
	cause   string // of the review
	outcome string
	seat    int            // of an issued coupon
	run     coupon.RunID   // that decided the outcome
	refused int            // how often MySQL refused the row
	night   coupon.Arrival // the cutoff of the last nightly run that met the refusal
}

// state is everything that can be read about one coupon. The model computes it, and readState reads it from the
// servers.
type state struct {
	seats          int
	soldOut        bool // new applications are answered SOLD_OUT
	finalised      bool
	writtenOff     int // lost applications that an operator has accepted
	applications   map[applicationKey]record
	byHand         map[coupon.UserID]int       // seats of holders without an application
	markedIssued   map[coupon.UserID]bool      // users answered ALREADY_ISSUED
	markedRejected map[coupon.UserID]bool      // users answered REJECTED
	pendingCleanup map[coupon.RunID]pendingRun // runs whose clean-up is not complete
	anomalies      []string                    // inconsistencies on the servers; always empty in the model
}

func newState(seats int) state {
	return state{
		seats: seats, applications: map[applicationKey]record{}, byHand: map[coupon.UserID]int{},
		markedIssued:   map[coupon.UserID]bool{},
		markedRejected: map[coupon.UserID]bool{}, pendingCleanup: map[coupon.RunID]pendingRun{},
	}
}

// pendingRun is a run whose clean-up is not complete.
type pendingRun struct {
	cutoff    coupon.Arrival
	immediate bool
}

// coveredBy reports whether another run finds all that the run has left in Redis. An immediate run does not read the
// DLQ.
func (p pendingRun) coveredBy(cutoff coupon.Arrival, k runKind) bool {
	return p.cutoff <= cutoff && (p.immediate || !k.isImmediate)
}

func (s state) clone() state {
	s.applications, s.byHand = maps.Clone(s.applications), maps.Clone(s.byHand)
	s.markedIssued, s.markedRejected, s.pendingCleanup = maps.Clone(s.markedIssued), maps.Clone(s.markedRejected),
		maps.Clone(s.pendingCleanup)
	return s
}

func (s state) byArrival() []applicationKey {
	return slices.SortedFunc(maps.Keys(s.applications), func(a, b applicationKey) int {
		return cmp.Or(cmp.Compare(a.arrival, b.arrival), cmp.Compare(a.user, b.user))
	})
}

// before are the applications before a cutoff, by arrival.
func (s state) before(cutoff coupon.Arrival) []applicationKey {
	return slices.DeleteFunc(s.byArrival(), func(a applicationKey) bool { return a.arrival >= cutoff })
}

// count counts the applications that have a property.
func (s state) count(has func(a applicationKey, is record) bool) (n int) {
	for a, is := range s.applications {
		if has(a, is) {
			n++
		}
	}
	return n
}

func (s state) holds(user coupon.UserID) bool {
	_, byHand := s.byHand[user]
	return byHand || s.count(func(a applicationKey, is record) bool {
		return a.user == user &&
			is.outcome == issued
	}) > 0
}

func (s state) issuedCount() int {
	return len(s.byHand) + s.count(func(_ applicationKey, is record) bool { return is.outcome == issued })
}

func (s state) free() int { return s.seats - s.issuedCount() }

// decidedBy counts the outcomes of a run.
func (s state) decidedBy(run coupon.RunID, outcome string) int {
	return s.count(func(_ applicationKey, is record) bool { return is.run == run && is.outcome == outcome })
}

// position is the place of an application in the queue, from 1.
func (s state) position(of applicationKey) int64 {
	return int64(s.count(func(a applicationKey, is record) bool {
		return is.place == waiting &&
			a.arrival <= of.arrival
	}))
}

// waiting are the applications in the queue, by arrival.
func (s state) waiting() []applicationKey {
	return slices.DeleteFunc(s.byArrival(), func(a applicationKey) bool { return s.applications[a].place != waiting })
}

// lastSeated is the highest arrival with a seat.
func (s state) lastSeated() (last coupon.Arrival) {
	for a, is := range s.applications {
		if is.outcome == issued {
			last = max(last, a.arrival)
		}
	}
	return last
}

func (s state) anyNotSelected() bool {
	return s.count(func(_ applicationKey, is record) bool { return is.outcome == notSelected }) > 0
}

func (s state) anyInRedis() bool {
	return s.count(func(_ applicationKey, is record) bool { return is.place != absent }) > 0
}

// inRedis is the application of a user in Redis: the one in the queue before the one under review.
func (s state) inRedis(user coupon.UserID) (key applicationKey, found record) {
	for a, is := range s.applications {
		if a.user == user && is.place != absent && found.place != waiting {
			key, found = a, is
		}
	}
	return key, found
}

// couponModel is the model of one coupon.
type couponModel struct {
	name string
	id   coupon.CouponID
	state
	accepted  int               // applications ever accepted
	highest   coupon.Arrival    // arrival ever given
	settledTo coupon.Arrival    // highest cutoff of a settlement: no later arrival is below it
	closesAt  coupon.Arrival    // end of applying
	closed    bool              // applying has ended
	immediate bool              // immediate runs settle it, too
	frozen    bool              // no run changes anything
	lineLimit int               // while so many wait, newcomers are refused; 0: no limit
	backup    *couponModel      // at the backup of Redis
	dumps     map[string]string // the backup of Redis by key
}

// answer is the answer to another application of the user.
func (c *couponModel) answer(user coupon.UserID) (candidates.Code, applicationKey) {
	existing, is := c.inRedis(user)
	waits := c.waiting()
	switch {
	case c.closed:
		return candidates.Closed, applicationKey{}
	case is.place == waiting:
		return candidates.Duplicate, existing
	case is.place != absent:
		return candidates.UnderReview, existing
	case c.markedIssued[user]:
		return candidates.AlreadyIssued, applicationKey{}
	case c.markedRejected[user]:
		return candidates.Rejected, applicationKey{}
	case c.soldOut:
		return candidates.SoldOut, applicationKey{}
	case c.lineLimit > 0 && len(waits) >= c.lineLimit:
		return candidates.LineFull, waits[0]
	default:
		return candidates.Accepted, applicationKey{}
	}
}

// gap counts the accepted applications that are lost and not written off.
func (c *couponModel) gap() int { return c.accepted - len(c.applications) - c.writtenOff }

// runKind has the properties of an order that change a settlement.
type runKind struct {
	acceptGap, isRetry, isNight bool
	isImmediate                 bool            // leaves the DLQ alone, keeps no seats for it, and finalises nothing
	canaries                    []coupon.UserID // of the DLQ, the only ones to try; nil: all entries
}

// skips reports whether a run keeps a seat for a DLQ entry without trying it: a nightly run tries each entry once, and
// a retry with canaries tries only them.
func (k runKind) skips(a applicationKey, is record, cutoff coupon.Arrival) bool {
	switch {
	case is.place != retryable:
		return false
	case k.canaries != nil:
		return !slices.Contains(k.canaries, a.user)
	default:
		return k.isNight && is.night == cutoff
	}
}

// settle settles the applications before the cutoff. heldBack reports that the coupon was held.
func (c *couponModel) settle(run coupon.RunID, cutoff coupon.Arrival, known users, k runKind) (heldBack bool) {
	if c.gap() > 0 && !k.acceptGap {
		return true
	}
	if c.gap() > 0 {
		c.writtenOff += c.gap()
		c.backup = nil // applications that are written off never return
	}
	c.settledTo = max(c.settledTo, cutoff)
	c.issue(run, cutoff, known, k)
	c.cleanUp(run, cutoff, k)
	c.closeOut(run, cutoff, known, k)
	c.finish(cutoff, k)
	return false
}

// issue gives the free seats to the lowest arrivals of eligible users. A NOT_SELECTED user who is not eligible any more
// is rejected. A skipped entry keeps its seat.
func (c *couponModel) issue(run coupon.RunID, cutoff coupon.Arrival, known users, k runKind) {
	kept := 0
	for _, a := range c.before(cutoff) {
		is := c.applications[a]
		waits := is.outcome == undecided && (is.place == waiting || is.place == retryable && !k.isImmediate)
		if !waits && is.outcome != notSelected {
			continue
		}
		if c.free()-kept <= 0 {
			return
		}
		switch {
		case c.holds(a.user) && is.outcome == notSelected:
			is.outcome, is.run = alreadyIssued, run
		case c.holds(a.user): // closeOut decides
		case known[a.user].status == active && is.outcome == undecided && k.skips(a, is, cutoff):
			kept++
		case known[a.user].status == active && known[a.user].rowRefused:
			is = c.moveToReview(a, is, run)
			if k.isNight && is.cause == "BAD_ROW" {
				is.night = cutoff
			}
		case known[a.user].status == active:
			is.seat = c.issuedCount() + 1
			is.outcome, is.run = issued, run
		case is.outcome == notSelected:
			is.outcome, is.run = rejected, run
		}
		c.applications[a] = is
	}
}

// maxRefusals is how often runs try a refused row before an operator has to decide.
const maxRefusals = 10

// moveToReview moves an application whose row MySQL refused to the DLQ, and removes its NOT_SELECTED outcome. If
// another application of the user is under review, a NOT_SELECTED one is rejected instead.
func (c *couponModel) moveToReview(a applicationKey, is record, run coupon.RunID) record {
	switch another := c.anotherUnderReview(a); {
	case another && is.outcome == notSelected:
		is.outcome, is.run = rejected, run
	case !another:
		before := record{}
		if is.place == retryable {
			before = is
		}
		is = record{place: retryable, cause: "BAD_ROW", refused: before.refused + 1, night: before.night}
		if is.refused >= maxRefusals {
			is.place = held
		}
	}
	return is
}

func (c *couponModel) anotherUnderReview(a applicationKey) bool {
	return c.count(func(other applicationKey, is record) bool {
		return other.user == a.user && other != a && is.place.underReview()
	}) > 0
}

// cleanUp removes the applications from Redis that this run, or a run with a pending clean-up, has issued or rejected.
// An immediate run leaves to its close-out what other runs have issued.
func (c *couponModel) cleanUp(run coupon.RunID, cutoff coupon.Arrival, k runKind) {
	for a, is := range c.applications {
		of, pending := c.pendingCleanup[is.run]
		if !pending && is.run != run {
			continue
		}
		if k.isImmediate && is.run != run && (is.outcome == issued || !of.coveredBy(cutoff, k)) {
			continue
		}
		switch is.outcome {
		case issued:
			c.markedIssued[a.user] = true
		case rejected:
			c.markedRejected[a.user] = true
		default:
			continue
		}
		is.place, is.cause = absent, ""
		c.applications[a] = is
	}
}

// closeOut decides the remaining applications before the cutoff. A retry without a free seat changes no DLQ entry.
func (c *couponModel) closeOut(run coupon.RunID, cutoff coupon.Arrival, known users, k runKind) {
	lastSeated := c.lastSeated()
	for _, a := range c.before(cutoff) {
		is := c.applications[a]
		status := known[a.user].status
		decided := is.outcome != undecided
		switch {
		case is.place == absent, !decided && is.place == held, k.isImmediate && is.place.underReview():
			continue
		case !decided && is.place == waiting && c.anotherUnderReview(a) && !c.holds(a.user) &&
			(status != active || a.arrival <= lastSeated):
			continue // the DLQ keeps one entry per user
		case decided:
		case c.holds(a.user):
			is.outcome, is.run = alreadyIssued, run
		case status == "":
			is.place, is.cause = held, "UNKNOWN_USER"
		case status != active:
			is.place, is.cause = held, "INACTIVE_USER"
		case a.arrival <= lastSeated:
			if is.place == waiting {
				is.place, is.cause = retryable, "PASSED_OVER"
			}
		case c.free() <= 0 && is.place == retryable && (k.isRetry || k.skips(a, is, cutoff)):
		case c.free() <= 0:
			is.outcome, is.run = notSelected, run
		}
		if is.outcome != undecided {
			is.place, is.cause = absent, ""
			if c.holds(a.user) {
				c.markedIssued[a.user] = true
			}
		}
		c.applications[a] = is
	}
}

// finish sets SOLD_OUT and finalises a closed coupon.
func (c *couponModel) finish(cutoff coupon.Arrival, k runKind) {
	maps.DeleteFunc(c.pendingCleanup, func(_ coupon.RunID, of pendingRun) bool { return of.coveredBy(cutoff, k) })
	switch {
	case c.free() <= 0:
		c.soldOut = true
	case c.anyNotSelected():
		return // the seats belong to the NOT_SELECTED users
	default:
		c.soldOut = false
	}
	if c.closesAt > cutoff || k.isImmediate || c.gap() > 0 || c.anyInRedis() {
		return
	}
	clear(c.pendingCleanup)
	clear(c.markedIssued)
	clear(c.markedRejected)
	c.finalised = true
}

// underReview are the users in the DLQ, by arrival.
func (c *couponModel) underReview() (users []coupon.UserID) {
	for _, a := range c.byArrival() {
		if c.applications[a].place.underReview() {
			users = append(users, a.user)
		}
	}
	return users
}

// release makes the held DLQ entries of these users retryable.
func (c *couponModel) release(users []coupon.UserID) {
	for a, is := range c.applications {
		if is.place == held && slices.Contains(users, a.user) {
			is.place = retryable
			c.applications[a] = is
		}
	}
}

// drop rejects the DLQ entries of these users for good.
func (c *couponModel) drop(run coupon.RunID, users []coupon.UserID) {
	for a, is := range c.applications {
		if is.place.underReview() && slices.Contains(users, a.user) && is.outcome == undecided {
			c.applications[a] = record{outcome: rejected, run: run}
			c.markedRejected[a.user] = true
		}
	}
}

// loseRedis loses all keys of the coupon. Outcomes remain in MySQL.
func (c *couponModel) loseRedis() {
	for a, is := range c.applications {
		c.loseFromRedis(a, is)
	}
	clear(c.markedIssued)
	clear(c.markedRejected)
	c.accepted, c.highest = 0, 0
	c.settledTo = 0 // a cutoff that was ahead of the clock is known to nobody who accepts
	for a := range c.applications {
		c.highest = max(c.highest, a.arrival) // MySQL knows what was settled
	}
}

// restore is what a restore does after each loss: it enters whom only the journal knows, marks all whom MySQL has
// decided, and accepts what is known.
func (c *couponModel) restore(journal []applicationKey) {
	for _, a := range journal {
		if is := c.applications[a]; is.outcome == undecided && is.place == absent {
			c.applications[a] = record{place: waiting}
		}
	}
	for user := range c.byHand {
		c.markedIssued[user] = true
	}
	for a, is := range c.applications {
		switch is.outcome {
		case issued:
			c.markedIssued[a.user] = true
		case rejected:
			c.markedRejected[a.user] = true
		}
	}
	c.accepted = max(c.accepted, len(c.applications)+c.writtenOff)
}

// removeMarked removes whom a restore of a new server marks, as a clean-up does: from the queue up to their last
// arrival, from the DLQ at it.
func (c *couponModel) removeMarked() {
	last := map[coupon.UserID]coupon.Arrival{}
	for a, is := range c.applications {
		if is.outcome == issued || is.outcome == rejected {
			last[a.user] = max(last[a.user], a.arrival)
		}
	}
	for a, is := range c.applications {
		at := last[a.user]
		if is.place == waiting && a.arrival <= at || is.place.underReview() && a.arrival == at {
			is.place, is.cause = absent, ""
			c.applications[a] = is
		}
	}
}

func (c *couponModel) loseFromRedis(a applicationKey, is record) {
	if is.outcome == undecided {
		delete(c.applications, a)
		return
	}
	is.place, is.cause = absent, ""
	c.applications[a] = is
}

// restoreRedis restores all keys of the coupon from the backup.
func (c *couponModel) restoreRedis() {
	c.loseRedis()
	for a, was := range c.backup.applications {
		if was.place == absent {
			continue
		}
		is := c.applications[a] // with an outcome decided since, or none
		is.place, is.cause, is.refused, is.night = was.place, was.cause, was.refused, was.night
		c.applications[a] = is
	}
	c.soldOut = c.backup.soldOut
	c.markedIssued, c.markedRejected = maps.Clone(c.backup.markedIssued), maps.Clone(c.backup.markedRejected)
	c.accepted, c.highest = c.backup.accepted, max(c.highest, c.backup.highest)
}
