package view

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// EventStatus prints how far the sinks are.
func (v View) EventStatus(all []events.Status) {
	if len(all) == 0 {
		v.Println(text.EventsNeverOn)
		return
	}
	t := v.table(text.ColumnSink, text.ColumnOnSince, text.ColumnUnpublishedIssued, text.ColumnUnpublishedChanges,
		text.ColumnDueSince)
	for _, s := range all {
		on, due := text.TurningOn.In(v.Language), "–"
		if s.On != nil {
			on = v.Instant(*s.On)
		}
		if s.Since != nil {
			due = v.Instant(*s.Since)
		}
		issued, changes := counted(s.Issued, s.Settlements), counted(s.Changes, s.Changes)
		if !s.Active { // the sink of the deployment gets them
			issued, changes, due = "–", "–", "–"
		}
		t.AppendRow(table.Row{s.Sink, on, issued, changes, due})
	}
	t.Render()
	for _, s := range all {
		if s.Run != 0 {
			v.Println(text.PublishedInPart, s.Sink, s.Coupon, s.Run, s.Position)
		}
		if s.MayLack != nil {
			v.MayLack(s.Sink, s.MayLack)
		}
		v.consumers(s)
	}
}

// MayLack says what a sink may have lost, and how it gets it again.
func (v View) MayLack(sink string, gap *events.Gap) {
	v.Println(text.SinkMayLack, sink, v.Instant(gap.From), v.Instant(gap.To))
	fmt.Fprintln(v.W, "  "+gap.Replay)
}

// counted shows a number. It is marked if not all rows were counted.
func counted(n, rows int) any {
	if rows >= events.MaxCounted {
		return fmt.Sprintf("≥ %d", n)
	}
	return n
}

func (v View) consumers(s events.Status) {
	if len(s.Consumers) == 0 {
		return
	}
	v.Println(text.ConsumersOf, s.Sink)
	t := v.table(text.ColumnGroup, text.ColumnUnread, text.ColumnUnacknowledged)
	known := func(n int64) any {
		if n < 0 {
			return "?"
		}
		return n
	}
	for _, lag := range s.Consumers {
		t.AppendRow(table.Row{output.Printable(lag.Group), known(lag.Unread), known(lag.Pending)})
	}
	t.Render()
}

// maxMissing bounds the rows of a table of missing events.
const maxMissing = 1_000

// Verified prints which events of a sink MySQL does not have.
func (v View) Verified(sink string, found *events.Verified) {
	switch {
	case found.Events == 0:
		v.Println(text.NoEventsToCompare, sink)
	case len(found.Missing) == 0:
		v.Println(text.NoEventsMissing, found.Events)
	default:
		v.missing(found.Missing)
		v.Println(text.EventsMissing, found.Events, len(found.Missing))
	}
	if found.Purged > 0 {
		v.Println(text.EventsOfPurged, found.Purged)
	}
	if found.Unreadable > 0 {
		v.Println(text.UnreadableEvents, sink, found.Unreadable)
	}
	switch {
	case found.More:
		v.Println(text.MoreEventsMissing, len(found.Missing))
	case found.CoveredFrom == nil:
		v.Println(text.SinkCoversNothing, sink)
	case !found.Complete:
		v.Println(text.SinkCoversFrom, sink, *found.CoveredFrom)
	}
}

func (v View) missing(all []events.Missing) {
	t := v.table(text.ColumnAt, text.ColumnSource, text.ColumnEventID, text.ColumnEventType, text.ColumnUser,
		text.ColumnOrder, text.ColumnAmountWon)
	for _, m := range all[:min(len(all), maxMissing)] {
		order, amount := "", ""
		if m.Order != nil {
			order = output.Printable(*m.Order)
		}
		if m.Amount != nil {
			amount = strconv.FormatInt(*m.Amount, 10)
		}
		t.AppendRow(table.Row{v.Instant(m.Time), m.Source, m.ID, output.Printable(m.Type), m.User, order, amount})
	}
	t.Render()
	if len(all) > maxMissing {
		v.Println(text.EventsMissingCut, maxMissing)
	}
}

// Replayed prints the events that a replay has published, or would publish.
func (v View) Replayed(done events.Replayed, dryRun bool) {
	if done.Events == 0 {
		v.Println(text.NoEventsSelected)
		return
	}
	t := v.table(text.ColumnEventType, text.ColumnEvents)
	for _, name := range slices.Sorted(maps.Keys(done.ByType)) {
		t.AppendRow(table.Row{name, done.ByType[name]})
	}
	t.Render()
	if dryRun {
		v.Println(text.WouldReplay, done.Events, done.Coupons)
	} else {
		v.Println(text.Replayed, done.Events, done.Coupons)
	}
}
