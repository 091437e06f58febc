package explain

import (
	"cmp"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// EventKind is the kind of an event.
type EventKind string

// The kinds.
const (
	EventOpens       EventKind = "OPENS"
	EventApplied     EventKind = "APPLIED"
	EventLastSeated  EventKind = "LAST_SEATED" // the last arrival that got a seat
	EventCloses      EventKind = "CLOSES"
	EventRun         EventKind = "RUN"
	EventAttempt     EventKind = "ATTEMPT" // an earlier recorded attempt that failed
	EventReview      EventKind = "REVIEW"  // the last attempt that failed and has the application in the DLQ
	EventAudit       EventKind = "AUDIT"   // an operator's change
	EventIssued      EventKind = "ISSUED"
	EventNotSelected EventKind = "NOT_SELECTED"
	EventRejected    EventKind = "REJECTED"
	EventAlready     EventKind = "ALREADY_ISSUED"
	EventFinalised   EventKind = "FINALISED"
	EventSettles     EventKind = "SETTLES" // expected
	EventExpires     EventKind = "EXPIRES"
)

// EventKinds are all kinds, in the order of events of one instant.
var EventKinds = []EventKind{EventOpens, EventApplied, EventLastSeated, EventCloses, EventRun, EventAttempt, EventReview, EventAudit, EventIssued,
	EventNotSelected, EventRejected, EventAlready, EventFinalised, EventSettles, EventExpires}

// Event is a past or expected event. Fields that its kind does not use are empty.
type Event struct {
	At      time.Time          `json:"at"`
	Kind    EventKind          `json:"kind"`
	Arrival coupon.Arrival     `json:"arrival,omitempty"`
	Run     coupon.RunID       `json:"run,omitempty"`
	Actor   string             `json:"actor,omitempty"`
	Action  audit.Action       `json:"action,omitempty"`
	Reason  string             `json:"reason,omitempty"`
	Detail  string             `json:"detail,omitempty"`
	Review  *candidates.Reason `json:"review,omitempty"`
	Settled *RunFacts          `json:"-"` // the run of EventRun, which Facts.Runs prints
}

// timeline collects events.
type timeline []Event

// add adds an event unless its instant is unknown.
func (t *timeline) add(at *time.Time, e Event) {
	if at != nil {
		e.At = at.UTC()
		*t = append(*t, e)
	}
}

// events are the facts as events, by time.
func events(f *Facts, audits []Event) []Event {
	t := append(timeline{}, audits...)
	t.addWindow(f)
	for i := range f.Applications {
		t.addApplication(&f.Applications[i])
	}
	for i := range f.Runs {
		r := &f.Runs[i]
		t.add(&r.StartedAt, Event{Kind: EventRun, Run: r.ID, Actor: r.Operator, Reason: r.Reason, Settled: r})
	}
	if f.Coupon != nil && len(f.Applications) > 0 && f.Coupon.LastSeated > 0 {
		t.add(new(f.Coupon.LastSeated.Time()), Event{Kind: EventLastSeated, Arrival: f.Coupon.LastSeated})
	}
	if c := f.UserCoupon; c != nil {
		issued := Event{Kind: EventIssued, Run: c.Run}
		if c.Run > 0 && c.AppliedAt != nil {
			issued.Arrival = coupon.ArrivalAt(*c.AppliedAt)
		}
		t.add(&c.IssuedAt, issued)
		t.add(c.ExpiresAt, Event{Kind: EventExpires})
	}
	slices.SortStableFunc(t, func(a, b Event) int {
		return cmp.Or(a.At.Compare(b.At), slices.Index(EventKinds, a.Kind)-slices.Index(EventKinds, b.Kind))
	})
	return t
}

// addWindow adds the window in Redis, which decides about applications; that in MySQL when Redis does not have the coupon.
func (t *timeline) addWindow(f *Facts) {
	if d := f.Door; d != nil && d.Known {
		t.add(d.OpensAt, Event{Kind: EventOpens})
		t.add(d.ClosesAt, Event{Kind: EventCloses})
	} else if f.Coupon != nil {
		t.add(&f.Coupon.OpensAt, Event{Kind: EventOpens})
		t.add(&f.Coupon.ClosesAt, Event{Kind: EventCloses})
	}
	if f.Coupon != nil {
		t.add(f.Coupon.FinalisedAt, Event{Kind: EventFinalised})
	}
}

var outcomeEvents = map[coupon.Outcome]EventKind{
	coupon.OutcomeNotSelected: EventNotSelected, coupon.OutcomeRejected: EventRejected, coupon.OutcomeAlreadyIssued: EventAlready,
}

func (t *timeline) addApplication(a *Application) {
	t.add(&a.AppliedAt, Event{Kind: EventApplied, Arrival: a.Arrival})
	if a.Review != nil {
		t.addReview(a)
	}
	if kind, ok := outcomeEvents[a.Outcome]; ok {
		t.add(a.RecordedAt, Event{Kind: kind, Arrival: a.Arrival, Run: a.Run, Reason: a.Reason})
	}
	if a.Outcome == "" && a.Place != InHeld {
		t.add(a.SettlesAt, Event{Kind: EventSettles, Arrival: a.Arrival})
	}
}

func (t *timeline) addReview(a *Application) {
	at := a.Review.At
	if at.IsZero() { // written by hand
		at = a.AppliedAt
	}
	for _, tried := range a.Review.Tried {
		if !tried.At.Equal(at) || tried.Cause != a.Review.Cause { // else it is the last attempt, added below
			t.add(&tried.At, Event{Kind: EventAttempt, Arrival: a.Arrival, Run: tried.Run, Reason: tried.Cause, Detail: tried.Message})
		}
	}
	t.add(&at, Event{Kind: EventReview, Arrival: a.Arrival, Run: a.Review.Run, Review: a.Review})
}
