package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

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
	switch a.Plan.Action {
	case approval.SetPolicy:
		v.Println(text.ApprovalOfPolicy, a.ID, state, maker, reason)
	case approval.Create:
		v.Println(text.ApprovalOfCreation, a.ID, state, maker, reason)
		v.request(a.Plan)
	default:
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

// PlannedCreation says what a new coupon would be.
func (v View) PlannedCreation(n couponadmin.NewCoupon, plan approval.Plan) {
	issued := text.IssuedAtMidnight
	if n.Cadence == coupon.Immediate {
		issued = text.IssuedAtOnce
	}
	v.Println(text.CreationPlanned, output.Grouped(fmt.Sprint(n.Seats)), n.Opens, n.Closes, v.Discount(n.Discount),
		v.Sprintf(issued), output.Printable(n.Name))
	v.changes(plan)
	output.Plan(v.W, plan.Digest(), plan.CostWon)
}

// changes prints what a plan changes, and what it may cost.
func (v View) changes(plan approval.Plan) {
	if plan.CostWon > 0 {
		v.Println(text.ApprovalCost, output.Grouped(fmt.Sprint(plan.CostWon)))
	}
	if len(plan.Changes) == 0 {
		return
	}
	t := v.table(text.ColumnChange, text.ColumnBefore, text.ColumnAfter)
	for _, c := range plan.Changes {
		from, to := v.cell(c.From), v.cell(c.To)
		if c.What == "name" { // people chose it, so that it may look like a number or a time
			from, to = output.Printable(c.From), output.Printable(c.To)
		}
		t.AppendRow([]any{output.Word(v.Language, c.What), from, to})
	}
	t.Render()
}

// request prints what a plan was asked with. That of a policy is in its changes.
func (v View) request(plan approval.Plan) {
	if plan.User > 0 {
		v.Println(text.ApprovalUser, plan.User)
	}
	for _, name := range slices.Sorted(maps.Keys(plan.Arguments)) {
		value := v.planned(plan.Arguments[name])
		switch name {
		case "name", "receipt": // people chose it, so that it may look like a word or a time
			value = output.Printable(plan.Arguments[name])
		case "cadence":
			value = v.cadence(coupon.Cadence(strings.ToUpper(plan.Arguments[name])))
		}
		v.Println(text.ApprovalArgument, output.Word(v.Language, argument(plan.Action, name)), value)
	}
}

// argument is the word for an argument: seats of a new coupon are all, and else more.
func argument(action approval.Action, name string) string {
	if action == approval.AddSeats && name == "seats" {
		return "more seats"
	}
	return name
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

func (v View) actions(all []approval.Rule) string {
	parts := make([]string, len(all))
	for i, rule := range all {
		a, aboveWon, _ := rule.Names() // no error: the policy has been checked
		parts[i] = fmt.Sprintf("%s (%s)", output.Word(v.Language, a), a)
		if aboveWon >= 0 {
			parts[i] += v.Sprintf(text.PolicyAbove, output.Grouped(fmt.Sprint(aboveWon)))
		}
	}
	return strings.Join(parts, ", ")
}

// cell is planned for a table, where numbers stand on the right.
func (v View) cell(value string) any {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return n
	}
	return v.planned(value)
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
	v.Println(text.PlannedChange, c.After.ID, output.Printable(c.After.Name))
	if user > 0 {
		v.Println(text.ApprovalUser, user)
	}
	plan := c.Plan
	if c.Before.Finalised() && !c.After.Finalised() { // it follows from the others
		plan.Changes = append(slices.Clone(plan.Changes),
			approval.Change{What: "finalised_at", From: c.Before.FinalisedAt.Format(time.RFC3339Nano)})
	}
	v.changes(plan)
	output.Plan(v.W, c.Plan.Digest(), c.Plan.CostWon)
}
