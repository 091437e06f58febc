package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
	shop "github.com/jajeong/jajeong/internal/users"
)

type explainCmd struct {
	Coupon uint64 `required:"" placeholder:"ID"`
	User   uint64 `required:"" placeholder:"USER"`
	Output string `enum:"table,json" default:"table"`
}

func (c *explainCmd) run(ctx context.Context, p *program) error {
	s, err := p.open()
	if err != nil {
		return err
	}
	defer s.Close()
	explainer := &explain.Explainer{DB: s.MySQL, Redis: s.store, Users: s.users, Now: p.now,
		SettlesAt: func(arrival time.Time) time.Time { return calendar.NextCutoff(arrival, p.zone) }}
	x, err := explainer.Explain(ctx, c.Coupon, c.User)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		err = output.JSON(p.stdout, x)
	} else {
		p.printExplanation(x)
	}
	var classes []coupon.Class
	for _, unread := range x.Unread {
		fmt.Fprintln(p.stderr, "settle:", text.In(p.language, unread))
		if advice := advice(unread); advice != (text.Message{}) {
			fmt.Fprintln(p.stderr, p.sprintf(advice))
		}
		classes = append(classes, classOf(unread))
	}
	return errors.Join(err, worst(classes))
}

// printExplanation is the timeline, and the one sentence to read out.
func (p *program) printExplanation(x *explain.Explanation) {
	f := &x.Facts
	fmt.Fprint(p.stdout, p.sprintf(text.CouponNumber, f.CouponID))
	if c := f.Coupon; c != nil {
		fmt.Fprintf(p.stdout, " %s, %s", output.Printable(c.Name), p.sprintf(text.SeatsTaken, c.Seats, c.Issued))
	}
	fmt.Fprintln(p.stdout, p.sprintf(text.UserNumber, f.UserID)+p.userStatus(f))
	if f.Gap > 0 {
		fmt.Fprintln(p.stdout, p.sprintf(text.AcceptedMissing, f.Gap, f.Account.Accepted))
	}
	if f.Coupon != nil && f.Coupon.WrittenOff > 0 {
		fmt.Fprintln(p.stdout, p.sprintf(text.WrittenOffCount, f.Coupon.WrittenOff))
	}
	t := output.Table(p.stdout)
	t.AppendHeader(p.header(text.ColumnAt, text.ColumnEvent))
	for _, e := range x.Events {
		t.AppendRow(table.Row{output.InZone(e.At, p.zone), p.event(f, e)})
	}
	t.Render()
	if x.LeftOut > 0 {
		fmt.Fprintln(p.stdout, p.sprintf(text.EventsLeftOut, x.LeftOut))
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
			fmt.Fprintln(p.stdout, p.sprintf(away.what))
		}
	}
	fmt.Fprintf(p.stdout, "\n%s\n", p.phrasing().Sentence(f, x.Conclusion))
}

func (p *program) userStatus(f *explain.Facts) string {
	switch {
	case f.Coupon == nil:
		return ""
	case !f.UserKnown:
		return p.sprintf(text.UnknownUserMark)
	case f.UserStatus == "" && f.UserActive: // there is no status column
		return ""
	default:
		return " (" + shop.Shown(f.UserStatus) + ")"
	}
}

// plainEvents are events without details.
var plainEvents = map[explain.EventKind]text.Message{
	explain.EventOpens:      text.EventOpens,
	explain.EventCloses:     text.EventCloses,
	explain.EventLastSeated: text.EventLastIssued,
	explain.EventFinalised:  text.EventFinalised,
	explain.EventSettles:    text.EventSettles,
	explain.EventExpires:    text.EventExpires,
	explain.EventApplied:    text.EventApplied,
}

