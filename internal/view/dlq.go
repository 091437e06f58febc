package view

import (
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/review"
	"github.com/jajeong/jajeong/internal/text"
)

// Cause is the cause of a group of DLQ entries, as a cell of a table.
type Cause string

// DLQGroups prints groups of DLQ entries. now is the Redis time.
func (v View) DLQGroups(groups []history.DLQGroup, now time.Time) {
	t := v.table(text.ColumnCoupon, text.ColumnCause, text.Message{}, text.ColumnCount, text.ColumnRetriedByRuns,
		text.ColumnAwaitsDecision,
		text.ColumnFirstArrival, text.ColumnLastArrival, text.ColumnLongestReview, text.ColumnAttempts)
	total := 0
	for _, g := range groups {
		total += g.Count
		age := "?"
		if !g.OldestReview.IsZero() {
			age = v.age(now.Sub(g.OldestReview))
		}
		t.AppendRow(table.Row{g.Coupon, Cause(output.Printable(g.Cause)), text.Word(v.Language, g.Cause), g.Count,
			g.Retryable, g.Held, v.Instant(g.OldestArrival), v.Instant(g.NewestArrival), age,
			span(g.MinAttempts, g.MaxAttempts)})
	}
	t.AppendFooter(table.Row{v.Sprintf(text.Total), "", "", total})
	t.Render()
}

func (v View) DLQEntries(entries []history.DLQEntry) {
	t := v.table(text.ColumnCoupon, text.ColumnUser, text.ColumnAppliedAt, text.ColumnCause, text.ColumnMessage,
		text.ColumnAttempts, text.ColumnRun, text.ColumnLastAttempt, text.ColumnNext)
	for _, e := range entries {
		t.AppendRow(table.Row{e.Coupon, member(e.User), v.Instant(e.Arrival), output.Printable(e.Cause),
			v.why(e.Cause, e.Note), e.Attempts, e.Run, v.instantOf(e.At), v.next(e)})
	}
	t.Render()
}

// why puts a cause into words, and adds the note that was kept with it.
func (v View) why(cause, note string) string {
	words := output.Word(v.Language, cause)
	if note != "" {
		words += ": " + output.Printable(note)
	}
	return words
}

// member returns a member of the queue or DLQ for printing. It is a user id, unless it was written to Redis by hand.
func member(name string) string { return output.Printable(coupon.ShownMember(name)) }

// next says whether a run or an operator handles an entry next.
func (v View) next(e history.DLQEntry) string {
	switch {
	case !e.Retryable:
		return v.Sprintf(text.NextOperator)
	case e.Refused > 0:
		return v.Sprintf(text.NextNight)
	default:
		return v.Sprintf(text.NextRun)
	}
}

func (v View) age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return v.Sprintf(text.UnderAMinute)
	case d < 2*time.Hour:
		return v.Sprintf(text.Minutes, int(d.Minutes()))
	case d < 48*time.Hour:
		return v.Sprintf(text.Hours, int(d.Hours()))
	default:
		return v.Sprintf(text.Days, int(d.Hours()/24))
	}
}

func (v View) DLQGroupsCSV(groups []history.DLQGroup) error {
	return output.CSV(v.W, func(row func(cells ...any)) {
		row(v.Cells(text.ColumnCoupon, text.ColumnCause, text.ColumnCount, text.CSVRetryable, text.CSVHeld,
			text.CSVOldestArrival, text.CSVNewestArrival, text.CSVOldestReview, text.CSVTimeZone,
			text.CSVLeastAttempts, text.CSVMostAttempts)...)
		for _, g := range groups {
			row(g.Coupon, g.Cause, g.Count, g.Retryable, g.Held, v.SheetTime(&g.OldestArrival),
				v.SheetTime(&g.NewestArrival),
				v.SheetTime(&g.OldestReview), v.Zone.String(), g.MinAttempts, g.MaxAttempts)
		}
	})
}

func (v View) DLQEntriesCSV(entries []history.DLQEntry) error {
	return output.CSV(v.W, func(row func(cells ...any)) {
		row(v.Cells(text.ColumnCoupon, text.ColumnUser, text.CSVArrival, text.ColumnCause, text.ColumnMessage,
			text.CSVRetryable, text.ColumnAttempts, text.ColumnRun, text.CSVReviewedSince, text.CSVLastAttempt,
			text.CSVTimeZone)...)
		for _, e := range entries {
			row(e.Coupon, e.User, v.SheetTime(&e.Arrival), e.Cause, v.why(e.Cause, e.Note), e.Retryable, e.Attempts,
				e.Run, v.SheetTime(new(e.InDLQSince())), v.SheetTime(&e.At), v.Zone.String())
		}
	})
}

// Round prints why DLQ entries of a coupon stay under review after one run of settle dlq retry.
func (v View) Round(r review.Round, couponID coupon.CouponID) {
	s := r.Stay
	if s.Again > 0 {
		v.Println(text.FailedAgain, s.Again, couponID)
	}
	if s.Seatless > 0 {
		v.Println(text.StayWithoutSeat, s.Seatless)
	}
	if s.Kept > 0 {
		v.Println(text.StayBehindEarlier, s.Kept)
	}
	if s.Late > 0 {
		v.Println(text.ArrivedAfterCutoff, s.Late, s.LastArrival)
	}
	if n := r.Report.Coupons[0].NotSelected; n > 0 {
		v.Println(text.RecordedNotSelected, n)
	}
	switch {
	case r.Canaries == 0, s.Frozen > 0: // the report says that the coupon is frozen
	case s.All() > 0:
		v.Println(text.CanariesFailed, r.Canaries, s.All(), r.Rest)
	default:
		v.Println(text.CanariesSettled, r.Canaries, r.Rest)
	}
}
