package ledger

import (
	"cmp"
	"slices"
	"time"
)

// events puts the facts in order of time.
func events(f *Facts, audits []Event) []Event {
	all := slices.Clone(audits)
	add := func(at *time.Time, e Event) {
		if at != nil {
			e.At = at.UTC()
			all = append(all, e)
		}
	}
	f.windowEvents(add)
	for i := range f.Applications {
		f.Applications[i].events(add)
	}
	for i := range f.Runs {
		r := &f.Runs[i]
		add(&r.StartedAt, Event{Kind: EventRun, Run: r.ID, Actor: r.Operator, Reason: r.Reason, Settled: r})
	}
	if f.Coupon != nil && len(f.Applications) > 0 && f.Coupon.LastSeated > 0 {
		last := time.UnixMicro(f.Coupon.LastSeated)
		add(&last, Event{Kind: EventLastSeated, Arrival: f.Coupon.LastSeated})
	}
	if h := f.Held; h != nil {
		e := Event{Kind: EventIssued, Run: h.Run}
		if h.Run > 0 && h.AppliedAt != nil {
			e.Arrival = h.AppliedAt.UnixMicro()
		}
		add(&h.IssuedAt, e)
		add(h.ExpiresAt, Event{Kind: EventExpires})
	}
	slices.SortStableFunc(all, func(a, b Event) int {
		return cmp.Or(a.At.Compare(b.At), slices.Index(EventKinds, a.Kind)-slices.Index(EventKinds, b.Kind))
	})
	if all == nil {
		all = []Event{}
	}
	return all
}

// windowEvents: the door decides where Redis knows it.
func (f *Facts) windowEvents(add func(*time.Time, Event)) {
	if d := f.Door; d != nil && d.Known {
		add(d.OpensAt, Event{Kind: EventOpens})
		add(d.ClosesAt, Event{Kind: EventCloses})
	} else if f.Coupon != nil {
		add(&f.Coupon.OpensAt, Event{Kind: EventOpens})
		add(&f.Coupon.ClosesAt, Event{Kind: EventCloses})
	}
	if f.Coupon != nil {
		add(f.Coupon.FinalisedAt, Event{Kind: EventFinalised})
	}
}

var outcomeEvents = map[string]EventKind{"NOT_SELECTED": EventNotSelected, "REJECTED": EventRejected, "ALREADY_ISSUED": EventAlready}

func (a *Application) events(add func(*time.Time, Event)) {
	add(&a.AppliedAt, Event{Kind: EventApplied, Arrival: a.Arrival})
	if a.Review != nil {
		at := a.Review.At
		if at.IsZero() { // written by hand
			at = a.AppliedAt
		}
		for _, t := range a.Review.Tried {
			if t.At.Equal(at) && t.Cause == a.Review.Cause {
				continue // the last, which is told below
			}
			add(&t.At, Event{Kind: EventAttempt, Arrival: a.Arrival, Run: t.Run, Reason: t.Cause, Detail: t.Message})
		}
		add(&at, Event{Kind: EventReview, Arrival: a.Arrival, Run: a.Review.Run, Review: a.Review})
	}
	if kind, ok := outcomeEvents[a.Outcome]; ok {
		add(a.RecordedAt, Event{Kind: kind, Arrival: a.Arrival, Run: a.Run, Reason: a.Reason})
	}
	if a.Outcome == "" && a.Stands != InHeld { // which waits for a person
		add(a.SettlesAt, Event{Kind: EventSettles, Arrival: a.Arrival})
	}
}
