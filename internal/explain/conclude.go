package explain

import (
	"cmp"
	"slices"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/promise"
)

// State says about a user's applications for one coupon only what is certain. Missing facts have their own states.
type State string

const (
	// MySQL or Redis cannot be reached.
	StateUnknown        State = "UNKNOWN"         // nothing is certain
	StateAppliedUnseen  State = "APPLIED_UNSEEN"  // Redis has an application; MySQL cannot be reached
	StateIssuedUnseen   State = "ISSUED_UNSEEN"   // Redis answers ALREADY_ISSUED; MySQL cannot be reached
	StateRejectedUnseen State = "REJECTED_UNSEEN" // Redis answers REJECTED; MySQL cannot be reached

	// No application is found.
	StateNeverNotOpen  State = "NEVER_APPLIED_NOT_OPEN"
	StateNeverOpen     State = "NEVER_APPLIED_OPEN"
	StateNeverPaused   State = "NEVER_APPLIED_PAUSED"
	StateNeverSoldOut  State = "NEVER_APPLIED_SOLD_OUT"
	StateNeverAdded    State = "NEVER_APPLIED_SEATS_ADDED" // seats were added; Redis answers SOLD_OUT until a run
	StateNeverLineFull State = "NEVER_APPLIED_LINE_FULL"   // as many wait as the line limit allows
	StateNeverClosed   State = "NEVER_APPLIED_CLOSED"
	StateNoSuchUser    State = "NO_SUCH_USER"
	StateLost          State = "LOST"           // Redis has lost the application; the journal has it
	StateMaybeLost     State = "MAYBE_LOST"     // applications were lost, and one may be of this user
	StateNotSure       State = "NOT_SURE"       // applications may have been lost; they could not be counted
	StateContradiction State = "CONTRADICTION"  // Redis answers with an outcome that MySQL does not have
	StateHolderNoMore  State = "HOLDER_NO_MORE" // the outcome is ALREADY_ISSUED, but the user has no coupon now

	// The application is in the queue.
	StateWaiting          State = "WAITING"
	StateWaitingSettling  State = "WAITING_SETTLING"   // a run that covers the application is under way
	StateWaitingOverdue   State = "WAITING_OVERDUE"    // the cutoff has passed, but the application is not settled
	StateWaitingRunFailed State = "WAITING_RUN_FAILED" // the cutoff has passed, but the nightly run failed
	StateWaitingHeld      State = "WAITING_HELD"       // promises are missing, and no run settles the coupon
	StateWaitingOver      State = "WAITING_OVER"       // the coupon is finalised; nightly runs do not settle it
	StateWaitingImmediate State = "WAITING_IMMEDIATE"  // the coupon is immediate, and the user has just applied
	// The coupon is immediate, but the application was not settled at once.
	StateWaitingDelayed State = "WAITING_DELAYED"
	StateWaitingFrozen  State = "WAITING_FROZEN" // the coupon is frozen, and no run settles it

	// The application is in the DLQ. The name of the state is the cause.
	StateReviewUnknownUser  State = "REVIEW_UNKNOWN_USER"
	StateReviewInactiveUser State = "REVIEW_INACTIVE_USER"
	StateReviewPassedOver   State = "REVIEW_PASSED_OVER"
	StateReviewBadRow       State = "REVIEW_BAD_ROW"
	StateReviewDatabaseAway State = "REVIEW_DATABASE_AWAY"
	StateReviewOther        State = "REVIEW_OTHER" // another cause, or an unreadable one

	// The application is settled.
	StateIssued           State = "ISSUED"
	StateIssuedByHand     State = "ISSUED_BY_HAND"
	StateNotSelected      State = "NOT_SELECTED"
	StateSeatsFree        State = "NOT_SELECTED_SEATS_FREE"      // seats are free; the next run issues them by arrival
	StateSeatsFreeOver    State = "NOT_SELECTED_SEATS_FREE_OVER" // seats are free, but the coupon is finalised
	StateRejectedByPerson State = "REJECTED_BY_PERSON"
	StateRejectedInactive State = "REJECTED_INACTIVE_USER" // a run had a seat for the user, who is inactive
	StateRejectedUnknown  State = "REJECTED_UNKNOWN_USER"
	StateRejectedBadRow   State = "REJECTED_BAD_ROW"
	StateRejectedOther    State = "REJECTED_OTHER"
)

