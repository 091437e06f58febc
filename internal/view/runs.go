package view

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

func (v View) Runs(runs []history.Run) {
	if len(runs) == 0 {
		v.Println(text.NoSuchRuns)
		return
	}
	t := v.table(text.ColumnRun, text.ColumnTrigger, text.ColumnStatus, text.ColumnCutoff,
		text.ColumnStartedAt, text.ColumnTime, text.ColumnCoupons, text.ColumnIssued, text.ColumnMovedToReview,
		text.ColumnRejected,
		text.ColumnAlreadyHeld, text.ColumnNotSelected, text.ColumnUnsettled, text.ColumnOperator, text.ColumnReason)
	for _, r := range runs {
		t.AppendRow(table.Row{r.ID, output.Word(v.Language, r.Trigger), output.Word(v.Language, r.Status),
			v.Instant(r.Cutoff), v.Instant(r.StartedAt), output.Took(r.Millis), r.Coupons, r.Issued, r.UnderReview,
			r.Rejected, r.AlreadyIssued, r.NotSelected, r.Unsettled, output.Printable(r.Operator),
			output.Printable(r.Reason)})
	}
	t.Render()
}

func (v View) RunsCSV(runs []history.Run) error {
	return output.CSV(v.W, func(row func(cells ...any)) {
		row(v.Cells(text.ColumnRun, text.ColumnTrigger, text.ColumnStatus, text.ColumnCutoff, text.CSVStartedAt,
			text.CSVFinishedAt, text.CSVTimeZone, text.CSVDuration, text.ColumnCoupons, text.ColumnIssued,
			text.CSVMovedToReview, text.ColumnRejected, text.CSVAlreadyIssued, text.CSVNotSelected, text.CSVUnsettled,
			text.ColumnOperator, text.ColumnReason)...)
		for _, r := range runs {
			row(r.ID, r.Trigger, r.Status, v.SheetTime(&r.Cutoff), v.SheetTime(&r.StartedAt), v.SheetTime(r.FinishedAt),
				v.Zone.String(),
				output.Known(r.Millis, ""), r.Coupons, r.Issued, r.UnderReview, r.Rejected, r.AlreadyIssued,
				r.NotSelected, r.Unsettled, r.Operator, r.Reason)
		}
	})
}

func (v View) Run(r history.Run, coupons []history.RunCoupon) {
	v.Println(text.RunSummary, r.ID, output.Word(v.Language, r.Trigger), output.Word(v.Language, r.Status), r.Cutoff)
	if r.Operator != "" || r.Reason != "" {
		v.Println(text.RunOperator, output.Printable(r.Operator), output.Printable(r.Reason))
	}
	switch {
	case r.FinishedAt != nil:
		v.Println(text.RunTook, r.StartedAt, *r.FinishedAt, output.Took(r.Millis))
	case r.Status == coupon.RunAbandoned:
		v.Println(text.RunDied, r.StartedAt, r.HeartbeatAt)
	default:
		v.Println(text.RunBeats, r.StartedAt, r.HeartbeatAt)
	}
	if len(coupons) == 0 {
		v.Println(text.RunChangedNothing, r.Coupons)
		return
	}
	if n := int64(len(coupons)); n < r.Coupons {
		v.Println(text.RunListsSome, r.Coupons, n)
	}
	t := v.table(text.ColumnCoupon, text.ColumnName, text.ColumnResult, text.ColumnDecided, text.ColumnIssued,
		text.ColumnMovedToReview, text.ColumnAlreadyHeld, text.ColumnNotSelected, text.ColumnGap, text.ColumnTime)
	decided := int64(0)
	for _, c := range coupons {
		decided += c.Read
		t.AppendRow(table.Row{c.Coupon, output.Printable(c.Name), output.Word(v.Language, c.Status), c.Read, c.Issued,
			c.UnderReview, c.AlreadyIssued, c.NotSelected, c.Gap, output.Took(c.Millis)})
	}
	t.AppendFooter(table.Row{v.Sprintf(text.Total), v.Sprintf(text.CouponCount, r.Coupons), "", decided, r.Issued,
		r.UnderReview, r.AlreadyIssued, r.NotSelected, "", output.Took(r.Millis)})
	t.Render()
	for _, c := range coupons {
		v.runCoupon(c)
	}
}

// runCoupon prints the details of a coupon that do not fit into the table.
func (v View) runCoupon(c history.RunCoupon) {
	if c.WinnersDigest != "" {
		v.Println(text.IssuedArrivals, c.Coupon, v.arrival(c.FirstArrival), v.arrival(c.LastArrival))
		fmt.Fprintf(v.W, "  %s\n", c.WinnersDigest)
	}
	v.frozenCoupon(c.Coupon, c.Status)
	v.rejected(c.Coupon, c.Rejected)
	if c.Recorded && c.CleanedAt == nil {
		v.Println(text.CleanUpPending, c.Coupon)
	}
	switch {
	case c.Status == coupon.Busy: // has only this error
		v.Println(text.CouponDetail, c.Coupon, text.CouponBusy)
	case c.Error != "":
		v.Println(text.CouponDetail, c.Coupon, output.Printable(c.Error))
	}
}

func (v View) rejected(couponID coupon.CouponID, n int64) {
	if n > 0 {
		v.Println(text.EndedAsRejected, couponID, n)
	}
}
