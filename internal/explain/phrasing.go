package explain

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/users"
)

// Phrasing turns an explanation into a timeline for operators and a sentence that support staff read out to customers.
// The sentence has no codes and contains only certain statements.
type Phrasing struct{ output.Locale }

func (p Phrasing) Print(w io.Writer, x *Explanation) {
	f := &x.Facts
	fmt.Fprint(w, p.Sprintf(text.CouponNumber, f.CouponID))
	if c := f.Coupon; c != nil {
		fmt.Fprintf(w, " %s, %s", output.Printable(c.Name), p.Sprintf(text.SeatsTaken, c.Seats, c.Issued))
	}
	fmt.Fprintln(w, p.Sprintf(text.UserNumber, f.UserID)+p.userStatus(f))
	if f.Gap > 0 {
		p.Fprintln(w, text.AcceptedMissing, f.Gap, f.Account.Accepted)
	}
	if f.Coupon != nil && f.Coupon.Unfound > 0 {
		p.Fprintln(w, text.UnfoundCount, f.Coupon.Unfound)
	}
	if f.Coupon != nil && f.Coupon.WrittenOff > 0 {
		p.Fprintln(w, text.WrittenOffCount, f.Coupon.WrittenOff)
	}
	p.printIssuing(w, f.Coupon)
	if f.UserCoupon != nil {
		p.Fprintln(w, text.CouponStateAsOf, f.UserCoupon.AsOf)
	}
	t := output.Table(w)
	t.AppendHeader(p.Cells(text.ColumnAt, text.ColumnEvent))
	for _, e := range x.Events {
		t.AppendRow(table.Row{p.Instant(e.At), p.Event(f, e)})
	}
	t.Render()
	if x.LeftOut > 0 {
		p.Fprintln(w, text.EventsLeftOut, x.LeftOut)
	}
	if f.NoRedis != "" {
		p.Fprintln(w, text.RedisNotRead)
	}
	if f.NoMySQL != "" {
		p.Fprintln(w, text.MySQLNotRead)
	}
	if f.NoAccount != "" {
		p.Fprintln(w, text.LossNotCounted)
	}
	fmt.Fprintf(w, "\n%s\n", p.Sentence(f, x.Conclusion))
}

// printIssuing says what is special about the coupon.
func (p Phrasing) printIssuing(w io.Writer, c *CouponFacts) {
	if c.immediate() {
		p.Fprintln(w, text.ImmediateCoupon)
	}
	if c != nil && c.LineLimit > 0 {
		p.Fprintln(w, text.LineLimitOf, c.LineLimit)
	}
	switch {
	case c == nil || !c.Frozen:
	case c.Freeze == nil:
		p.Fprintln(w, text.FrozenNobodyKnows)
	default:
		p.Fprintln(w, text.FrozenByWhom, c.Freeze.At, output.Printable(c.Freeze.Actor),
			output.Printable(c.Freeze.Reason))
	}
}

func (p Phrasing) userStatus(f *Facts) string {
	switch {
	case f.Coupon == nil:
		return ""
	case !f.UserKnown:
		return p.Sprintf(text.UnknownUserMark)
	case f.UserStatus == "" && f.UserActive: // the shop's table has no status column
		return ""
	default:
		return " (" + users.Shown(f.UserStatus) + ")"
	}
}

var eventMessages = map[EventKind]text.Message{
	EventOpens:       text.EventOpens,
	EventCloses:      text.EventCloses,
	EventLastSeated:  text.EventLastIssued,
	EventFinalised:   text.EventFinalised,
	EventSettles:     text.EventSettles,
	EventExpires:     text.EventExpires,
	EventApplied:     text.EventApplied,
	EventNotSelected: text.ColumnNotSelected,
	EventRejected:    text.ColumnRejected,
	EventAlready:     text.EventAlreadyHeld,
	EventSeatFreed:   text.EventSeatFreed,
}

