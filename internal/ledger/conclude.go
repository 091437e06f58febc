package ledger

import (
	"slices"
	"strings"
)

// State is where one user stands with one coupon. Every state is certain: what could not be looked up has states of its
// own.
type State string

// The states.
const (
	// Something could not be looked up.
	StateUnknown        State = "UNKNOWN"         // nothing is certain
	StateAppliedUnseen  State = "APPLIED_UNSEEN"  // stands in Redis; MySQL, which knows the outcome, is away
	StateIssuedUnseen   State = "ISSUED_UNSEEN"   // Redis answers ALREADY_ISSUED; MySQL is away
	StateRejectedUnseen State = "REJECTED_UNSEEN" // Redis answers REJECTED; MySQL is away

	// Nothing is on record.
	StateNeverNotOpen  State = "NEVER_APPLIED_NOT_OPEN"
	StateNeverOpen     State = "NEVER_APPLIED_OPEN"
	StateNeverPaused   State = "NEVER_APPLIED_PAUSED"
	StateNeverSoldOut  State = "NEVER_APPLIED_SOLD_OUT"
	StateNeverAdded    State = "NEVER_APPLIED_SEATS_ADDED" // was sold out: the door opens when a run has given what was added
	StateNeverClosed   State = "NEVER_APPLIED_CLOSED"
	StateNoSuchUser    State = "NO_SUCH_USER"
	StateMaybeLost     State = "MAYBE_LOST"     // applications of this coupon were lost: perhaps this one
	StateNotSure       State = "NOT_SURE"       // it could not be counted whether any were lost, or Redis has forgotten the coupon
	StateContradiction State = "CONTRADICTION"  // the door has an answer for which there is no record
	StateHolderNoMore  State = "HOLDER_NO_MORE" // settled as ALREADY_ISSUED, and the coupon is gone

	// Waiting.
	StateWaiting          State = "WAITING"
	StateWaitingSettling  State = "WAITING_SETTLING"   // a run that covers it is at work
	StateWaitingOverdue   State = "WAITING_OVERDUE"    // its settlement was due
	StateWaitingRunFailed State = "WAITING_RUN_FAILED" // … and the nightly run came to no good end
	StateWaitingHeld      State = "WAITING_HELD"       // promises are missing: no run settles the coupon
	StateWaitingOver      State = "WAITING_OVER"       // the coupon is finalised: nightly runs pass it by

	// Under review, by cause.
	StateReviewUnknownUser  State = "REVIEW_UNKNOWN_USER"
	StateReviewInactiveUser State = "REVIEW_INACTIVE_USER"
	StateReviewPassedOver   State = "REVIEW_PASSED_OVER"
	StateReviewBadRow       State = "REVIEW_BAD_ROW"
	StateReviewDatabaseAway State = "REVIEW_DATABASE_AWAY"
	StateReviewOther        State = "REVIEW_OTHER" // another cause, or none that can be read

	// Settled.
	StateIssued           State = "ISSUED"
	StateIssuedByHand     State = "ISSUED_BY_HAND"
	StateNotSelected      State = "NOT_SELECTED"
	StateSeatsFree        State = "NOT_SELECTED_SEATS_FREE"      // seats are free again: the next run gives them in order
	StateSeatsFreeOver    State = "NOT_SELECTED_SEATS_FREE_OVER" // … which nightly runs do not, since the coupon is finalised
	StateRejectedByPerson State = "REJECTED_BY_PERSON"
	StateRejectedInactive State = "REJECTED_INACTIVE_USER" // refused when a seat was free again
	StateRejectedUnknown  State = "REJECTED_UNKNOWN_USER"
	StateRejectedBadRow   State = "REJECTED_BAD_ROW"
	StateRejectedOther    State = "REJECTED_OTHER"
)

// States are all of them.
var States = []State{
	StateUnknown, StateAppliedUnseen, StateIssuedUnseen, StateRejectedUnseen, StateNeverNotOpen, StateNeverOpen, StateNeverPaused,
	StateNeverSoldOut, StateNeverAdded, StateNeverClosed, StateNoSuchUser, StateMaybeLost, StateNotSure, StateContradiction, StateHolderNoMore,
	StateWaiting, StateWaitingSettling, StateWaitingOverdue, StateWaitingRunFailed, StateWaitingHeld, StateWaitingOver,
	StateReviewUnknownUser, StateReviewInactiveUser, StateReviewPassedOver, StateReviewBadRow, StateReviewDatabaseAway,
	StateReviewOther, StateIssued, StateIssuedByHand, StateNotSelected, StateSeatsFree, StateSeatsFreeOver, StateRejectedByPerson,
	StateRejectedInactive, StateRejectedUnknown, StateRejectedBadRow, StateRejectedOther,
}