var States = []State{
	StateUnknown, StateAppliedUnseen, StateIssuedUnseen, StateRejectedUnseen, StateNeverNotOpen, StateNeverOpen,
	StateNeverPaused,
	StateNeverSoldOut, StateNeverAdded, StateNeverLineFull, StateNeverClosed, StateNoSuchUser, StateLost,
	StateMaybeLost, StateNotSure, StateContradiction, StateHolderNoMore,
	StateWaiting, StateWaitingSettling, StateWaitingOverdue, StateWaitingRunFailed, StateWaitingHeld, StateWaitingOver,
	StateWaitingImmediate, StateWaitingDelayed, StateWaitingFrozen,
	StateReviewUnknownUser, StateReviewInactiveUser, StateReviewPassedOver, StateReviewBadRow, StateReviewDatabaseAway,
	StateReviewOther, StateIssued, StateIssuedByHand, StateNotSelected, StateSeatsFree, StateSeatsFreeOver,
	StateRejectedByPerson,
	StateRejectedInactive, StateRejectedUnknown, StateRejectedBadRow, StateRejectedOther,
}

// Note is one certain statement in addition to the state.
type Note string

const (
	NoteSeatLater Note = "SEAT_LATER" // no coupon was left for the user at first
	// The coupon was used, and the order refunded; beside USED: it was used again since.
	NoteRefunded Note = "REFUNDED"

	// Every user with the coupon has exactly one of these five notes.
	NoteUsable   Note = "USABLE"
	NoteReserved Note = "RESERVED"
	NoteUsed     Note = "USED"
	NoteExpired  Note = "EXPIRED"
	NoteRevoked  Note = "REVOKED"

	// Every DLQ entry has exactly one of the first five notes.
	NoteTriedAgain    Note = "TRIED_AGAIN"    // the next settlement tries the entry again
	NotePersonDecides Note = "PERSON_DECIDES" // an operator decides about the entry
	NoteCouponHeld    Note = "COUPON_HELD"    // promises are missing; NOT_SELECTED_SEATS_FREE can have it, too
	NoteCouponOver    Note = "COUPON_OVER"    // the coupon is finalised
	NoteCouponFrozen  Note = "COUPON_FROZEN"  // the coupon is frozen; NOT_SELECTED_SEATS_FREE can have it, too
	NoteNoSeatLeft    Note = "NO_SEAT_LEFT"   // the application is undecided, but no seat is free

	NoteAccountInactive Note = "ACCOUNT_INACTIVE" // the user exists, but cannot receive a coupon
	NoteAccountUnknown  Note = "ACCOUNT_UNKNOWN"
	NoteAccountActive   Note = "ACCOUNT_ACTIVE" // the cause was the user's account, which is active now

	NoteAlsoUnderReview    Note = "ALSO_UNDER_REVIEW" // another application of the user is in the DLQ
	NoteAlsoStanding       Note = "ALSO_STANDING"     // the user has the coupon; another application is undecided
	NoteAppliedAgain       Note = "APPLIED_AGAIN"     // the user has the coupon; another application brought none
	NoteEarlierNotSelected Note = "EARLIER_NOT_SELECTED"
	NoteEarlierRejected    Note = "EARLIER_REJECTED"
	NoteLaterUnknown       Note = "LATER_UNKNOWN" // Redis cannot be reached; the user may have applied again
	NoteShownOld           Note = "SHOWN_OLD"     // the clean-up is pending; the user may see the old state
)

// Notes lists all notes in the order in which a conclusion has them.
var Notes = []Note{
	NoteSeatLater, NoteRefunded, NoteUsable, NoteReserved, NoteUsed, NoteExpired, NoteRevoked, NoteTriedAgain,
	NotePersonDecides, NoteCouponHeld, NoteCouponOver, NoteCouponFrozen, NoteNoSeatLeft,
	NoteAccountInactive, NoteAccountUnknown, NoteAccountActive, NoteAlsoUnderReview, NoteAlsoStanding, NoteAppliedAgain,
	NoteEarlierNotSelected, NoteEarlierRejected, NoteLaterUnknown, NoteShownOld,
}

type Conclusion struct {
	State State  `json:"state"`
	Notes []Note `json:"notes"`

	Application *Application `json:"application,omitempty"` // the application that the state is about
}

func (c *Conclusion) note(n Note, when bool) {
	if when && !slices.Contains(c.Notes, n) {
		c.Notes = append(c.Notes, n)
	}
}

func Conclude(f *Facts) Conclusion {
	c := f.conclude()
	if c.Notes == nil {
		c.Notes = []Note{}
	}
	slices.SortFunc(c.Notes, func(a, b Note) int { return slices.Index(Notes, a) - slices.Index(Notes, b) })
	return c
}

func (f *Facts) conclude() Conclusion {
	is := f.standing()
	a := f.at(is.Arrival)
	if f.Coupon == nil {
		return Conclusion{State: unseen[is.Is], Application: a}
	}
	switch is.Is {
	case coupon.StandingIssued:
		return f.couponHolder()
	case coupon.StandingPending:
		return f.inQueue(a)
	case coupon.StandingUnderReview:
		return f.inDLQ(a)
	case coupon.StandingLost:
		return f.lost(a)
	case coupon.StandingNotSelected, coupon.StandingRejected:
		return f.decided(a)
	default:
		if a := f.latest(); a != nil {
			return f.decided(a)
		}
		return f.unrecorded()
	}
}