func (p Phrasing) Event(f *Facts, e Event) string {
	line := p.Sprintf(eventMessages[e.Kind])
	switch e.Kind {
	case EventApplied:
		line += p.Sprintf(text.ArrivalNumber, e.Arrival) + p.placed(f, e.Arrival)
	case EventLastSeated:
		line += p.Sprintf(text.ArrivalNumber, e.Arrival)
	case EventRun:
		line = p.runEvent(e)
	case EventAttempt:
		line = p.Sprintf(text.EventAttempt, p.causeAndCode(string(e.Cause))) + p.byRun(e.Run) + p.detail(e.Reason)
	case EventReview:
		line = p.reviewEvent(f, e)
	case EventAudit:
		line = p.Sprintf(text.EventAudit, output.Printable(e.Actor), output.Word(p.Language, e.Action)) +
			p.detail(e.Reason)
		if words := p.Detail(e.Action, e.Detail); words != "" {
			line += "; " + words
		}
	case EventIssued:
		line = p.Sprintf(text.ColumnIssuedByHand)
		if e.Run > 0 {
			line = p.Sprintf(text.EventIssued, f.UserCoupon.Seat) + p.issuedBy(f, e.Run)
		}
		if f.UserCoupon.Status != coupon.CouponIssued && len(f.UserCoupon.Log) == 0 { // the shop changed it
			line += p.Sprintf(text.StatusNow, string(f.UserCoupon.Status))
		}
	case EventNotSelected, EventRejected, EventAlready:
		line += p.byRun(e.Run)
		if e.Cause != "" {
			line += "; " + p.causeAndCode(string(e.Cause))
		}
		line += p.detail(e.Reason)
	case EventSeatFreed:
		line += p.Sprintf(text.ByActor, output.Printable(e.Actor))
	case EventRanOut:
		line = p.Sprintf(text.EventRanOut, output.Printable(e.Order))
	default:
		if e.Entry != nil {
			line = p.logEvent(f, e)
		} // other events have no details
	}
	now := f.At
	if f.UserCoupon != nil && (e.Kind == EventRanOut || e.Kind == EventExpires) { // by the clock of MySQL
		now = f.UserCoupon.AsOf
	}
	if e.Kind.expected() && e.At.After(now) {
		line += p.Sprintf(text.Planned)
	}
	return line
}

func (p Phrasing) detail(of string) string {
	if of == "" {
		return ""
	}
	return "; " + output.Printable(of)
}

// byRun names the run. It returns nothing for changes by hand, or if MySQL could not record the run.
func (p Phrasing) byRun(run coupon.RunID) string {
	if run == 0 {
		return ""
	}
	return p.Sprintf(text.ByRun, run)
}

func (p Phrasing) issuedBy(f *Facts, run coupon.RunID) string {
	if slices.ContainsFunc(f.Runs, func(r RunFacts) bool { return r.ID == run && r.Trigger == coupon.ImmediateRun }) {
		return p.Sprintf(text.ByImmediateRun, run)
	}
	return p.byRun(run)
}

func (p Phrasing) placed(f *Facts, arrival coupon.Arrival) (line string) {
	for _, a := range f.Applications {
		if a.Arrival != arrival {
			continue
		}
		if a.Order > 0 {
			line += p.Sprintf(text.OrderOfAll, p.Language.Nth(a.Order))
		}
		switch {
		case a.Place == "":
		case a.Outcome != "":
			line += p.Sprintf(text.NotCleanedUp)
		case a.Place == InQueue:
			line += p.Sprintf(text.PlaceInQueue, p.Language.Nth(a.Position), f.Published.Waiting)
		default:
			line += p.Sprintf(text.IsUnderReview)
		}
	}
	return line
}

