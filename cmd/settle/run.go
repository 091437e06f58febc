package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/settle"
)

type runCmd struct {
	Date      string   `xor:"cutoff" placeholder:"DATE" help:"Settle the applications of this business date, such as 2026-11-20."`
	Cutoff    string   `xor:"cutoff" placeholder:"TIME" help:"Settle what arrived before this instant: RFC 3339 such as 2026-11-21T00:00:00+09:00, or now."`
	Coupon    []uint64 `placeholder:"ID" help:"Settle only this coupon; may be repeated."`
	AcceptGap bool     `help:"Release coupons that are held because accepted applications were lost."`
	Operator  string   `placeholder:"NAME" help:"Who runs this; required unless it is the bare nightly run."`
	Reason    string   `placeholder:"TEXT" help:"Why, such as a ticket; required with --operator."`
	Output    string   `enum:"table,json" default:"table" help:"table or json. Default ${default}."`
}

// Column widths of settlement_run.
const (
	maxOperatorLetters = 100
	maxReasonLetters   = 500
)

// manual is whether a person asks for something special.
func (c *runCmd) manual() bool {
	return c.Date != "" || c.Cutoff != "" || len(c.Coupon) > 0 || c.AcceptGap
}

// Check tells what is impossible about the flags.
func (c *runCmd) Check() (problems []error) {
	if c.manual() && strings.TrimSpace(c.Operator) == "" {
		problems = append(problems, errors.New("--operator is missing: a run with --date, --cutoff, --coupon or --accept-gap is a person's, whose name is kept"))
	}
	if c.manual() && strings.TrimSpace(c.Reason) == "" {
		problems = append(problems, errors.New("--reason is missing: say why, such as a ticket; it is kept with the run"))
	}
	problems = append(problems, tooLong(c.Operator, c.Reason)...)
	if _, err := c.cutoff(time.UTC); err != nil {
		problems = append(problems, err)
	}
	return problems
}

func tooLong(operator, reason string) []error {
	if len([]rune(operator)) > maxOperatorLetters || len([]rune(reason)) > maxReasonLetters {
		return []error{fmt.Errorf("--operator takes up to %d letters and --reason up to %d", maxOperatorLetters, maxReasonLetters)}
	}
	return nil
}

// cutoff is the instant that was asked for; zero for now and for the default.
func (c *runCmd) cutoff(zone *time.Location) (time.Time, error) {
	switch {
	case c.Date != "":
		cutoff, err := settle.DateCutoff(c.Date, zone)
		if err != nil {
			return time.Time{}, fmt.Errorf("--date: %w", err)
		}
		return cutoff, sane(cutoff)
	case c.Cutoff == "" || c.Cutoff == "now":
		return time.Time{}, nil
	default:
		cutoff, err := time.Parse(time.RFC3339Nano, c.Cutoff)
		if err != nil {
			return time.Time{}, fmt.Errorf("--cutoff=%q is neither now nor an instant such as 2026-11-21T00:00:00+09:00", c.Cutoff)
		}
		return cutoff, sane(cutoff)
	}
}

// sane refuses instants before there were any: nobody means them.
func sane(cutoff time.Time) error {
	if cutoff.Before(time.Unix(0, 0)) {
		return fmt.Errorf("the cutoff %s lies before 1970", cutoff.Format(time.RFC3339))
	}
	return nil
}

func (c *runCmd) run(ctx context.Context, p *program) error {
	order := settle.Order{
		Trigger: settle.Cron, CutoffNow: c.Cutoff == "now", Coupons: c.Coupon,
		AcceptGap: c.AcceptGap, Operator: c.Operator, Reason: c.Reason,
	}
	if c.manual() {
		order.Trigger = settle.Manual
	}
	order.Cutoff, _ = c.cutoff(p.zone) // Check has read it before
	return p.settle(c.Output, func(settler *settle.Settler) (*settle.Report, error) { return settler.RunOnce(ctx, order) })
}

// settle has a settler do something and prints what became of it.
func (p *program) settle(output string, do func(*settle.Settler) (*settle.Report, error)) error {
	settler, closeAll, err := p.openSettler()
	if err != nil {
		return err
	}
	defer closeAll()
	bar := newProgress(p.stderr, "settling")
	settler.Progress = func(coupon settle.Coupon, applications int) { bar.add(coupon.Name, applications) }
	report, err := do(settler)
	bar.end()
	if report == nil {
		return err
	}
	if output == "json" {
		encoder := json.NewEncoder(p.stdout)
		encoder.SetIndent("", "  ")
		err = errors.Join(err, encoder.Encode(report))
	} else {
		p.printReport(report)
	}
	classes := report.Classes()
	if err != nil {
		classes = append(classes, classOf(err))
	} else if output != "json" {
		for _, advice := range report.Advice() {
			fmt.Fprintln(p.stderr, advice)
		}
	}
	return errors.Join(err, worst(classes))
}

func (p *program) printReport(r *settle.Report) {
	title := fmt.Sprintf("run %d", r.Run)
	if r.Run == 0 {
		title = "run not recorded"
	}
	fmt.Fprintf(p.stdout, "%s (%s), cutoff %s\n", title, r.Trigger, inZone(r.Cutoff, p.zone))
	if len(r.Coupons) == 0 && r.Status == settle.RunSucceeded {
		fmt.Fprintln(p.stdout, "no coupon is due")
		return
	}
	t := newTable(p.stdout)
	t.AppendHeader(table.Row{"coupon", "name", "status", "in line", "issued", "to DLQ", "held before", "not selected", "seats left", "time"})
	for _, c := range r.Coupons {
		t.AppendRow(table.Row{c.Coupon, printable(c.Name), c.Status, c.Read, c.Issued, c.Rejected, c.AlreadyIssued, c.NotSelected, c.SeatsLeft, millis(c.Millis)})
	}
	t.AppendFooter(table.Row{"total", fmt.Sprintf("%d coupons", r.Total.Coupons), r.Status, r.Total.Read, r.Total.Issued,
		r.Total.Rejected, r.Total.AlreadyIssued, r.Total.NotSelected, "", millis(r.Total.Millis)})
	t.Render()
	for _, c := range r.Coupons {
		if c.Error != "" {
			fmt.Fprintf(p.stderr, "settle: coupon %d: %s\n", c.Coupon, c.Error)
		}
	}
}