// Note is what else is true, told behind the state.
type Note string

// The notes, in the order they are told.
const (
	NoteUsable  Note = "USABLE" // exactly one of these four with a coupon
	NoteUsed    Note = "USED"
	NoteExpired Note = "EXPIRED"
	NoteRevoked Note = "REVOKED"

	NoteTriedAgain    Note = "TRIED_AGAIN"    // exactly one of these four under review: in line for the next settlement
	NotePersonDecides Note = "PERSON_DECIDES" //
	NoteCouponHeld    Note = "COUPON_HELD"    // promises are missing; also with NOT_SELECTED_SEATS_FREE
	NoteCouponOver    Note = "COUPON_OVER"    // finalised
	NoteNoSeatLeft    Note = "NO_SEAT_LEFT"   // nobody in line can be given one at present; not where the state tells how many are left

	NoteAccountInactive Note = "ACCOUNT_INACTIVE" // as it is now, the user could not be given a coupon
	NoteAccountUnknown  Note = "ACCOUNT_UNKNOWN"
	NoteAccountActive   Note = "ACCOUNT_ACTIVE" // what was wrong with the user is right now

	NoteAlsoUnderReview    Note = "ALSO_UNDER_REVIEW" // another application of the user
	NoteAlsoStanding       Note = "ALSO_STANDING"     // another application of a holder, still to be settled: no second coupon
	NoteAppliedAgain       Note = "APPLIED_AGAIN"     // another application of a holder ended, since nobody gets two
	NoteEarlierNotSelected Note = "EARLIER_NOT_SELECTED"
	NoteEarlierRejected    Note = "EARLIER_REJECTED"
	NoteLaterUnknown       Note = "LATER_UNKNOWN" // Redis is away: the user may have applied again since
	NoteShownOld           Note = "SHOWN_OLD"     // Redis has not heard yet: until the next run the applicant may be shown the old state
)

// Notes are all of them, in that order.
var Notes = []Note{
	NoteUsable, NoteUsed, NoteExpired, NoteRevoked, NoteTriedAgain, NotePersonDecides, NoteCouponHeld, NoteCouponOver, NoteNoSeatLeft,
	NoteAccountInactive, NoteAccountUnknown, NoteAccountActive, NoteAlsoUnderReview, NoteAlsoStanding, NoteAppliedAgain,
	NoteEarlierNotSelected, NoteEarlierRejected, NoteLaterUnknown, NoteShownOld,
}

// Conclusion is what the facts come to.
type Conclusion struct {
	State State  `json:"state"`
	Notes []Note `json:"notes"`

	Application *Application `json:"application,omitempty"` // what it is about
}

func (c *Conclusion) note(n Note, when bool) {
	if when && !slices.Contains(c.Notes, n) {
		c.Notes = append(c.Notes, n)
	}
}

// Conclude is pure. It says no more than what is certain.
func Conclude(f *Facts) Conclusion {
	c := f.conclude()
	if c.Notes == nil {
		c.Notes = []Note{}
	}
	slices.SortFunc(c.Notes, func(a, b Note) int { return slices.Index(Notes, a) - slices.Index(Notes, b) })
	return c
}

func (f *Facts) conclude() Conclusion {
	if f.Coupon == nil {
		return f.withoutMySQL()
	}
	if f.Held != nil {
		return f.holds()
	}
	queued, reviewed := f.undecided()
	switch latest := f.latest(); {
	case queued != nil:
		return f.waits(queued, reviewed)
	case reviewed != nil:
		return f.underReview(reviewed)
	case latest != nil:
		return f.settled(latest)
	default:
		return f.nothing()
	}
}

// withoutMySQL: Redis does not know what is settled. Its marks are only set behind a commit.
func (f *Facts) withoutMySQL() Conclusion {
	switch {
	case f.Door == nil:
		return Conclusion{State: StateUnknown}
	case f.MarkedIssued:
		return Conclusion{State: StateIssuedUnseen}
	case len(f.Applications) > 0:
		return Conclusion{State: StateAppliedUnseen, Application: &f.Applications[0]}
	case f.MarkedRejected:
		return Conclusion{State: StateRejectedUnseen}
	default:
		return Conclusion{State: StateUnknown}
	}
}

