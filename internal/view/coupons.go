package view

import (
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

func (v View) Coupons(coupons []history.CouponFigures) {
	if len(coupons) == 0 {
		v.Println(text.NoCoupons)
		return
	}
	t := v.table(text.ColumnCoupon, text.ColumnName, text.ColumnStatus, text.ColumnCadence, text.ColumnSeats,
		text.ColumnIssued,
		text.ColumnSeatsLeft, text.ColumnOpens, text.ColumnCloses, text.ColumnWaiting, text.ColumnUnderReview)
	for _, c := range coupons {
		t.AppendRow(table.Row{c.ID, output.Printable(c.Name), v.status(c.Coupon), v.cadence(c.Cadence), c.TotalQuantity,
			c.IssuedCount, c.Left, v.Instant(c.OpensAt), v.Instant(c.ClosesAt), v.waiting(c), output.Known(c.DLQ, "?")})
	}
	t.Render()
}

func (v View) status(c history.Coupon) string {
	status := output.Word(v.Language, c.Status)
	if c.Frozen {
		status += v.Sprintf(text.FrozenMark)
	}
	if c.Purging {
		status += v.Sprintf(text.PurgingMark)
	}
	return status
}

func (v View) waiting(c history.CouponFigures) any {
	waiting := output.Known(c.Waiting, "?")
	if c.LineLimit != nil {
		return v.Sprintf(text.WaitingOfLimit, fmt.Sprint(waiting), *c.LineLimit)
	}
	return waiting
}

// Queue prints how many applications of a coupon wait, and when they are settled. night is the next nightly cutoff for
// them.
func (v View) Queue(c history.Coupon, waiting int64, night time.Time) {
	switch name := output.Printable(c.Name); {
	case c.Frozen:
		v.Println(text.FrozenQueueOf, c.ID, name, waiting)
	case c.Cadence == coupon.Immediate:
		v.Println(text.ImmediateQueueOf, c.ID, name, waiting)
	default:
		v.Println(text.QueueOf, c.ID, name, waiting, night)
	}
}

func (v View) frozen(by *history.AuditEntry) string {
	if by == nil {
		return v.Sprintf(text.FrozenUnknown)
	}
	return v.Sprintf(text.FrozenBy, by.At, output.Printable(by.Actor), output.Printable(by.Reason))
}

// Coupon prints everything about one coupon. now is the Redis time.
func (v View) Coupon(c history.CouponDetails, now time.Time) {
	status := v.status(c.Coupon)
	switch {
	case c.SoldOut == nil && c.Status == history.Open:
		status += v.Sprintf(text.MaybeSoldOut)
	case c.SoldOut != nil && *c.SoldOut:
		status += v.Sprintf(text.AnsweredSoldOut)
	}
	t := output.Table(v.W)
	row := func(what text.Message, value any) { t.AppendRow(table.Row{what.In(v.Language), value}) }
	row(text.ColumnCoupon, c.ID)
	row(text.ColumnName, output.Printable(c.Name))
	row(text.ColumnStatus, status)
	row(text.ColumnCadence, v.cadence(c.Cadence))
	if c.Frozen {
		row(text.ColumnFrozen, v.frozen(c.Freeze))
	}
	row(text.ColumnSeats, v.Sprintf(text.SeatsIssuedLeft, c.TotalQuantity, c.IssuedCount, c.Left))
	row(text.ColumnWindow, v.Sprintf(text.FromTo, c.OpensAt, c.ClosesAt))
	if c.FinalisedAt != nil {
		row(text.ColumnFinalisedAt, v.Instant(*c.FinalisedAt))
	}
	if c.CampaignID != nil {
		row(text.ColumnCampaign, *c.CampaignID)
	}
	if c.LineLimit != nil {
		row(text.ColumnLineLimit, *c.LineLimit)
	}
	row(text.ColumnValidity, v.Sprintf(text.Days, c.ValidityDays))
	row(text.ColumnDiscount, v.Discount(c.Discount))
	row(text.ColumnAccepted, output.Known(c.Outcomes.Accepted, "?"))
	row(text.ColumnWaiting, output.Known(c.Waiting, "?"))
	row(text.ColumnUnderReview, output.Known(c.DLQ, "?"))
	row(text.ColumnIssuedByRuns, c.Outcomes.Issued)
	row(text.ColumnIssuedByHand, c.Outcomes.ByHand)
	row(text.ColumnNotSelected, c.Outcomes.NotSelected)
	row(text.ColumnRejected, c.Outcomes.Rejected)
	row(text.ColumnAlreadyHeld, c.Outcomes.AlreadyIssued)
	row(text.ColumnWrittenOff, c.Outcomes.WrittenOff)
	t.Render()
	if len(c.Review) > 0 {
		v.DLQGroups(c.Review, now)
	}
	if len(c.Audit) > 0 {
		v.audit(c.Audit)
	}
}

func (v View) audit(entries []history.AuditEntry) {
	t := v.table(text.ColumnAt, text.ColumnActor, text.ColumnAction, text.ColumnReason, text.ColumnDetail)
	for _, e := range entries {
		var detail any = v.Detail(e.Action, e.Detail)
		if e.Action == audit.ApprovalUsed {
			detail = output.OfRequest(v.Detail(e.Action, e.Detail))
		}
		t.AppendRow(table.Row{v.Instant(e.At), output.Printable(e.Actor), output.Word(v.Language, e.Action),
			output.Printable(e.Reason), detail})
	}
	t.Render()
}