// unseen are the states if MySQL cannot be reached. A mark in Redis is certain: a user is marked after the commit.
var unseen = map[coupon.Standing]State{
	coupon.StandingIssued: StateIssuedUnseen, coupon.StandingPending: StateAppliedUnseen,
	coupon.StandingUnderReview: StateAppliedUnseen,
	coupon.StandingRejected:    StateRejectedUnseen, coupon.StandingNone: StateUnknown,
}

func (f *Facts) couponHolder() Conclusion {
	c := Conclusion{State: StateIssued}
	if f.UserCoupon.Run == 0 {
		c.State = StateIssuedByHand
	}
	for i := range f.Applications {
		switch a := &f.Applications[i]; {
		case a.Outcome == coupon.OutcomeIssued:
			c.Application = a
			c.note(NoteShownOld, a.Place != "" && !f.MarkedIssued)
		case a.Outcome == coupon.OutcomeAlreadyIssued:
			c.note(NoteAppliedAgain, true)
		case a.Outcome == "":
			c.note(NoteAlsoStanding, true)
		default:
			c.noteEarlier(a)
		}
	}
	state := f.UserCoupon.state()
	c.note(stateNotes[state], true)
	c.note(NoteRefunded, f.UserCoupon.last(coupon.LogRefunded) != nil)
	c.note(NoteSeatLater, c.Application != nil && f.seatCameLater(c.Application))
	return c
}

var stateNotes = map[coupon.UserCouponStatus]Note{
	coupon.CouponIssued: NoteUsable, coupon.CouponReserved: NoteReserved, coupon.CouponUsed: NoteUsed,
	coupon.CouponExpired: NoteExpired, coupon.CouponRevoked: NoteRevoked,
}

// seatCameLater reports whether all seats were taken by earlier arrivals when an earlier run considered the
// application.
func (f *Facts) seatCameLater(a *Application) bool {
	return slices.ContainsFunc(f.Runs, func(r RunFacts) bool {
		return r.Settled && r.ID != a.Run && r.StartedAt.Before(f.UserCoupon.IssuedAt) &&
			coupon.ArrivalAt(r.Cutoff) > a.Arrival &&
			r.NotSelected > 0 && r.LastArrival < a.Arrival
	})
}

func (c *Conclusion) noteEarlier(a *Application) {
	c.note(NoteEarlierNotSelected, a.Outcome == coupon.OutcomeNotSelected)
	c.note(NoteEarlierRejected, a.Outcome == coupon.OutcomeRejected)
}

func (f *Facts) noteOthers(c *Conclusion) {
	for i := range f.Applications {
		if a := &f.Applications[i]; c.Application == nil || a.Arrival != c.Application.Arrival {
			c.noteEarlier(a)
		}
	}
}

func (f *Facts) inQueue(a *Application) Conclusion {
	c := Conclusion{State: StateWaiting, Application: a}
	overdue := a.SettlesAt != nil && !f.At.Before(*a.SettlesAt)
	switch {
	case f.Coupon.Frozen && f.Coupon.FinalisedAt == nil:
		c.State = StateWaitingFrozen
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
	case f.Coupon.immediate() && a.SettlesAt == nil:
		c.State = StateWaitingImmediate
	case f.Coupon.immediate():
		c.State = StateWaitingDelayed
	}
	named := c.State == StateWaiting || c.State == StateWaitingImmediate // the sentence says how many seats are left
	c.note(NoteNoSeatLeft, !named && f.Coupon.Free() == 0)
	c.note(NoteCouponFrozen, f.Coupon.Frozen && c.State != StateWaitingFrozen)
	c.note(NoteAlsoUnderReview, slices.ContainsFunc(f.Applications, func(a Application) bool {
		return a.Outcome == "" && (a.Place == InRetryable || a.Place == InHeld)
	}))
	f.noteAccount(&c)
	f.noteOthers(&c)
	return c
}

// atWork reports whether a run that covers the application is under way. A nightly run covers every coupon. Another run
// counts only if it has a record of the coupon: before that, nobody knows which coupons it covers.
func (f *Facts) atWork(a *Application) bool {
	return slices.ContainsFunc(f.Runs, func(r RunFacts) bool {
		return coupon.ArrivalAt(r.Cutoff) > a.Arrival && (r.Trigger == coupon.Cron || r.Settled) &&
			r.Status == coupon.RunRunning
	})
}

