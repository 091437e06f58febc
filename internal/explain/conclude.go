package explain

import (
	"slices"
	"strings"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Conclusion is the state that follows from the facts.
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

// Conclude draws the conclusion. It is pure.
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

// reviewStates are the states of the causes that the program writes.
var reviewStates = map[coupon.Cause]State{
	coupon.CauseUnknownUser: StateReviewUnknownUser, coupon.CauseInactiveUser: StateReviewInactiveUser, coupon.CausePassedOver: StateReviewPassedOver,
	coupon.CauseBadRow: StateReviewBadRow, coupon.CauseDatabaseAway: StateReviewDatabaseAway,
}

func (f *Facts) inDLQ(a *Application) Conclusion {
	c := Conclusion{State: StateReviewOther, Application: a}
	if a.Review != nil {
		if s, ok := reviewStates[coupon.Cause(a.Review.Cause)]; ok {
			c.State = s
		}
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
		c.State = f.notSelected()
		c.note(NoteCouponHeld, c.State == StateSeatsFree && f.Gap > 0)
		f.noteAccount(&c)
	case coupon.OutcomeRejected:
		c.State = rejected(a)
	default: // ALREADY_ISSUED or ISSUED without a coupon
		c.State = StateHolderNoMore
	}
	f.noteOthers(&c)
	c.note(NoteLaterUnknown, f.Door == nil)
	c.note(NoteShownOld, a.Place != "")
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

// rejectedStates are the states of the causes with which the reason of a run begins.
var rejectedStates = map[coupon.Cause]State{
	coupon.CauseInactiveUser: StateRejectedInactive, coupon.CauseUnknownUser: StateRejectedUnknown, coupon.CauseBadRow: StateRejectedBadRow,
}

// rejected tests Dropped first, because the reason of an operator can begin like a cause.
func rejected(a *Application) State {
	if a.Dropped {
		return StateRejectedByPerson
	}
	cause, _, _ := strings.Cut(a.Reason, ":")
	if s, ok := rejectedStates[coupon.Cause(cause)]; ok {
		return s
	}
	return StateRejectedOther
}

// unrecorded concludes when neither MySQL nor Redis has an application.
func (f *Facts) unrecorded() Conclusion {
	c := Conclusion{State: StateNeverOpen}
	opens, closes, paused := f.Coupon.OpensAt, f.Coupon.ClosesAt, f.Coupon.Paused
	if f.Door != nil && f.Door.Known { // Redis decides
		opens, closes, paused = *f.Door.OpensAt, *f.Door.ClosesAt, f.Door.Paused
	}
	// Redis must have a coupon that has opened and is not finalised.
	lost := f.Door != nil && !f.Door.Known && f.Coupon.FinalisedAt == nil && !f.At.Before(opens)
	switch {
	case f.Door == nil:
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
	case f.Door.Sold && f.Coupon.Free() > 0:
		c.State = StateNeverAdded
	case f.Door.Sold:
		c.State = StateNeverSoldOut
	}
	return c
}
