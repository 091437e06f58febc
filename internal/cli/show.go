package cli

import (
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

type showCmd struct {
	Run    uint64 `arg:""`
	Output string `enum:"table,json" default:"table"`
}

// shownRun is the JSON of show.
type shownRun struct {
	history.Run
	Details []history.RunCoupon `json:"details"` // coupons that it changed or could not settle
}

func (c *showCmd) run(ctx context.Context, p *program) error {
	db, err := p.MySQLSettings.Open(p.logger)
	if err != nil {
		return err
	}
	defer db.Close()
	history := history.Reader{DB: db}
	run, err := history.Run(ctx, c.Run)
	if err != nil {
		return err
	}
	coupons, err := history.RunCoupons(ctx, c.Run)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return output.JSON(p.stdout, shownRun{run, coupons})
	}
	p.printRun(run, coupons)
	return nil
}

func (p *program) printRun(r history.Run, coupons []history.RunCoupon) {
	fmt.Fprintln(p.stdout, p.sprintf(text.RunSummary, r.ID, output.Word(p.language, r.Trigger), output.Word(p.language, r.Status), output.InZone(r.Cutoff, p.zone)))
	if r.Operator != "" || r.Reason != "" {
		fmt.Fprintln(p.stdout, p.sprintf(text.RunOperator, output.Printable(r.Operator), output.Printable(r.Reason)))
	}
	switch {
	case r.FinishedAt != nil:
		fmt.Fprintln(p.stdout, p.sprintf(text.RunTook, output.InZone(r.StartedAt, p.zone), output.InZone(*r.FinishedAt, p.zone), output.Took(r.Millis)))
	case r.Status == coupon.RunAbandoned:
		fmt.Fprintln(p.stdout, p.sprintf(text.RunDied, output.InZone(r.StartedAt, p.zone), output.InZone(r.HeartbeatAt, p.zone)))
	default:
		fmt.Fprintln(p.stdout, p.sprintf(text.RunBeats, output.InZone(r.StartedAt, p.zone), output.InZone(r.HeartbeatAt, p.zone)))
	}
	if len(coupons) == 0 {
		fmt.Fprintln(p.stdout, p.sprintf(text.RunChangedNothing))
		return
	}
	t := output.Table(p.stdout)
	t.AppendHeader(p.header(
		text.ColumnCoupon, text.ColumnName, text.ColumnResult, text.ColumnConsidered, text.ColumnIssued,
		text.ColumnMovedToReview, text.ColumnAlreadyHeld, text.ColumnNotSelected, text.ColumnGap, text.ColumnTime))
	for _, c := range coupons {
		t.AppendRow(table.Row{c.Coupon, output.Printable(c.Name), output.Word(p.language, c.Status), c.Read, c.Issued, c.UnderReview, c.AlreadyIssued, c.NotSelected, c.Gap, output.Took(c.Millis)})
	}
	t.AppendFooter(table.Row{p.sprintf(text.Total), p.sprintf(text.CouponCount, len(coupons)), "", "", r.Issued, r.UnderReview, r.AlreadyIssued, r.NotSelected, "", output.Took(r.Millis)})
	t.Render()
	for _, c := range coupons {
		p.printRunCoupon(c)
	}
}

// printRunCoupon prints the details that do not fit into the table.
func (p *program) printRunCoupon(c history.RunCoupon) {
	if c.WinnersDigest != "" {
		fmt.Fprintln(p.stdout, p.sprintf(text.IssuedArrivals,
			c.Coupon, p.arrival(c.FirstArrival), p.arrival(c.LastArrival)))
		fmt.Fprintf(p.stdout, "  %s\n", c.WinnersDigest)
	}
	p.printRejected(c.Coupon, c.Rejected)
	if c.Recorded && c.CleanedAt == nil {
		fmt.Fprintln(p.stdout, p.sprintf(text.CleanUpPending, c.Coupon))
	}
	if c.Error != "" {
		fmt.Fprintln(p.stdout, p.sprintf(text.CouponDetail, c.Coupon, output.Printable(c.Error)))
	}
}