func (p Phrasing) runEvent(e Event) string {
	r := e.Settled
	cause := output.Word(p.Language, r.Trigger)
	if r.Operator != "" {
		cause += ", " + output.Printable(r.Operator)
	}
	if r.Reason != "" {
		cause += ", " + output.Printable(r.Reason)
	}
	line := p.Sprintf(text.EventRun, r.ID, cause, p.Instant(r.Cutoff), output.Word(p.Language, r.Status))
	if r.Trigger == coupon.ImmediateRun {
		line = p.Sprintf(text.EventImmediateRun, r.ID)
	}
	if !r.Settled {
		return line + p.Sprintf(text.RunDidNothing)
	}
	return line + p.Sprintf(text.RunCounts, r.Read, r.Issued, r.NotSelected)
}

func (p Phrasing) reviewEvent(f *Facts, e Event) string {
	r := e.Review
	next := p.Sprintf(text.UntilDecided)
	if r.Retryable && (r.Refused > 0 || f.Coupon.immediate()) { // immediate runs read the queue alone
		next = p.Sprintf(text.RetriedNightly)
	} else if r.Retryable {
		next = p.Sprintf(text.RetriedByEveryRun)
	}
	return p.Sprintf(text.EventReview,
		p.causeAndCode(r.Cause), r.Attempts, next) + p.byRun(r.Run) + p.detail(r.Note)
}

func (p Phrasing) causeAndCode(cause string) string {
	if word := text.Word(p.Language, cause); word != "" {
		return word + " (" + cause + ")"
	}
	return cmp.Or(output.Printable(cause), "?")
}

var stateMessages = map[State]text.Message{
	StateAppliedUnseen:      text.StateAppliedUnseen,
	StateHolderNoMore:       text.StateHolderNoMore,
	StateLost:               text.StateLost,
	StateWaitingSettling:    text.StateWaitingSettling,
	StateWaitingRunFailed:   text.StateWaitingRunFailed,
	StateWaitingHeld:        text.StateWaitingHeld,
	StateWaitingOver:        text.StateWaitingOver,
	StateWaitingFrozen:      text.StateWaitingFrozen,
	StateReviewUnknownUser:  text.StateReviewUnknownUser,
	StateReviewInactiveUser: text.StateReviewInactiveUser,
	StateReviewPassedOver:   text.StateReviewPassedOver,
	StateReviewBadRow:       text.StateReviewBadRow,
	StateReviewDatabaseAway: text.StateReviewDatabaseAway,
	StateReviewOther:        text.StateReviewOther,

	StateRejectedByPerson: text.DeclinedByStaff,
	StateRejectedInactive: text.DeclinedInactive,
	StateRejectedUnknown:  text.DeclinedUnknown,
	StateRejectedBadRow:   text.DeclinedBadRow,
	StateRejectedOther:    text.DeclinedOther,

	StateUnknown:        text.StateUnknown,
	StateIssuedUnseen:   text.StateIssuedUnseen,
	StateRejectedUnseen: text.StateRejectedUnseen,
	StateNeverPaused:    text.StateNeverPaused,
	StateNeverSoldOut:   text.StateNeverSoldOut,
	StateNeverAdded:     text.StateNeverAdded,
	StateNeverLineFull:  text.StateNeverLineFull,
	StateNoSuchUser:     text.StateNoSuchUser,
	StateNotSure:        text.StateNotSure,
	StateContradiction:  text.StateContradiction,
}

var noteMessages = map[Note]text.Message{
	NoteSeatLater:          text.NoteSeatLater,
	NoteUsed:               text.NoteUsed,
	NoteRevoked:            text.NoteRevoked,
	NoteTriedAgain:         text.NoteTriedAgain,
	NotePersonDecides:      text.NotePersonDecides,
	NoteCouponHeld:         text.NoteCouponHeld,
	NoteCouponOver:         text.NoteCouponOver,
	NoteCouponFrozen:       text.NoteCouponFrozen,
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
	switch {
	case n == NoteRefunded || slices.Contains(slices.Collect(maps.Values(stateNotes)), n):
		return p.ofUserCoupon(f, n)
	case n == NoteTriedAgain && f.Coupon.immediate():
		return p.Sprintf(text.NoteTriedAtNight)
	default:
		return p.Sprintf(noteMessages[n])
	}
}

