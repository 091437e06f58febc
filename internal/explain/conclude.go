package explain

import (
	"slices"
	"strings"

	"github.com/jajeong/jajeong/internal/coupon"
)

// State is the state of one user's applications for one coupon. Every state is certain: missing facts have states of their own.
type State string

const (
	// A server is away.
	StateUnknown        State = "UNKNOWN"         // nothing is certain
	StateAppliedUnseen  State = "APPLIED_UNSEEN"  // Redis has the application; MySQL, which knows the outcome, is away
	StateIssuedUnseen   State = "ISSUED_UNSEEN"   // Redis answers ALREADY_ISSUED; MySQL is away
	StateRejectedUnseen State = "REJECTED_UNSEEN" // Redis answers REJECTED; MySQL is away

	// There is no application.
	StateNeverNotOpen  State = "NEVER_APPLIED_NOT_OPEN"
	StateNeverOpen     State = "NEVER_APPLIED_OPEN"
	StateNeverPaused   State = "NEVER_APPLIED_PAUSED"
	StateNeverSoldOut  State = "NEVER_APPLIED_SOLD_OUT"
	StateNeverAdded    State = "NEVER_APPLIED_SEATS_ADDED" // sold out, seats added; Redis accepts applications again after the next run
	StateNeverClosed   State = "NEVER_APPLIED_CLOSED"
	StateNoSuchUser    State = "NO_SUCH_USER"
	StateMaybeLost     State = "MAYBE_LOST"     // applications for this coupon were lost, possibly one of this user
	StateNotSure       State = "NOT_SURE"       // lost applications could not be counted, or Redis does not know the coupon
	StateContradiction State = "CONTRADICTION"  // Redis has a mark without a record in MySQL
	StateHolderNoMore  State = "HOLDER_NO_MORE" // the outcome is ALREADY_ISSUED, and the coupon is gone

	// In the queue.
	StateWaiting          State = "WAITING"
	StateWaitingSettling  State = "WAITING_SETTLING"   // a run that covers the application is under way
	StateWaitingOverdue   State = "WAITING_OVERDUE"    // the settlement is overdue
	StateWaitingRunFailed State = "WAITING_RUN_FAILED" // overdue, and the nightly run failed
	StateWaitingHeld      State = "WAITING_HELD"       // promises are missing, and no run settles the coupon
	StateWaitingOver      State = "WAITING_OVER"       // the coupon is finalised; nightly runs do not settle it

	// In the DLQ, by cause.
	StateReviewUnknownUser  State = "REVIEW_UNKNOWN_USER"
	StateReviewInactiveUser State = "REVIEW_INACTIVE_USER"
	StateReviewPassedOver   State = "REVIEW_PASSED_OVER"
	StateReviewBadRow       State = "REVIEW_BAD_ROW"
	StateReviewDatabaseAway State = "REVIEW_DATABASE_AWAY"
	StateReviewOther        State = "REVIEW_OTHER" // another cause, or an unreadable one

	// Settled.
	StateIssued           State = "ISSUED"
	StateIssuedByHand     State = "ISSUED_BY_HAND"
	StateNotSelected      State = "NOT_SELECTED"
	StateSeatsFree        State = "NOT_SELECTED_SEATS_FREE"      // seats are free; the next run issues them in order
	StateSeatsFreeOver    State = "NOT_SELECTED_SEATS_FREE_OVER" // seats are free, but the coupon is finalised
	StateRejectedByPerson State = "REJECTED_BY_PERSON"
	StateRejectedInactive State = "REJECTED_INACTIVE_USER" // rejected by a run when a seat was free again
	StateRejectedUnknown  State = "REJECTED_UNKNOWN_USER"
	StateRejectedBadRow   State = "REJECTED_BAD_ROW"
	StateRejectedOther    State = "REJECTED_OTHER"
)

