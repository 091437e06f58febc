package explain

import (
	"cmp"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/users"
)

// Print writes the timeline and the sentence for the customer.
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
	if f.Coupon != nil && f.Coupon.WrittenOff > 0 {
		p.Fprintln(w, text.WrittenOffCount, f.Coupon.WrittenOff)
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
	for _, away := range []struct {
		why  string
		what text.Message
	}{
		{f.NoRedis, text.RedisNotRead},
		{f.NoMySQL, text.MySQLNotRead},
		{f.NoAccount, text.LossNotCounted},
	} {
		if away.why != "" {
			p.Fprintln(w, away.what)
		}
	}
	fmt.Fprintf(w, "\n%s\n", p.Sentence(f, x.Conclusion))
}

func (p Phrasing) userStatus(f *Facts) string {
	switch {
	case f.Coupon == nil:
		return ""
	case !f.UserKnown:
		return p.Sprintf(text.UnknownUserMark)
	case f.UserStatus == "" && f.UserActive: // there is no status column
		return ""
	default:
		return " (" + users.Shown(f.UserStatus) + ")"
	}
}

// eventMessages are the messages of events, before their details.
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
}

// Event describes one event of a timeline.
func (p Phrasing) Event(f *Facts, e Event) (line string) {
	switch e.Kind {
	case EventApplied:
		line = p.appliedEvent(f, e)
	case EventLastSeated:
		line = p.Sprintf(eventMessages[e.Kind]) + p.Sprintf(text.ArrivalNumber, e.Arrival)
	case EventRun:
		line = p.runEvent(e)
	case EventAttempt:
		line = p.Sprintf(text.EventAttempt, p.causeAndCode(e.Reason)) + p.byRun(e.Run) + p.detail(e.Detail)
	case EventReview:
		line = p.reviewEvent(e)
	case EventAudit:
		line = p.Sprintf(text.EventAudit, output.Printable(e.Actor), output.Word(p.Language, e.Action)) + p.detail(e.Reason) + p.detail(e.Detail)
	case EventIssued:
		line = p.Sprintf(text.ColumnIssuedByHand)
		if e.Run > 0 {
			line = p.Sprintf(text.EventIssued, f.UserCoupon.Seat) + p.byRun(e.Run)
		}
		if f.UserCoupon.Status != "ISSUED" {
			line += p.Sprintf(text.StatusNow, f.UserCoupon.Status)
		}
	case EventNotSelected, EventRejected, EventAlready:
		line = p.Sprintf(eventMessages[e.Kind]) + p.byRun(e.Run) + p.detail(e.Reason)
	default:
		line = p.Sprintf(eventMessages[e.Kind])
	}
	if e.At.After(f.At) {
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

// byRun names the run; it is empty for changes by hand, and for a run that MySQL could not record.
func (p Phrasing) byRun(run coupon.RunID) string {
	if run == 0 {
		return ""
	}
	return p.Sprintf(text.ByRun, run)
}

func (p Phrasing) appliedEvent(f *Facts, e Event) string {
	line := p.Sprintf(eventMessages[e.Kind]) + p.Sprintf(text.ArrivalNumber, e.Arrival)
	for _, a := range f.Applications {
		if a.Arrival != e.Arrival {
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
			line += p.Sprintf(text.PlaceInQueue, p.Language.Nth(a.Position), f.Door.Waiting)
		default:
			line += p.Sprintf(text.IsUnderReview)
		}
	}
	return line
}

func (p Phrasing) runEvent(e Event) string {
	r := e.Settled
	who := output.Word(p.Language, r.Trigger)
	if r.Operator != "" {
		who += ", " + output.Printable(r.Operator)
	}
	if r.Reason != "" {
		who += ", " + output.Printable(r.Reason)
	}
	line := p.Sprintf(text.EventRun, r.ID, who, p.Instant(r.Cutoff), output.Word(p.Language, r.Status))
	if !r.Settled {
		return line + p.Sprintf(text.RunDidNothing)
	}
	return line + p.Sprintf(text.RunCounts, r.Read, r.Issued, r.NotSelected)
}

func (p Phrasing) reviewEvent(e Event) string {
	r := e.Review
	next := p.Sprintf(text.UntilDecided)
	if r.Retryable && r.Refused > 0 {
		next = p.Sprintf(text.RetriedNightly)
	} else if r.Retryable {
		next = p.Sprintf(text.RetriedByEveryRun)
	}
	return p.Sprintf(text.EventReview,
		p.causeAndCode(r.Cause), r.Attempts, next) + p.byRun(r.Run) + p.detail(r.Message)
}

// causeAndCode is a cause with its code.
func (p Phrasing) causeAndCode(cause string) string {
	if word := text.Word(p.Language, cause); word != "" {
		return word + " (" + cause + ")"
	}
	return cmp.Or(output.Printable(cause), "?")
}
