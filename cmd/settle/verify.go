package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/settle"
)

type verifyCmd struct {
	Coupon []uint64 `placeholder:"ID" help:"Check only this coupon; may be repeated."`
	Output string   `enum:"table,json" default:"table" help:"table or json. Default ${default}."`
}

// Help is shown by --help.
func (*verifyCmd) Help() string {
	return `Examples:
  settle verify                                           every coupon; exits 3 when an invariant is violated
  settle verify --coupon 42 --output json`
}

// couponsAtOnce bounds how many coupon ids are read at once.
const couponsAtOnce = 1000

// invariants are DESIGN.md §2's, as far as stored data can show them.
var invariants = []struct {
	number int
	name   string
	figure func(t verifyTotal) string
}{
	{1, "never more than N", func(t verifyTotal) string { return fmt.Sprintf("%d coupons for %d seats", t.Coupons, t.Seats) }},
	{2, "never twice", func(t verifyTotal) string {
		return fmt.Sprintf("%d coupons, %d other outcomes", t.Coupons, t.Account.Outcomes)
	}},
	{3, "first come", func(t verifyTotal) string {
		return fmt.Sprintf("%d issued in order of arrival, %d waiting", t.Account.Issued, t.Account.Waiting)
	}},
	{4, "no broken promise", func(t verifyTotal) string { return fmt.Sprintf("%s: gap %d", t.Account, t.Gap) }},
	{5, "one clock", func(t verifyTotal) string { return fmt.Sprintf("%d lines", t.Checked) }},
	{6, "the database is the truth", func(t verifyTotal) string {
		return fmt.Sprintf("every settlement of %d coupons counted again, %d audit events in their chains", t.Checked, t.AuditEvents)
	}},
}

type verifyTotal struct {
	Checked int            `json:"checked"`
	Seats   int64          `json:"seats"`
	Coupons int64          `json:"coupons"`
	Account ledger.Account `json:"account"`
	Gap     int64          `json:"gap"`

	AuditEvents uint64 `json:"auditEvents"`
}

func (t *verifyTotal) add(v *ledger.Verdict) {
	t.Checked++
	t.Seats += v.TotalQuantity
	t.Coupons += v.Coupons
	t.Gap += v.Gap
	t.AuditEvents += v.AuditHead.Seq
	a, b := &t.Account, v.Account
	a.Accepted += b.Accepted
	a.Waiting += b.Waiting
	a.UnderReview += b.UnderReview
	a.Issued += b.Issued
	a.Outcomes += b.Outcomes
	a.Twice += b.Twice
	a.WrittenOff += b.WrittenOff
	a.LastArrival = max(a.LastArrival, b.LastArrival)
}

type verifyReport struct {
	Violated  bool              `json:"violated"`
	Coupons   []*ledger.Verdict `json:"coupons"`
	Unchecked []string          `json:"unchecked,omitempty"` // what failed, a line per coupon
	Total     verifyTotal       `json:"total"`
}

func (c *verifyCmd) run(ctx context.Context, p *program) error {
	db, err := p.MySQLSettings.Open(p.logger)
	if err != nil {
		return err
	}
	defer db.Close()
	store, closeStore, err := p.openStore()
	if err != nil {
		return err
	}
	defer closeStore()

	l := &ledger.Ledger{Store: store}
	report := verifyReport{Coupons: []*ledger.Verdict{}}
	var classes []settle.Class // of what could not be checked
	bar := newProgress(p.stderr, "checking")
	all := func(after uint64) ([]uint64, error) { return l.Coupons(ctx, db, after, couponsAtOnce) }
	err = c.each(ctx, all, func(coupon uint64) {
		v, err := l.Check(ctx, db, coupon)
		if err != nil {
			report.Unchecked = append(report.Unchecked, fmt.Sprintf("coupon %d: %s", coupon, err))
			classes = append(classes, classOf(err))
			return
		}
		report.Coupons = append(report.Coupons, v)
		report.Total.add(v)
		bar.add(v.Name, 1)
		if v.Violated() {
			report.Violated = true
			classes = append(classes, settle.Invariant)
		}
	})
	bar.end()
	if err != nil {
		return err
	}

	switch {
	case len(report.Coupons) == 0 && len(report.Unchecked) > 0: // only failures to tell
	case c.Output == "json":
		encoder := json.NewEncoder(p.stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(report)
	default:
		p.printVerdicts(report)
	}
	for _, unchecked := range report.Unchecked {
		fmt.Fprintln(p.stderr, "settle:", unchecked)
	}
	if slices.Contains(classes, settle.Infrastructure) {
		fmt.Fprintln(p.stderr, settle.SafeToRunAgain)
	}
	return errors.Join(err, worst(classes))
}

// each visits the coupons that were asked for, or all, page by page.
func (c *verifyCmd) each(ctx context.Context, all func(after uint64) ([]uint64, error), visit func(coupon uint64)) error {
	ids := slices.Clone(c.Coupon)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for after := uint64(0); ; {
		if len(c.Coupon) == 0 {
			page, err := all(after)
			if err != nil {
				return err
			}
			ids = page
		}
		for _, id := range ids {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("told to stop: %w", context.Cause(ctx))
			}
			visit(id)
			after = id
		}
		if len(c.Coupon) > 0 || len(ids) < couponsAtOnce {
			return nil
		}
	}
}

func (p *program) printVerdicts(r verifyReport) {
	t := newTable(p.stdout)
	t.AppendHeader(table.Row{"coupon", "name", "seats", "coupons", "accepted", "waiting", "DLQ", "issued", "other outcomes", "gap", "verdict"})
	broken := map[int]int{}
	for _, v := range r.Coupons {
		verdict := "ok"
		if len(v.Findings) > 0 {
			verdict = "warning"
		}
		if v.Violated() {
			verdict = p.bad("VIOLATED")
		}
		a := v.Account
		t.AppendRow(table.Row{v.Coupon, printable(v.Name), v.TotalQuantity, v.Coupons, a.Accepted, a.Waiting, a.UnderReview, a.Issued, a.Outcomes, v.Gap, verdict})
		for _, f := range v.Findings {
			if !f.Warning {
				broken[f.Invariant]++
			}
		}
	}
	t.Render()

	t = newTable(p.stdout)
	t.AppendHeader(table.Row{"", "invariant", "holds", "figures"})
	for _, i := range invariants {
		holds := "yes"
		if broken[i.number] > 0 {
			holds = p.bad("NO")
		}
		t.AppendRow(table.Row{i.number, i.name, holds, i.figure(r.Total)})
	}
	t.Render()

	for _, v := range r.Coupons {
		if v.AuditHead.Seq > 0 {
			fmt.Fprintf(p.stdout, "coupon %d: the audit chain ends with event %d, %s\n", v.Coupon, v.AuditHead.Seq, v.AuditHead.Hash)
		}
		for _, f := range v.Findings {
			kind := "violated"
			if f.Warning {
				kind = "warning"
			}
			fmt.Fprintf(p.stdout, "coupon %d: %s %s (invariant %d): %s\n", v.Coupon, kind, f.Code, f.Invariant, f.Detail)
		}
	}
}