func (p Phrasing) state(f *Facts, c Conclusion) string {
	m, ok := stateMessages[c.State]
	if c.State == StateReviewPassedOver && f.Coupon.immediate() { // an immediate run keeps no seat for it
		m = text.ReviewPassedOverAtOnce
	}
	switch a := c.Application; {
	case ok && a == nil:
		return p.Sprintf(m, f.UserID)
	case ok && a.Outcome == coupon.OutcomeRejected:
		return p.applied(f, c) + p.Sprintf(m, p.Instant(*a.RecordedAt))
	case ok:
		return p.applied(f, c) + p.Sprintf(m)
	}
	switch c.State {
	case StateNeverNotOpen, StateNeverOpen, StateNeverClosed, StateMaybeLost:
		return p.neverApplied(f, c.State)
	case StateWaiting:
		return p.applied(f, c) + p.Sprintf(text.StateWaiting,
			p.Language.Nth(c.Application.Position), f.Published.Waiting, f.Coupon.Free(),
			p.Instant(*c.Application.SettlesAt))
	case StateWaitingImmediate:
		return p.applied(f, c) + p.Sprintf(text.StateWaitingImmediate,
			p.Language.Nth(c.Application.Position), f.Published.Waiting, f.Coupon.Free())
	case StateWaitingDelayed:
		return p.applied(f, c) + p.Sprintf(text.StateWaitingDelayed, p.Instant(*c.Application.SettlesAt))
	case StateWaitingOverdue:
		return p.applied(f, c) + p.Sprintf(text.StateWaitingOverdue, p.Instant(*c.Application.SettlesAt))
	case StateIssued, StateIssuedByHand:
		return p.issued(f, c)
	case StateNotSelected, StateSeatsFree, StateSeatsFreeOver:
		return p.applied(f, c) + p.notSelected(f, c.State)
	default:
		return ""
	}
}

func (p Phrasing) applied(f *Facts, c Conclusion) string {
	order := ""
	if c.Application.Order > 0 {
		order = p.Sprintf(text.AsNumber, p.Language.Nth(c.Application.Order))
	}
	return p.Sprintf(text.SentenceApplied, f.UserID, p.Instant(c.Application.AppliedAt), order)
}

func (p Phrasing) neverApplied(f *Facts, s State) string {
	none := p.Sprintf(text.NeverApplied, f.UserID)
	opens, closes, _ := f.window()
	switch s {
	case StateMaybeLost:
		return none + p.Sprintf(text.MaybeLost, f.Gap+f.Coupon.Unfound+f.Coupon.WrittenOff)
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
	sentence, later := "", f.Missed.Micros > 0 // the sentence omits by how much: often it is 1 µs
	switch {
	case s != StateNotSelected:
		sentence = p.Sprintf(text.NoneWasLeft)
	case later && f.Coupon.ByHand == 0:
		later = false // this message already says that earlier applicants got the coupons
		sentence = p.Sprintf(text.AllWentToEarlier, f.Coupon.Issued)
	default: // some coupons were given by hand, or the last arrival with a seat is unknown
		sentence = p.Sprintf(text.AllAreTaken, f.Coupon.Issued)
	}
	if later {
		sentence += p.Sprintf(text.LastAppliedEarlier)
	}
	sentence += p.Sprintf(text.NumberOfNotSelected, p.Language.Nth(f.Missed.Rank))
	switch s {
	case StateSeatsFree:
		return sentence + p.Sprintf(text.LeftForNextSettlement, f.Coupon.Free())
	case StateSeatsFreeOver:
		return sentence + p.Sprintf(text.LeftForManualSettlement, f.Coupon.Free())
	default:
		return sentence + p.Sprintf(text.IfCouponsAreAdded)
	}
}
