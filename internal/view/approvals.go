package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// Approvals prints a list of approvals.
func (v View) Approvals(all []approval.Approval) {
	if len(all) == 0 {
		v.Println(text.NoApprovals)
		return
	}
	t := v.table(text.ColumnApproval, text.CSVState, text.ColumnAction, text.ColumnCoupon, text.ColumnUser,
		text.ColumnAskedBy, text.ColumnApprovedBy, text.ColumnExpires, text.ColumnReason)
	for _, a := range all {
		t.AppendRow([]any{a.ID, output.Word(v.Language, a.State), output.Word(v.Language, a.Plan.Action),
			orDash(a.Plan.Coupon),
			orDash(a.Plan.User), person(a.Maker, a.MakerAccount), person(a.Checker, a.CheckerAccount),
			v.Instant(a.ExpiresAt), output.Printable(a.Reason)})
	}
	t.Render()
}

// Approval prints one approval with its plan.
func (v View) Approval(a approval.Approval) {
	state, maker, reason := output.Word(v.Language, a.State), person(a.Maker, a.MakerAccount),
		output.Printable(a.Reason)
	if a.Plan.Action == approval.SetPolicy {
		v.Println(text.ApprovalOfPolicy, a.ID, state, maker, reason)
	} else {
		v.Println(text.ApprovalIs, a.ID, state, output.Word(v.Language, a.Plan.Action), a.Plan.Coupon, maker, reason)
		v.request(a.Plan)
	}
	v.changes(a.Plan)
	v.Println(text.ApprovalDigest, a.Digest, a.ExpiresAt)
	if a.DecidedAt != nil {
		v.Println(text.ApprovalDecided, person(a.Checker, a.CheckerAccount), *a.DecidedAt, output.Printable(a.Remark))
	}
	if a.VoidPlan != nil {
		v.Println(text.ApprovalVoided, *a.VoidedAt)
		for _, c := range a.VoidPlan.Changes {
			v.Println(text.ApprovalVoidChange, output.Word(v.Language, c.What), cmp.Or(c.From, "–"), cmp.Or(c.To, "–"))
		}
	}
	if a.UsedAt != nil {
		v.Println(text.ApprovalUsedAt, *a.UsedAt)
	}
}

// person is a name, with the account of MySQL that is the person at a terminal.
func person(name, account string) string {
	if account == "" {
		return output.Printable(name)
	}
	return output.Printable(name + " (" + account + ")")
}

// PlannedPolicy prints what a new policy would change.
func (v View) PlannedPolicy(plan approval.Plan) {
	v.changes(plan)
	output.Digest(v.W, plan.Digest())
}

func (v View) changes(plan approval.Plan) {
	t := v.table(text.ColumnChange, text.ColumnBefore, text.ColumnAfter)
	for _, c := range plan.Changes {
		t.AppendRow([]any{output.Word(v.Language, c.What), v.planned(c.From), v.planned(c.To)})
	}
	t.Render()
}

// request prints what a plan was asked with. That of a policy is in its changes.
func (v View) request(plan approval.Plan) {
	if plan.User > 0 {
		v.Println(text.ApprovalUser, plan.User)
	}
	for _, name := range slices.Sorted(maps.Keys(plan.Arguments)) {
		v.Println(text.ApprovalArgument, output.Word(v.Language, name), v.planned(plan.Arguments[name]))
	}
}

func orDash[ID coupon.CouponID | coupon.UserID](id ID) any {
	if id == 0 {
		return "–"
	}
	return id
}

// Policy prints which actions need an approval.
func (v View) Policy(p approval.Policy) {
	if len(p.Actions) == 0 {
		v.Println(text.PolicyEmpty)
	} else {
		v.Println(text.PolicyNames, v.actions(p.Actions))
	}
	if len(p.SharedAccounts) > 0 {
		v.Println(text.PolicyShared, output.Printable(strings.Join(p.SharedAccounts, ", ")))
	}
	if len(p.Persons) > 0 {
		persons := make([]string, len(p.Persons))
		for i, one := range p.Persons {
			persons[i] = one.String()
		}
		v.Println(text.PolicyPersons, output.Printable(strings.Join(persons, ", ")))
	}
	v.Println(text.NightsOfZone, p.Zone)
	v.Println(text.PolicySetBy, p.Version, output.Printable(p.SetBy), p.SetAt, output.Printable(p.Reason))
}

func (v View) actions(all []approval.Action) string {
	parts := make([]string, len(all))
	for i, a := range all {
		parts[i] = fmt.Sprintf("%s (%s)", output.Word(v.Language, a), a)
	}
	return strings.Join(parts, ", ")
}

// planned returns a value of a plan: an instant in the reader's zone, or a state in words.
func (v View) planned(value string) string {
	if at, err := time.Parse(time.RFC3339Nano, value); err == nil {
		return v.Instant(at)
	}
	return cmp.Or(output.Word(v.Language, value), "–")
}

// Planned prints what a change of a coupon, or of the coupon of one user, would do.
func (v View) Planned(c *couponadmin.Change, user coupon.UserID) {
	if !c.Changed {
		v.Println(text.PlannedNothing, c.After.ID, output.Printable(c.After.Name))
		return
	}
	v.Println(text.PlannedChange, c.After.ID, output.Printable(c.After.Name))
	if user > 0 {
		v.Println(text.ApprovalUser, user)
	}
	t := v.table(text.ColumnChange, text.ColumnBefore, text.ColumnAfter)
	row := func(what text.Message, was, is any) {
		if was != is {
			t.AppendRow(table.Row{what.In(v.Language), was, is})
		}
	}
	row(text.ColumnSeats, c.Before.TotalQuantity, c.After.TotalQuantity)
	row(text.ColumnIssued, c.Before.IssuedCount, c.After.IssuedCount)
	row(text.ColumnCloses, v.Instant(c.Before.ClosesAt), v.Instant(c.After.ClosesAt))
	row(text.ColumnStatus, c.Before.Status, c.After.Status)
	row(text.ColumnFrozen, c.Before.Frozen, c.After.Frozen)
	row(text.ColumnCadence, v.cadence(c.Before.Cadence), v.cadence(c.After.Cadence))
	if c.Before.Finalised() && !c.After.Finalised() {
		row(text.ColumnFinalisedAt, v.Instant(c.Before.FinalisedAt), "–")
	}
	for _, change := range c.Plan.Changes {
		if change.What != "total_quantity" || c.Before.TotalQuantity == c.After.TotalQuantity {
			t.AppendRow(table.Row{output.Word(v.Language, change.What), v.planned(change.From), v.planned(change.To)})
		}
	}
	t.Render()
	if c.Plan.Action != "" {
		output.Digest(v.W, c.Plan.Digest())
	}
}
