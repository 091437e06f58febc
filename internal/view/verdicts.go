package view

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/durability"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verify"
)

func (v View) account(t verify.Total) string {
	a, erased := t.Account, ""
	if a.Erased > 0 {
		erased = v.Sprintf(text.OutcomesErased, a.Erased)
	}
	return v.Sprintf(text.AccountFigures, a.Accepted, a.Waiting, a.UnderReview, a.Issued, a.Outcomes, a.InBoth,
		a.WrittenOff, erased, t.Gap)
}

func (v View) Verdicts(s verify.Summary) {
	t := v.table(text.ColumnCoupon, text.ColumnName, text.ColumnSeats, text.ColumnCoupons,
		text.ColumnAccepted, text.ColumnWaiting, text.ColumnUnderReview, text.ColumnIssued, text.ColumnOtherOutcomes,
		text.ColumnGap, text.ColumnVerdict)
	for _, c := range s.Coupons {
		a := c.Account
		t.AppendRow(table.Row{c.Coupon, output.Printable(c.Name), c.TotalQuantity, c.Coupons, a.Accepted, a.Waiting,
			a.UnderReview, a.Issued, a.Outcomes, c.Gap, v.verdict(c)})
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
	for _, f := range s.Durability {
		if f.Code == durability.Unknown {
			v.Println(text.DurabilityUnknown, f.Code, f.Variable, f.Want)
			continue
		}
		v.Println(text.DurabilityWeak, f.Code, f.Variable, output.Printable(f.Value), f.Want)
	}
	v.sealed(s.Sealed)
}

func (v View) sealed(s *verify.Sealed) {
	if s == nil {
		return
	}
	if s.Replayed > 0 {
		v.Println(text.UsesReplayed, s.Replayed)
	}
	if s.Left > 0 {
		v.Println(text.SealedLeft, s.Left)
	}
}

func (v View) verdict(c *verify.Verdict) string {
	switch {
	case c.Violated():
		return output.Bad(v.W, v.Sprintf(text.Violated))
	case len(c.Findings) > 0:
		return v.Sprintf(text.Warning)
	default:
		return v.Sprintf(text.VerdictOK)
	}
}

// invariants prints the invariants of DESIGN §2, in this order.
func (v View) invariants(s verify.Summary) {
	violations, total := s.Violations(), s.Total
	t := v.table(text.Message{}, text.ColumnInvariant, text.ColumnHolds, text.ColumnFigures)
	for i, invariant := range []struct {
		name    text.Message
		figures string
	}{
		{text.NeverMoreThanSeats, v.Sprintf(text.CouponsForSeats, total.Coupons, total.Seats)},
		{text.NeverTwice, v.Sprintf(text.CouponsAndOutcomes, total.Coupons, total.Account.Outcomes)},
		{text.FirstCome, v.Sprintf(text.IssuedInOrder, total.Account.Issued, total.Account.Waiting)},
		{text.NoBrokenPromise, v.account(total)},
		{text.OneClock, v.Sprintf(text.QueuesChecked, total.Checked)},
		{text.SourceOfTruth, v.Sprintf(text.SettlementsRecounted, total.Checked, total.AuditEvents)},
		{text.UsedAtMostOnce, v.Sprintf(text.CouponsUsed, total.Uses.Used)},
		{text.OneOrderOneCoupon, v.Sprintf(text.OrdersCompared, total.Uses.Orders)},
		{text.StateFollowsFromLog, v.Sprintf(text.LogRowsReplayed, total.Uses.LogRows)},
		{text.TwoPersons, v.Sprintf(text.ApprovalsCompared, total.Approvals)},
	} {
		holds := v.Sprintf(text.Yes)
		if violations[i+1] > 0 {
			holds = output.Bad(v.W, v.Sprintf(text.No))
		}
		t.AppendRow(table.Row{i + 1, v.Sprintf(invariant.name), holds, invariant.figures})
	}
	t.Render()
}

func (v View) finding(f verify.Finding) string {
	kind := text.Violated
	if f.Warning {
		kind = text.Warning
	}
	users := ""
	if len(f.Users) > 0 {
		users = v.Sprintf(text.FindingUsers, strings.Trim(strings.ReplaceAll(fmt.Sprint(f.Users), " ", ", "), "[]"))
	}
	return v.Sprintf(text.Finding, kind, f.Code, f.Invariant, output.Printable(f.Detail), users)
}