// undecided are the first that waits and the first under review which MySQL has no outcome of.
func (f *Facts) undecided() (queued, reviewed *Application) {
	for i := range f.Applications {
		a := &f.Applications[i]
		switch {
		case a.Stands == "" || a.Outcome != "":
		case a.Stands == InQueue && queued == nil:
			queued = a
		case a.Stands != InQueue && reviewed == nil:
			reviewed = a
		}
	}
	return queued, reviewed
}

// latest is the last application that was settled. ALREADY_ISSUED says less than what it is beside.
func (f *Facts) latest() (found *Application) {
	for i := range f.Applications {
		a := &f.Applications[i]
		if a.Outcome != "" && (a.Outcome != "ALREADY_ISSUED" || found == nil || found.Outcome == "ALREADY_ISSUED") {
			found = a
		}
	}
	return found
}

func (f *Facts) holds() Conclusion {
	c := Conclusion{State: StateIssued}
	if f.Held.Run == 0 {
		c.State = StateIssuedByHand
	}
	for i := range f.Applications {
		switch a := &f.Applications[i]; {
		case a.Outcome == "ISSUED":
			c.Application = a
			c.note(NoteShownOld, a.Stands != "" && !f.MarkedIssued)
		case a.Outcome == "ALREADY_ISSUED":
			c.note(NoteAppliedAgain, true)
		case a.Outcome == "":
			c.note(NoteAlsoStanding, true)
		default:
			c.noteEarlier(a)
		}
	}
	lapsed := f.Held.ExpiresAt != nil && !f.At.Before(*f.Held.ExpiresAt)
	switch {
	case f.Held.Status == "USED":
		c.note(NoteUsed, true)
	case f.Held.Status == "REVOKED":
		c.note(NoteRevoked, true)
	default:
		c.note(NoteExpired, f.Held.Status == "EXPIRED" || lapsed)
		c.note(NoteUsable, f.Held.Status != "EXPIRED" && !lapsed)
	}
	return c
}

// noteEarlier tells how another application of the user came out.
func (c *Conclusion) noteEarlier(a *Application) {
	c.note(NoteEarlierNotSelected, a.Outcome == "NOT_SELECTED")
	c.note(NoteEarlierRejected, a.Outcome == "REJECTED")
}

func (f *Facts) notEarlier(c *Conclusion) {
	for i := range f.Applications {
		if a := &f.Applications[i]; c.Application == nil || a.Arrival != c.Application.Arrival {
			c.noteEarlier(a)
		}
	}
}

func (f *Facts) waits(a, reviewed *Application) Conclusion {
	c := Conclusion{State: StateWaiting, Application: a}
	overdue := a.SettlesAt != nil && !f.At.Before(*a.SettlesAt)
	switch {
	case f.atWork(a):
		c.State = StateWaitingSettling
	case f.Gap > 0:
		c.State = StateWaitingHeld
	case f.Coupon.FinalisedAt != nil:
		c.State = StateWaitingOver
	case overdue && f.nightFailed(a):
		c.State = StateWaitingRunFailed
	case overdue:
		c.State = StateWaitingOverdue
	}
	c.note(NoteNoSeatLeft, c.State != StateWaiting && f.Coupon.Free() == 0)
	c.note(NoteAlsoUnderReview, reviewed != nil)
	f.noteAccount(&c)
	f.notEarlier(&c)
	return c
}

// atWork is whether a run is under way that covers the application: a nightly one, or one that has begun with the coupon. Of
// others it is not known which coupons they are to settle.
func (f *Facts) atWork(a *Application) bool {
	return slices.ContainsFunc(f.Runs, func(r RunFacts) bool {
		return r.Cutoff.UnixMicro() > a.Arrival && (r.Trigger == "CRON" || r.Settled) && r.Status == "RUNNING"
	})
}

// nightFailed is whether the last nightly run that covers the application left the coupon as it was and came to no good
// end. Of other runs it is not known which coupons they were to settle.
func (f *Facts) nightFailed(a *Application) (failed bool) {
	for _, r := range f.Runs {
		if r.Trigger == "CRON" && r.Cutoff.UnixMicro() > a.Arrival {
			failed = r.Status != "SUCCEEDED" && !r.Settled
		}
	}
	return failed
}

// noteAccount tells what stands against a user who is still to be given a coupon.
func (f *Facts) noteAccount(c *Conclusion) {
	c.note(NoteAccountUnknown, !f.UserKnown)
	c.note(NoteAccountInactive, f.UserKnown && !f.UserActive)
}