// event describes one event.
func (p *program) event(f *explain.Facts, e explain.Event) (said string) {
	switch e.Kind {
	case explain.EventApplied:
		said = p.appliedEvent(f, e)
	case explain.EventLastSeated:
		said = p.sprintf(plainEvents[e.Kind]) + p.sprintf(text.ArrivalNumber, e.Arrival)
	case explain.EventRun:
		said = p.runEvent(e)
	case explain.EventAttempt:
		said = p.sprintf(text.EventAttempt, p.causeAndCode(e.Reason)) + p.byRun(e.Run) + p.behind(e.Detail)
	case explain.EventReview:
		said = p.reviewEvent(e)
	case explain.EventAudit:
		said = p.sprintf(text.EventAudit, output.Printable(e.Actor), p.action(e.Action)) + p.behind(e.Reason) + p.behind(e.Detail)
	case explain.EventIssued:
		said = p.sprintf(text.ColumnIssuedByHand)
		if e.Run > 0 {
			said = p.sprintf(text.EventIssued, f.UserCoupon.Seat) + p.byRun(e.Run)
		}
		if f.UserCoupon.Status != "ISSUED" {
			said += p.sprintf(text.StatusNow, f.UserCoupon.Status)
		}
	case explain.EventNotSelected, explain.EventRejected, explain.EventAlready:
		said = p.sprintf(map[explain.EventKind]text.Message{
			explain.EventNotSelected: text.ColumnNotSelected,
			explain.EventRejected:    text.ColumnRejected,
			explain.EventAlready:     text.EventAlreadyHeld,
		}[e.Kind]) + p.byRun(e.Run) + p.behind(e.Reason)
	default:
		said = p.sprintf(plainEvents[e.Kind])
	}
	if e.At.After(f.At) {
		said += p.sprintf(text.Planned)
	}
	return said
}

func (p *program) behind(detail string) string {
	if detail == "" {
		return ""
	}
	return "; " + output.Printable(detail)
}

// byRun is nothing where a hand did it, or a run that MySQL could not record.
func (p *program) byRun(run uint64) string {
	if run == 0 {
		return ""
	}
	return p.sprintf(text.ByRun, run)
}

func (p *program) appliedEvent(f *explain.Facts, e explain.Event) string {
	said := p.sprintf(plainEvents[e.Kind]) + p.sprintf(text.ArrivalNumber, e.Arrival)
	for _, a := range f.Applications {
		if a.Arrival != e.Arrival {
			continue
		}
		if a.Order > 0 {
			said += p.sprintf(text.OrderOfAll, p.language.Nth(a.Order))
		}
		switch {
		case a.Place == "":
		case a.Outcome != "":
			said += p.sprintf(text.NotCleanedUp)
		case a.Place == explain.InQueue:
			said += p.sprintf(text.PlaceInQueue, p.language.Nth(a.Position), f.Door.Waiting)
		default:
			said += p.sprintf(text.IsUnderReview)
		}
	}
	return said
}

func (p *program) runEvent(e explain.Event) string {
	r := e.Settled
	who := p.code(string(r.Trigger))
	if r.Operator != "" {
		who += ", " + output.Printable(r.Operator)
	}
	if r.Reason != "" {
		who += ", " + output.Printable(r.Reason)
	}
	said := p.sprintf(text.EventRun, r.ID, who, output.InZone(r.Cutoff, p.zone), p.code(string(r.Status)))
	if !r.Settled {
		return said + p.sprintf(text.RunDidNothing)
	}
	return said + p.sprintf(text.RunCounts, r.Read, r.Issued, r.NotSelected)
}

func (p *program) reviewEvent(e explain.Event) string {
	r := e.Review
	next := p.sprintf(text.UntilDecided)
	if r.Retryable && r.Refused > 0 {
		next = p.sprintf(text.RetriedNightly)
	} else if r.Retryable {
		next = p.sprintf(text.RetriedByEveryRun)
	}
	return p.sprintf(text.EventReview,
		p.causeAndCode(r.Cause), r.Attempts, next) + p.byRun(r.Run) + p.behind(r.Message)
}

func (p *program) phrasing() explain.Phrasing {
	return explain.Phrasing{Language: p.language, Zone: p.zone}
}