var States = []State{
	StateUnknown, StateAppliedUnseen, StateIssuedUnseen, StateRejectedUnseen, StateNeverNotOpen, StateNeverOpen, StateNeverPaused,
	StateNeverSoldOut, StateNeverAdded, StateNeverClosed, StateNoSuchUser, StateMaybeLost, StateNotSure, StateContradiction, StateHolderNoMore,
	StateWaiting, StateWaitingSettling, StateWaitingOverdue, StateWaitingRunFailed, StateWaitingHeld, StateWaitingOver,
	StateReviewUnknownUser, StateReviewInactiveUser, StateReviewPassedOver, StateReviewBadRow, StateReviewDatabaseAway,
	StateReviewOther, StateIssued, StateIssuedByHand, StateNotSelected, StateSeatsFree, StateSeatsFreeOver, StateRejectedByPerson,
	StateRejectedInactive, StateRejectedUnknown, StateRejectedBadRow, StateRejectedOther,
}

// Note is a further certain statement.
type Note string

const (
	NoteUsable  Note = "USABLE" // every coupon holder has exactly one of these four
	NoteUsed    Note = "USED"
	NoteExpired Note = "EXPIRED"
	NoteRevoked Note = "REVOKED"

	NoteTriedAgain    Note = "TRIED_AGAIN"    // every DLQ entry has exactly one of these four: the next settlement tries it
	NotePersonDecides Note = "PERSON_DECIDES" // an operator decides
	NoteCouponHeld    Note = "COUPON_HELD"    // promises are missing; also of NOT_SELECTED_SEATS_FREE
	NoteCouponOver    Note = "COUPON_OVER"    // finalised
	NoteNoSeatLeft    Note = "NO_SEAT_LEFT"   // no seat is free; not in states that name the free seats

	NoteAccountInactive Note = "ACCOUNT_INACTIVE" // the user cannot receive a coupon as the account is now
	NoteAccountUnknown  Note = "ACCOUNT_UNKNOWN"
	NoteAccountActive   Note = "ACCOUNT_ACTIVE" // the cause about the user is resolved

	NoteAlsoUnderReview    Note = "ALSO_UNDER_REVIEW" // another application of the user is in the DLQ
	NoteAlsoStanding       Note = "ALSO_STANDING"     // another application of a holder is undecided; it brings no second coupon
	NoteAppliedAgain       Note = "APPLIED_AGAIN"     // another application of a holder ended as ALREADY_ISSUED
	NoteEarlierNotSelected Note = "EARLIER_NOT_SELECTED"
	NoteEarlierRejected    Note = "EARLIER_REJECTED"
	NoteLaterUnknown       Note = "LATER_UNKNOWN" // Redis is away; the user may have applied again since
	NoteShownOld           Note = "SHOWN_OLD"     // the clean-up in Redis is pending; until then users may see the old state
)

// Notes are all of them, in the order of Conclusion.Notes.
var Notes = []Note{
	NoteUsable, NoteUsed, NoteExpired, NoteRevoked, NoteTriedAgain, NotePersonDecides, NoteCouponHeld, NoteCouponOver, NoteNoSeatLeft,
	NoteAccountInactive, NoteAccountUnknown, NoteAccountActive, NoteAlsoUnderReview, NoteAlsoStanding, NoteAppliedAgain,
	NoteEarlierNotSelected, NoteEarlierRejected, NoteLaterUnknown, NoteShownOld,
}

type Conclusion struct {
	State State  `json:"state"`
	Notes []Note `json:"notes"`

	Application *Application `json:"application,omitempty"` // the one that the state is about
}

func (c *Conclusion) note(n Note, when bool) {
	if when && !slices.Contains(c.Notes, n) {
		c.Notes = append(c.Notes, n)
	}
}

// Conclude depends on the facts alone.
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
	if f.UserCoupon != nil {
		return f.couponHolder()
	}
	queued, inDLQ := f.undecided()
	switch latest := f.latest(); {
	case queued != nil:
		return f.inQueue(queued, inDLQ)
	case inDLQ != nil:
		return f.inDLQ(inDLQ)
	case latest != nil:
		return f.decided(latest)
	default:
		return f.unrecorded()
	}
}