// nightFailed reports whether the last nightly run that covers the application failed and did not change the coupon.
// Other runs do not count, because nobody knows which coupons they cover.
func (f *Facts) nightFailed(a *Application) (failed bool) {
	for _, r := range f.Runs {
		if r.Trigger == coupon.Cron && coupon.ArrivalAt(r.Cutoff) > a.Arrival {
			failed = r.Status != coupon.RunSucceeded && !r.Settled
		}
	}
	return failed
}

func (f *Facts) noteAccount(c *Conclusion) {
	c.note(NoteAccountUnknown, !f.UserKnown)
	c.note(NoteAccountInactive, f.UserKnown && !f.UserActive)
}

// reviewStates has the state of each cause of a DLQ entry.
var reviewStates = map[coupon.Cause]State{
	coupon.CauseUnknownUser: StateReviewUnknownUser, coupon.CauseInactiveUser: StateReviewInactiveUser,
	coupon.CauseMalformed:  StateReviewOther,
	coupon.CausePassedOver: StateReviewPassedOver, coupon.CauseBadRow: StateReviewBadRow,
	coupon.CauseDatabaseAway: StateReviewDatabaseAway,
}

// rejectedStates has the state of each cause for which a run rejects. Without a cause, an operator has rejected.
var rejectedStates = map[coupon.Cause]State{
	"": StateRejectedByPerson, coupon.CauseUnknownUser: StateRejectedUnknown,
	coupon.CauseInactiveUser: StateRejectedInactive,
	coupon.CauseBadRow:       StateRejectedBadRow, coupon.CauseMalformed: StateRejectedOther,
	coupon.CausePassedOver:   StateRejectedOther,
	coupon.CauseDatabaseAway: StateRejectedOther,
}

func (f *Facts) inDLQ(a *Application) Conclusion {
	c := Conclusion{State: StateReviewOther, Application: a}
	if a.Review != nil {
		c.State = cmp.Or(reviewStates[coupon.Cause(a.Review.Cause)], StateReviewOther)
	}
	switch {
	case a.Place == InHeld:
		c.note(NotePersonDecides, true)
	case f.Coupon.Frozen:
		c.note(NoteCouponFrozen, true)
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
	f.noteOthers(&c)
	return c
}

func (f *Facts) lost(a *Application) Conclusion {
	c := Conclusion{State: StateLost, Application: a}
	f.noteOthers(&c)
	return c
}

func (f *Facts) decided(a *Application) Conclusion {
	c := Conclusion{Application: a}
	switch a.Outcome {
	case coupon.OutcomeNotSelected:
		switch {
		case f.Coupon.Free() == 0:
			c.State = StateNotSelected
		case f.Coupon.FinalisedAt != nil:
			c.State = StateSeatsFreeOver
		default:
			c.State = StateSeatsFree
			c.note(NoteCouponHeld, f.Gap > 0 && !f.Coupon.Frozen)
			c.note(NoteCouponFrozen, f.Coupon.Frozen)
		}
		f.noteAccount(&c)
	case coupon.OutcomeRejected:
		c.State = cmp.Or(rejectedStates[a.Cause], StateRejectedOther)
	default: // the outcome is ALREADY_ISSUED or ISSUED, but the user has no coupon
		c.State = StateHolderNoMore
	}
	f.noteOthers(&c)
	c.note(NoteLaterUnknown, f.Published == nil)
	c.note(NoteShownOld, a.Place != "")
	return c
}

// restoreDue reports whether a restore may find applications. Gap says whether it has to.
func (f *Facts) restoreDue() bool {
	cause := f.Account.RestoreDue()
	return cause != promise.NotDue && cause != promise.Missing
}

func (f *Facts) unrecorded() Conclusion {
	c := Conclusion{State: StateNeverOpen}
	opens, closes, paused := f.window()
	// Redis knows every coupon that has opened and is not finalised. If it does not know this one, it has lost data.
	serving := f.Published != nil && f.Coupon.FinalisedAt == nil && !f.At.Before(opens)
	switch {
	case f.Published == nil:
		c.State = StateUnknown
	case f.MarkedIssued, f.MarkedRejected:
		c.State = StateContradiction
	case f.Gap > 0, f.Coupon.Unfound > 0, f.Coupon.WrittenOff > 0:
		c.State = StateMaybeLost
		c.note(NoteAccountUnknown, !f.UserKnown)
	case f.Account == nil, serving && (!f.Published.Known || f.restoreDue()):
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
	case f.Published.Sold && f.Coupon.Free() > 0:
		c.State = StateNeverAdded
	case f.Published.Sold:
		c.State = StateNeverSoldOut
	case f.Coupon.LineLimit > 0 && f.Published.Waiting >= f.Coupon.LineLimit:
		c.State = StateNeverLineFull
	}
	return c
}
