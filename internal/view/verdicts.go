package view

import (
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// invariants are those of docs/design.md §2 that stored data can show, in their order.
var invariants = []struct {
	name   text.Message
	figure func(v View, t ledger.Total) string
}{
	{text.NeverMoreThanSeats, func(v View, t ledger.Total) string { return v.Sprintf(text.CouponsForSeats, t.Coupons, t.Seats) }},
	{text.NeverTwice, func(v View, t ledger.Total) string {
		return v.Sprintf(text.CouponsAndOutcomes, t.Coupons, t.Account.Outcomes)
	}},
	{text.FirstCome, func(v View, t ledger.Total) string {
		return v.Sprintf(text.IssuedInOrder, t.Account.Issued, t.Account.Waiting)
	}},
	{text.NoBrokenPromise, View.account},
	{text.OneClock, func(v View, t ledger.Total) string { return v.Sprintf(text.QueuesChecked, t.Checked) }},
	{text.SourceOfTruth, func(v View, t ledger.Total) string {
		return v.Sprintf(text.SettlementsRecounted, t.Checked, t.AuditEvents)
	}},
}

func (v View) account(t ledger.Total) string {
	a, again := t.Account, ""
	if a.AskedAgain > 0 {
		again = v.Sprintf(text.AcceptedAgain, a.AskedAgain)
	}
	return v.Sprintf(text.AccountFigures, a.Accepted, a.Waiting, a.UnderReview, a.Issued, a.Outcomes, a.Twice, a.WrittenOff, again, t.Gap)
}

// Verdicts prints the result of a check.
func (v View) Verdicts(s ledger.Summary) {
	t := v.table(text.ColumnCoupon, text.ColumnName, text.ColumnSeats, text.ColumnCoupons,
		text.ColumnAccepted, text.ColumnWaiting, text.ColumnUnderReview, text.ColumnIssued, text.ColumnOtherOutcomes,
		text.ColumnGap, text.ColumnVerdict)
	for _, c := range s.Coupons {
		a := c.Account
		t.AppendRow(table.Row{c.Coupon, output.Printable(c.Name), c.TotalQuantity, c.Coupons, a.Accepted, a.Waiting, a.UnderReview, a.Issued, a.Outcomes,
			c.Gap, v.verdict(c)})
	}
	t.Render()
	v.invariants(s)
	for _, c := range s.Coupons {
		if c.AuditHead.Seq > 0 {
			v.Println(text.AuditChainEnds, c.Coupon, c.AuditHead.Seq, c.AuditHead.Hash)
		}
		for _, f := range c.Findings {
			v.Println(text.CouponDetail, c.Coupon, v.finding(f))
		}
	}
	for _, f := range s.Strays {
		v.Println(text.StrayFinding, v.finding(f))
	}
}

func (v View) verdict(c *ledger.Verdict) string {
	switch {
	case c.Violated():
		return output.Bad(v.W, v.Sprintf(text.Violated))
	case len(c.Findings) > 0:
		return v.Sprintf(text.Warning)
	default:
		return v.Sprintf(text.VerdictOK)
	}
}

func (v View) invariants(s ledger.Summary) {
	violations := s.Violations()
	t := v.table(text.Message{}, text.ColumnInvariant, text.ColumnHolds, text.ColumnFigures)
	for i, invariant := range invariants {
		holds := v.Sprintf(text.Yes)
		if violations[i+1] > 0 {
			holds = output.Bad(v.W, v.Sprintf(text.No))
		}
		t.AppendRow(table.Row{i + 1, v.Sprintf(invariant.name), holds, invariant.figure(v, s.Total)})
	}
	t.Render()
}

func (v View) finding(f ledger.Finding) string {
	kind := text.Violated
	if f.Warning {
		kind = text.Warning
	}
	return v.Sprintf(text.Finding, kind, f.Code, f.Invariant, output.Printable(f.Detail))
}
