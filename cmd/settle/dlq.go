package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jajeong/jajeong/internal/settle"
)

type dlqCmd struct {
	Retry dlqRetryCmd `cmd:"" help:"Try applications under review again, and settle their coupon."`
	Drop  dlqDropCmd  `cmd:"" help:"End applications under review: they are recorded REJECTED, with the reason."`
}

// deed is what a person does to one coupon, in whose name it is kept.
type deed struct {
	Coupon uint64   `required:"" placeholder:"ID" help:"The coupon."`
	User   []string `placeholder:"USER" help:"Only this user, as it stands in the DLQ; may be repeated."`
	signed `embed:""`
	Output string `enum:"table,json" default:"table" help:"table or json. Default ${default}."`
}

// Check tells what is impossible about the flags.
func (d *deed) Check() []error {
	return append(d.signed.missing("who does this is kept"), d.signed.tooLong()...)
}

func (d *deed) order() settle.Order {
	return settle.Order{Operator: d.Operator, Reason: d.Reason}
}

type dlqRetryCmd struct {
	deed   `embed:""`
	Cutoff string `enum:"midnight,now" default:"midnight" help:"Settle what arrived before the last midnight, or now. Default ${default}."`
}

func (c *dlqRetryCmd) run(ctx context.Context, p *program) error {
	order := c.order()
	order.CutoffNow = c.Cutoff == "now"
	return p.settle(c.Output, func(settler *settle.Settler) (*settle.Report, error) {
		return settler.Retry(ctx, c.Coupon, order, c.User)
	})
}

type dlqDropCmd struct {
	deed `embed:""`
}

// Check tells what is impossible about the flags.
func (c *dlqDropCmd) Check() (problems []error) {
	if len(c.User) == 0 {
		problems = append(problems, errors.New("--user is missing: whose application is to end"))
	}
	return append(problems, c.deed.Check()...)
}

func (c *dlqDropCmd) run(ctx context.Context, p *program) error {
	return p.settle(c.Output, func(settler *settle.Settler) (report *settle.Report, err error) {
		if report, err = settler.Drop(ctx, c.Coupon, c.order(), c.User); report != nil && report.Status == settle.RunSucceeded {
			fmt.Fprintf(p.stderr, "%d applications of coupon %d recorded REJECTED\n", report.Total.Rejected, c.Coupon)
		}
		return report, err
	})
}
