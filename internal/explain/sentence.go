package explain

import (
	"strings"

	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// Phrasing describes explanations: for operators a timeline, and for customers a sentence that support staff read out. A sentence
// has no codes and only certain statements.
type Phrasing struct{ output.Locale }

// stateMessages follow text.SentenceApplied.
var stateMessages = map[State]text.Message{
	StateAppliedUnseen:      text.StateAppliedUnseen,
	StateHolderNoMore:       text.StateHolderNoMore,
	StateWaitingSettling:    text.StateWaitingSettling,
	StateWaitingRunFailed:   text.StateWaitingRunFailed,
	StateWaitingHeld:        text.StateWaitingHeld,
	StateWaitingOver:        text.StateWaitingOver,
	StateReviewUnknownUser:  text.StateReviewUnknownUser,
	StateReviewInactiveUser: text.StateReviewInactiveUser,
	StateReviewPassedOver:   text.StateReviewPassedOver,
	StateReviewBadRow:       text.StateReviewBadRow,
	StateReviewDatabaseAway: text.StateReviewDatabaseAway,
	StateReviewOther:        text.StateReviewOther,
}

// userMessages have the user as their argument, for states without an application.
var userMessages = map[State]text.Message{
	StateUnknown:        text.StateUnknown,
	StateIssuedUnseen:   text.StateIssuedUnseen,
	StateRejectedUnseen: text.StateRejectedUnseen,
	StateNeverPaused:    text.StateNeverPaused,
	StateNeverSoldOut:   text.StateNeverSoldOut,
	StateNeverAdded:     text.StateNeverAdded,
	StateNoSuchUser:     text.StateNoSuchUser,
	StateNotSure:        text.StateNotSure,
	StateContradiction:  text.StateContradiction,
}

var noteMessages = map[Note]text.Message{
	NoteUsed:               text.NoteUsed,
	NoteRevoked:            text.NoteRevoked,
	NoteTriedAgain:         text.NoteTriedAgain,
	NotePersonDecides:      text.NotePersonDecides,
	NoteCouponHeld:         text.NoteCouponHeld,
	NoteCouponOver:         text.NoteCouponOver,
	NoteNoSeatLeft:         text.NoteNoSeatLeft,
	NoteAccountInactive:    text.NoteAccountInactive,
	NoteAccountUnknown:     text.NoteAccountUnknown,
	NoteAccountActive:      text.NoteAccountActive,
	NoteAlsoUnderReview:    text.NoteAlsoUnderReview,
	NoteAlsoStanding:       text.NoteAlsoStanding,
	NoteAppliedAgain:       text.NoteAppliedAgain,
	NoteEarlierNotSelected: text.NoteEarlierNotSelected,
	NoteEarlierRejected:    text.NoteEarlierRejected,
	NoteLaterUnknown:       text.NoteLaterUnknown,
	NoteShownOld:           text.NoteShownOld,
}

// Sentence is the sentence for the customer about a conclusion.
func (p Phrasing) Sentence(f *Facts, c Conclusion) string {
	parts := []string{p.state(f, c)}
	if a := c.Application; a != nil && a.Review != nil && a.Outcome == "" && a.Review.Attempts > 1 {
		parts = append(parts, p.Sprintf(text.TriedSoOften, a.Review.Attempts))
	}
	for _, n := range c.Notes {
		parts = append(parts, p.noted(f, n))
	}
	return strings.Join(parts, " ")
}

func (p Phrasing) noted(f *Facts, n Note) string {
	switch expires := f.UserCoupon; {
	case n == NoteUsable && expires.ExpiresAt == nil:
		return p.Sprintf(text.NeverExpires)
	case n == NoteUsable:
		return p.Sprintf(text.UsableUntil, p.Instant(*expires.ExpiresAt))
	case n == NoteExpired && (expires.ExpiresAt == nil || expires.ExpiresAt.After(f.At)):
		return p.Sprintf(text.HasExpired)
	case n == NoteExpired:
		return p.Sprintf(text.ExpiredAt, p.Instant(*expires.ExpiresAt))
	default:
		return p.Sprintf(noteMessages[n])
	}
}

func (p Phrasing) state(f *Facts, c Conclusion) string {
	if w, ok := userMessages[c.State]; ok {
		return p.Sprintf(w, f.UserID)
	}
	if w, ok := stateMessages[c.State]; ok {
		return p.applied(f, c) + p.Sprintf(w)
	}
	switch c.State {
	case StateNeverNotOpen, StateNeverOpen, StateNeverClosed, StateMaybeLost:
		return p.neverApplied(f, c.State)
	case StateWaiting:
		return p.applied(f, c) + p.Sprintf(text.StateWaiting,
			p.Language.Nth(c.Application.Position), f.Door.Waiting, f.Coupon.Free(), p.Instant(*c.Application.SettlesAt))
	case StateWaitingOverdue:
		return p.applied(f, c) + p.Sprintf(text.StateWaitingOverdue,
			p.Instant(*c.Application.SettlesAt))
	case StateIssued, StateIssuedByHand:
		return p.issued(f, c)
	case StateNotSelected, StateSeatsFree, StateSeatsFreeOver:
		return p.applied(f, c) + p.notSelected(f, c.State)
	case StateRejectedByPerson, StateRejectedInactive, StateRejectedUnknown, StateRejectedBadRow, StateRejectedOther:
		return p.applied(f, c) + p.Sprintf(rejectedMessages[c.State], p.Instant(*c.Application.RecordedAt))
	default:
		return ""
	}
}

// applied is the beginning of a sentence about an application.
func (p Phrasing) applied(f *Facts, c Conclusion) string {
	order := ""
	if c.Application.Order > 0 {
		order = p.Sprintf(text.AsNumber, p.Language.Nth(c.Application.Order))
	}
	return p.Sprintf(text.SentenceApplied, f.UserID, p.Instant(c.Application.AppliedAt), order)
}

func (p Phrasing) neverApplied(f *Facts, s State) string {
	none := p.Sprintf(text.NeverApplied, f.UserID)
	opens, closes := f.Coupon.OpensAt, f.Coupon.ClosesAt
	if f.Door.Known {
		opens, closes = *f.Door.OpensAt, *f.Door.ClosesAt
	}
	switch s {
	case StateMaybeLost:
		return none + p.Sprintf(text.MaybeLost, f.Gap+f.Coupon.WrittenOff)
	case StateNeverNotOpen:
		return none + p.Sprintf(text.ApplicationsOpenAt, p.Instant(opens))
	case StateNeverClosed:
		return none + p.Sprintf(text.ApplicationsClosedAt, p.Instant(closes))
	default:
		return none + p.Sprintf(text.ApplicationsCloseAt, p.Instant(closes))
	}
}

func (p Phrasing) issued(f *Facts, c Conclusion) string {
	at := p.Instant(f.UserCoupon.IssuedAt)
	switch {
	case c.State == StateIssuedByHand:
		return p.Sprintf(text.IssuedByStaff, f.UserID, at)
	case c.Application == nil:
		return p.Sprintf(text.WasIssued, f.UserID, at)
	default:
		return p.applied(f, c) + p.Sprintf(text.IssuedSeat, at, p.Language.Nth(f.UserCoupon.Seat), f.Coupon.Seats)
	}
}

func (p Phrasing) notSelected(f *Facts, s State) string {
	sentence, later := "", f.Missed.Micros > 0 // without the margin: concurrent applications are a microsecond apart
	switch {
	case s != StateNotSelected:
		sentence = p.Sprintf(text.NoneWasLeft)
	case later && f.Coupon.ByHand == 0:
		later = false // the message contains it
		sentence = p.Sprintf(text.AllWentToEarlier, f.Coupon.Issued)
	default: // coupons by hand, or an unknown last arrival
		sentence = p.Sprintf(text.AllAreTaken, f.Coupon.Issued)
	}
	if later {
		sentence += p.Sprintf(text.LastAppliedEarlier)
	}
	sentence += p.Sprintf(text.NumberOfNotSelected, p.Language.Nth(f.Missed.Rank))
	return sentence + p.Sprintf(map[State]text.Message{
		StateNotSelected:   text.IfCouponsAreAdded,
		StateSeatsFree:     text.LeftForNextSettlement,
		StateSeatsFreeOver: text.LeftForManualSettlement,
	}[s], seatsLeft(f, s)...)
}

var rejectedMessages = map[State]text.Message{
	StateRejectedByPerson: text.DeclinedByStaff,
	StateRejectedInactive: text.DeclinedInactive,
	StateRejectedUnknown:  text.DeclinedUnknown,
	StateRejectedBadRow:   text.DeclinedBadRow,
	StateRejectedOther:    text.DeclinedOther,
}

// seatsLeft is the argument of messages about free seats.
func seatsLeft(f *Facts, s State) []any {
	if s == StateNotSelected {
		return nil
	}
	return []any{f.Coupon.Free()}
}
