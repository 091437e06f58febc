package explain

import (
	"cmp"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

type EventKind string

const (
	EventOpens       EventKind = "OPENS"
	EventApplied     EventKind = "APPLIED"
	EventLastSeated  EventKind = "LAST_SEATED" // the last arrival that got a seat
	EventCloses      EventKind = "CLOSES"
	EventRun         EventKind = "RUN"
	EventAttempt     EventKind = "ATTEMPT" // a failed attempt of a DLQ entry before its last one
	EventReview      EventKind = "REVIEW"  // the last failed attempt of a DLQ entry
	EventAudit       EventKind = "AUDIT"
	EventIssued      EventKind = "ISSUED"
	EventNotSelected EventKind = EventKind(coupon.OutcomeNotSelected)
	EventRejected    EventKind = EventKind(coupon.OutcomeRejected)
	EventAlready     EventKind = EventKind(coupon.OutcomeAlreadyIssued)
	EventFinalised   EventKind = "FINALISED"
	EventSettles     EventKind = "SETTLES" // the next expected settlement
	EventExpires     EventKind = "EXPIRES"

	EventSeatFreed EventKind = "SEAT_FREED" // another user's coupon was revoked, and its seat became free
	EventGranted   EventKind = EventKind(coupon.LogGranted)
	EventReserved  EventKind = EventKind(coupon.LogReserved)
	EventRanOut    EventKind = "RAN_OUT" // a reservation
	EventReleased  EventKind = EventKind(coupon.LogReleased)
	EventUsed      EventKind = EventKind(coupon.LogUsed)
	EventRefunded  EventKind = EventKind(coupon.LogRefunded)
	EventRevoked   EventKind = EventKind(coupon.LogRevoked)
	EventReissued  EventKind = EventKind(coupon.LogReissued)
	EventExtended  EventKind = EventKind(coupon.LogExtended)
)

// EventKinds lists all kinds. Events of the same instant are in this order, except the entries of coupon_log: their
// numbers count.
var EventKinds = []EventKind{EventOpens, EventApplied, EventLastSeated, EventCloses, EventRun, EventAttempt,
	EventReview, EventAudit, EventIssued,
	EventNotSelected, EventRejected, EventAlready, EventFinalised, EventSeatFreed, EventSettles, EventRanOut,
	EventExpires,
	EventGranted, EventReserved, EventReleased, EventUsed, EventRefunded, EventRevoked, EventReissued, EventExtended}

// expected reports whether an event of this kind can be in the future. The clocks of MySQL, Redis and pods may differ.
func (k EventKind) expected() bool {
	return slices.Contains([]EventKind{EventOpens, EventCloses, EventSettles, EventRanOut, EventExpires}, k)
}

func (k EventKind) rank() int {
	return min(slices.Index(EventKinds, k), slices.Index(EventKinds, EventGranted))
}

// Event is a past or expected event. Fields that its kind does not use are empty.
type Event struct {
	At      time.Time          `json:"at"`
	Kind    EventKind          `json:"kind"`
	Arrival coupon.Arrival     `json:"arrival,omitempty"`
	Run     coupon.RunID       `json:"run,omitempty"`
	Actor   string             `json:"actor,omitempty"`
	Action  audit.Action       `json:"action,omitempty"`
	Cause   coupon.Cause       `json:"cause,omitempty"`  // why an attempt failed, or why a run rejected the application
	Reason  string             `json:"reason,omitempty"` // words of an operator, of MySQL or of the shop's table
	Detail  audit.Detail       `json:"detail,omitempty"`
	Review  *candidates.Reason `json:"review,omitempty"`
	Order   string             `json:"order,omitempty"`
	Entry   *LogEntry          `json:"-"` // row of the coupon's log; JSON has it in UserCoupon.Log
	Settled *RunFacts          `json:"-"` // the run of an EventRun; JSON has it in Facts.Runs
}

type timeline []Event

// add adds an event. A nil time is unknown, and the event is left out.
func (t *timeline) add(at *time.Time, e Event) {
	if at != nil {
		e.At = at.UTC()
		*t = append(*t, e)
	}
}

func (x *Explanation) addEvents() {
	f, t := &x.Facts, timeline(x.Events)
	if f.Coupon != nil || f.Published != nil && f.Published.Known {
		opens, closes, _ := f.window()
		t.add(&opens, Event{Kind: EventOpens})
		t.add(&closes, Event{Kind: EventCloses})
	}
	if c := f.Coupon; c != nil {
		t.add(c.FinalisedAt, Event{Kind: EventFinalised})
		if len(f.Applications) > 0 && c.LastSeated > 0 {
			t.add(new(c.LastSeated.Time()), Event{Kind: EventLastSeated, Arrival: c.LastSeated})
		}
	}
	for i := range f.Applications {
		t.addApplication(&f.Applications[i])
	}
	for i := range f.Runs {
		r := &f.Runs[i]
		t.add(&r.StartedAt, Event{Kind: EventRun, Run: r.ID, Actor: r.Operator, Reason: r.Reason, Settled: r})
	}
	for _, freed := range f.FreedSeats {
		t.add(&freed.At, Event{Kind: EventSeatFreed, Actor: freed.Actor})
	}
	if f.UserCoupon != nil {
		t.addUserCoupon(f.UserCoupon)
	}
	slices.SortStableFunc(t, func(a, b Event) int {
		return cmp.Or(a.At.Compare(b.At), a.Kind.rank()-b.Kind.rank())
	})
	more := max(0, len(t)-MaxEvents)
	x.Events, x.LeftOut = t[more:], x.LeftOut+more
}

func (t *timeline) addApplication(a *Application) {
	t.add(&a.AppliedAt, Event{Kind: EventApplied, Arrival: a.Arrival})
	if a.Review != nil {
		t.addReview(a)
	}
	switch {
	case a.Outcome == "" && a.Place != InHeld:
		t.add(a.SettlesAt, Event{Kind: EventSettles, Arrival: a.Arrival})
	case a.Outcome != "" && a.Outcome != coupon.OutcomeIssued:
		t.add(a.RecordedAt, Event{Kind: EventKind(a.Outcome), Arrival: a.Arrival, Run: a.Run, Cause: a.Cause,
			Reason: a.Note})
	}
}

func (t *timeline) addReview(a *Application) {
	at := a.Review.At
	if at.IsZero() { // the entry was written by hand
		at = a.AppliedAt
	}
	for _, tried := range a.Review.Tried {
		if !tried.At.Equal(at) || tried.Cause != a.Review.Cause { // the last attempt is added below
			t.add(&tried.At, Event{Kind: EventAttempt, Arrival: a.Arrival, Run: tried.Run,
				Cause: coupon.Cause(tried.Cause), Reason: tried.Note})
		}
	}
	t.add(&at, Event{Kind: EventReview, Arrival: a.Arrival, Run: a.Review.Run, Review: a.Review})
}
