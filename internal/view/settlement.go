package view

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/text"
)

// Settlement prints the result of a run or a preview to v.W, and the errors of single coupons to errs.
func (v View) Settlement(r *settle.Report, errs io.Writer) {
	title := v.Sprintf(text.RunNumber, r.Run)
	if r.DryRun {
		title = v.Sprintf(text.Preview)
	} else if r.Run == 0 {
		title = v.Sprintf(text.RunNotRecorded)
	}
	v.Println(text.RunTitle, title, output.Word(v.Language, r.Trigger), r.Cutoff)
	if len(r.Coupons) == 0 && r.Status == coupon.RunSucceeded {
		v.Println(text.NoCouponDue)
		return
	}
	t := v.table(text.ColumnCoupon, text.ColumnName, text.ColumnResult, text.ColumnDecided, text.ColumnIssued,
		text.ColumnMovedToReview, text.ColumnAlreadyHeld, text.ColumnNotSelected, text.ColumnSeatsLeft, text.ColumnTime)
	for _, c := range r.Coupons {
		t.AppendRow(table.Row{c.Coupon, output.Printable(c.Name), v.result(c.Status), c.Read, c.Issued, c.UnderReview,
			c.AlreadyIssued, c.NotSelected, c.SeatsLeft, output.Millis(c.Millis)})
	}
	t.AppendFooter(table.Row{v.Sprintf(text.Total), v.Sprintf(text.CouponCount, r.Total.Coupons),
		output.Word(v.Language, r.Status), r.Total.Read,
		r.Total.Issued, r.Total.UnderReview, r.Total.AlreadyIssued, r.Total.NotSelected, "",
		output.Millis(r.Total.Millis)})
	t.Render()
	for _, c := range r.Coupons {
		v.settled(c, r.DryRun)
		if c.Error != "" {
			fmt.Fprintln(errs, "settle:", v.Sprintf(text.CouponDetail, c.Coupon, c.Err()))
		}
	}
}

// result returns the word for the status of a coupon, in red if the coupon could not be settled.
func (v View) result(s coupon.ResultStatus) string {
	word := output.Word(v.Language, s)
	if s == coupon.HeldBack || s == coupon.Busy || s == coupon.Failed {
		return output.Bad(v.W, word)
	}
	return word
}

// settled prints the details of a coupon that do not fit into the table.
func (v View) settled(c settle.Result, dryRun bool) {
	if c.Earlier != nil {
		v.Println(text.SettledEarlier, c.Coupon, c.Earlier.Run, c.Earlier.At)
	}
	v.frozenCoupon(c.Coupon, c.Status)
	v.rejected(c.Coupon, int64(c.Rejected))
	if c.Preview != nil && c.Error == "" && c.Status != coupon.Frozen {
		v.preview(c)
	}
	if c.Gap > 0 && c.Error == "" { // without --accept-gap a gap is an error
		message := text.WrittenOff
		if dryRun {
			message = text.WouldBeWrittenOff
		}
		v.Println(message, c.Coupon, c.Gap)
	}
}

func (v View) frozenCoupon(couponID coupon.CouponID, s coupon.ResultStatus) {
	if s == coupon.Frozen {
		v.Println(text.RunFoundFrozen, couponID)
	}
}

// preview prints winners, the digest for --expect-digest, and applications that would go to the DLQ or be rejected.
func (v View) preview(c settle.Result) {
	p := c.Preview
	v.Println(text.CouponTitle, c.Coupon, output.Printable(c.Name))
	if p.First != nil {
		v.Println(text.WouldBeIssued, c.Issued, p.First.User, v.arrival(p.First.Arrival), p.Last.User,
			v.arrival(p.Last.Arrival))
	} else {
		v.Println(text.NoneWouldBeIssued)
	}
	output.Digest(v.W, p.Digest)
	for _, cause := range slices.Sorted(maps.Keys(p.Reviews)) {
		v.Println(text.WouldBeReviewed, p.Reviews[cause], text.Word(v.Language, cause), cause)
	}
	if len(p.Winners) > 0 {
		t := v.table(text.ColumnPlace, text.ColumnUser, text.ColumnAppliedAt)
		for i, w := range p.Winners {
			t.AppendRow(table.Row{i + 1, w.User, v.arrival(w.Arrival)})
		}
		t.Render()
	}
	if out := slices.Concat(p.UnderReview, p.Rejected); len(out) > 0 {
		t := v.table(text.ColumnUser, text.ColumnAppliedAt, text.ColumnReason, text.Message{})
		for _, r := range out {
			t.AppendRow(table.Row{member(r.User), v.arrival(r.Arrival), r.Cause, v.why(string(r.Cause), r.Note)})
		}
		t.Render()
	}
}
