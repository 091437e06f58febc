package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/ledger"
)

type verifyCmd struct {
	Coupon []uint64 `placeholder:"ID" help:"Check only this coupon; may be repeated."`
	Output string   `enum:"table,json" default:"table" help:"table or json. Default ${default}."`
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
		return fmt.Sprintf("every settlement of %d coupons counted again", t.Checked)
	}},
}

type verifyTotal struct {
	Checked int            `json:"checked"`
	Seats   int64          `json:"seats"`
	Coupons int64          `json:"coupons"`
	Account ledger.Account `json:"account"`
	Gap     int64          `json:"gap"`
}

func (t *verifyTotal) add(v *ledger.Verdict) {
	t.Checked++
	t.Seats += v.TotalQuantity
	t.Coupons += v.Coupons
	t.Gap += v.Gap
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
	Violated bool              `json:"violated"`
	Coupons  []*ledger.Verdict `json:"coupons"`
	Total    verifyTotal       `json:"total"`
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
	bar := newProgress(p.stderr, "checking")
	check := func(coupon uint64) error {
		v, err := l.Check(ctx, db, coupon)
		if err != nil {
			return err
		}
		report.Coupons = append(report.Coupons, v)
		report.Violated = report.Violated || v.Violated()
		report.Total.add(v)
		bar.add(v.Name, 1)
		return nil
	}
	coupons, after := c.Coupon, uint64(0)
	for more := true; more && err == nil; {
		if len(c.Coupon) == 0 {
			coupons, err = l.Coupons(ctx, db, after, couponsAtOnce)
		}
		for i := 0; i < len(coupons) && err == nil; i++ {
			after = coupons[i]
			err = check(after)
		}
		more = len(c.Coupon) == 0 && len(coupons) == couponsAtOnce
	}
	bar.end()
	if err != nil {
		return err
	}

	if c.Output == "json" {
		encoder := json.NewEncoder(p.stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(report)
	} else {
		p.printVerdicts(report)
	}
	if report.Violated {
		return errors.Join(err, exitError(exitInvariant))
	}
	return err
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
			verdict = "VIOLATED"
		}
		a := v.Account
		t.AppendRow(table.Row{v.Coupon, v.Name, v.TotalQuantity, v.Coupons, a.Accepted, a.Waiting, a.UnderReview, a.Issued, a.Outcomes, v.Gap, verdict})
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
			holds = "NO"
		}
		t.AppendRow(table.Row{i.number, i.name, holds, i.figure(r.Total)})
	}
	t.Render()

	for _, v := range r.Coupons {
		for _, f := range v.Findings {
			kind := "violated"
			if f.Warning {
				kind = "warning"
			}
			fmt.Fprintf(p.stdout, "coupon %d: %s %s (invariant %d): %s\n", v.Coupon, kind, f.Code, f.Invariant, f.Detail)
		}
	}
}