// byCause are the causes that a settlement finds by itself.
var byCause = map[string]State{
	"UNKNOWN_USER": StateReviewUnknownUser, "INACTIVE_USER": StateReviewInactiveUser, "PASSED_OVER": StateReviewPassedOver,
	"BAD_ROW": StateReviewBadRow, "DATABASE_AWAY": StateReviewDatabaseAway,
}

func (f *Facts) underReview(a *Application) Conclusion {
	c := Conclusion{State: StateReviewOther, Application: a}
	if a.Review != nil {
		if s, ok := byCause[a.Review.Cause]; ok {
			c.State = s
		}
	}
	switch {
	case a.Stands == InHeld:
		c.note(NotePersonDecides, true)
	case f.Gap > 0:
		c.note(NoteCouponHeld, true)
	case f.Coupon.FinalisedAt != nil:
		c.note(NoteCouponOver, true)
	default:
		c.note(NoteTriedAgain, true)
	}
	c.note(NoteNoSeatLeft, f.Coupon.Free() == 0)
	aboutUser := c.State == StateReviewUnknownUser || c.State == StateReviewInactiveUser
	c.note(NoteAccountActive, aboutUser && f.UserActive)
	if !aboutUser {
		f.noteAccount(&c)
	}
	f.notEarlier(&c)
	return c
}

func (f *Facts) settled(a *Application) Conclusion {
	c := Conclusion{Application: a}
	switch a.Outcome {
	case "NOT_SELECTED":
		c.State = f.notSelected()
		c.note(NoteCouponHeld, c.State == StateSeatsFree && f.Gap > 0)
		f.noteAccount(&c)
	case "REJECTED":
		c.State = rejected(a)
	default: // ALREADY_ISSUED, and the coupon is gone; so is one that is ISSUED by an application and not held
		c.State = StateHolderNoMore
	}
	f.notEarlier(&c)
	c.note(NoteLaterUnknown, f.Door == nil)
	c.note(NoteShownOld, a.Stands != "")
	return c
}

func (f *Facts) notSelected() State {
	switch {
	case f.Coupon.Free() == 0:
		return StateNotSelected
	case f.Coupon.FinalisedAt != nil:
		return StateSeatsFreeOver
	default:
		return StateSeatsFree
	}
}

// rejected: a person's reason may begin like a cause, so that first comes whether it is one.
func rejected(a *Application) State {
	cause, _, _ := strings.Cut(a.Reason, ":")
	switch {
	case a.Dropped:
		return StateRejectedByPerson
	case cause == "INACTIVE_USER":
		return StateRejectedInactive
	case cause == "UNKNOWN_USER":
		return StateRejectedUnknown
	case cause == "BAD_ROW":
		return StateRejectedBadRow
	default:
		return StateRejectedOther
	}
}

// nothing is on record in MySQL, and nothing stands in Redis.
func (f *Facts) nothing() Conclusion {
	c := Conclusion{State: StateNeverOpen}
	opens, closes, paused := f.Coupon.OpensAt, f.Coupon.ClosesAt, f.Coupon.Paused
	if f.Door != nil && f.Door.Known { // the door decides
		opens, closes, paused = *f.Door.OpensAt, *f.Door.ClosesAt, f.Door.Paused
	}
	// A coupon that has promised something and is not over had a window in Redis.
	forgotten := f.Door != nil && !f.Door.Known && f.Coupon.FinalisedAt == nil && !f.At.Before(opens)
	switch {
	case f.Door == nil:
		c.State = StateUnknown
	case f.MarkedIssued, f.MarkedRejected:
		c.State = StateContradiction
	case f.Gap > 0, f.Coupon.WrittenOff > 0:
		c.State = StateMaybeLost
		c.note(NoteAccountUnknown, !f.UserKnown)
	case f.Account == nil, forgotten:
		c.State = StateNotSure
		c.note(NoteAccountUnknown, !f.UserKnown)
	case !f.UserKnown:
		c.State = StateNoSuchUser
	case f.At.Before(opens):
		c.State = StateNeverNotOpen
	case !f.At.Before(closes):
		c.State = StateNeverClosed
	case paused:
		c.State = StateNeverPaused
	case f.Door.Sold && f.Coupon.Free() > 0:
		c.State = StateNeverAdded
	case f.Door.Sold:
		c.State = StateNeverSoldOut
	}
	return c
}