// withoutMySQL concludes from Redis, which has no outcomes. Its marks are set after a commit.
func (f *Facts) withoutMySQL() Conclusion {
	switch {
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
	lapsed := f.UserCoupon.ExpiresAt != nil && !f.At.Before(*f.UserCoupon.ExpiresAt)
	switch {
	case f.UserCoupon.Status == "USED":
		c.note(NoteUsed, true)
	case f.UserCoupon.Status == "REVOKED":
		c.note(NoteRevoked, true)
	default:
		c.note(NoteExpired, f.UserCoupon.Status == "EXPIRED" || lapsed)
		c.note(NoteUsable, f.UserCoupon.Status != "EXPIRED" && !lapsed)
	}
	return c
}

// noteEarlier notes the outcome of another application of the user.
func (c *Conclusion) noteEarlier(a *Application) {
	c.note(NoteEarlierNotSelected, a.Outcome == coupon.OutcomeNotSelected)
	c.note(NoteEarlierRejected, a.Outcome == coupon.OutcomeRejected)
}

// noteOthers notes the outcomes of all applications but the one of the conclusion.
func (f *Facts) noteOthers(c *Conclusion) {
	for i := range f.Applications {
		if a := &f.Applications[i]; c.Application == nil || a.Arrival != c.Application.Arrival {
			c.noteEarlier(a)
		}
	}
}

func (f *Facts) inQueue(a, inDLQ *Application) Conclusion {
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
	c.note(NoteAlsoUnderReview, inDLQ != nil)
	f.noteAccount(&c)
	f.noteOthers(&c)
	return c
}

// atWork reports whether a run that covers the application is under way: a nightly run, or one with a record of the coupon. The
// coupons of other runs are unknown.
func (f *Facts) atWork(a *Application) bool {
	return slices.ContainsFunc(f.Runs, func(r RunFacts) bool {
		return coupon.ArrivalAt(r.Cutoff) > a.Arrival && (r.Trigger == coupon.Cron || r.Settled) && r.Status == coupon.RunRunning
	})
}

// nightFailed reports whether the last nightly run that covers the application failed and did not change the coupon. The coupons
// of other runs are unknown.
func (f *Facts) nightFailed(a *Application) (failed bool) {
	for _, r := range f.Runs {
		if r.Trigger == coupon.Cron && coupon.ArrivalAt(r.Cutoff) > a.Arrival {
			failed = r.Status != coupon.RunSucceeded && !r.Settled
		}
	}
	return failed
}

// noteAccount notes a user who cannot receive a coupon.
func (f *Facts) noteAccount(c *Conclusion) {
	c.note(NoteAccountUnknown, !f.UserKnown)
	c.note(NoteAccountInactive, f.UserKnown && !f.UserActive)
}

// stateOf is the state that is named after a cause, or the other state when there is none.
func stateOf(prefix, cause string, other State) State {
	if s := State(prefix + cause); slices.Contains(coupon.Causes, coupon.Cause(cause)) && slices.Contains(States, s) {
		return s
	}
	return other
}

func (f *Facts) inDLQ(a *Application) Conclusion {
	c := Conclusion{State: StateReviewOther, Application: a}
	if a.Review != nil {
		c.State = stateOf("REVIEW_", a.Review.Cause, StateReviewOther)
	}
	switch {
	case a.Place == InHeld:
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
			c.note(NoteCouponHeld, f.Gap > 0)
		}
		f.noteAccount(&c)
	case coupon.OutcomeRejected:
		cause, _, _ := strings.Cut(a.Reason, ":")
		c.State = stateOf("REJECTED_", cause, StateRejectedOther)
		if a.Dropped { // the reason of an operator can begin like a cause
			c.State = StateRejectedByPerson
		}
	default: // ALREADY_ISSUED or ISSUED without a coupon
		c.State = StateHolderNoMore
	}
	f.noteOthers(&c)
	c.note(NoteLaterUnknown, f.Published == nil)
	c.note(NoteShownOld, a.Place != "")
	return c
}

// unrecorded concludes when neither MySQL nor Redis has an application.
func (f *Facts) unrecorded() Conclusion {
	c := Conclusion{State: StateNeverOpen}
	opens, closes, paused := f.window()
	// Redis has each coupon that has opened and is not finalised, unless it lost its data.
	lost := f.Published != nil && !f.Published.Known && f.Coupon.FinalisedAt == nil && !f.At.Before(opens)
	switch {
	case f.Published == nil:
		c.State = StateUnknown
	case f.MarkedIssued, f.MarkedRejected:
		c.State = StateContradiction
	case f.Gap > 0, f.Coupon.WrittenOff > 0:
		c.State = StateMaybeLost
		c.note(NoteAccountUnknown, !f.UserKnown)
	case f.Account == nil, lost:
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
	}
	return c
}
