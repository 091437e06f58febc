package cli

import (
	"context"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

type runCmd struct {
	Date          string            `xor:"cutoff" placeholder:"DATE" form:"date,required"`
	Cutoff        string            `xor:"cutoff" placeholder:"TIME" form:"-"`
	Coupon        []coupon.CouponID `placeholder:"ID"`
	DryRun        bool              `xor:"approval" form:"-"`
	List          bool              `form:"-"`
	AcceptGap     bool
	operatorFlags `embed:""`
	approvalFlags `embed:""`
	pushFlags     `embed:""`
	Yes           bool   `form:"-"`
	Output        string `enum:"table,json" default:"table" form:"-"`
}

func (*runCmd) Declare() verb.Declaration {
	return verb.Declaration{Title: text.ConsoleRunAgain, On: verb.Coupon, Right: signin.Settle,
		Actions: []approval.Action{approval.Run, approval.AcceptGap}, API: "POST /v1/runs"}
}

// cutoffNow is the value of --cutoff for the time of the run.
const cutoffNow = "now"

func (c *runCmd) manual() bool {
	return c.Date != "" || c.Cutoff != "" || len(c.Coupon) > 0 || c.AcceptGap
}

func (c *runCmd) Validate() error {
	operator := c.operatorFlags.wrong()
	if c.manual() && !c.DryRun {
		operator = c.operatorFlags.check(text.ManualRunIsRecorded)
	}
	_, wrongCutoff := c.cutoff(time.UTC)
	return errors.Join(operator,
		refuse(!c.manual() && c.Operator+c.Reason != "", text.NightlyRunHasNoOperator),
		wrongCutoff,
		c.pushFlags.wrong(),
		refuse(c.List && !c.DryRun, text.ListNeedsDryRun),
		refuse((c.Ask || c.Approval > 0) && (len(c.Coupon) != 1 || c.Date == "" &&
			(c.Cutoff == "" || c.Cutoff == cutoffNow)), text.NeedOneCoupon),
		refuse(c.ExpectDigest != "" && (len(c.Coupon) != 1 || c.Date == "" && (c.Cutoff == "" ||
			c.Cutoff == cutoffNow)), text.DigestNeedsOneCoupon))
}

// cutoff returns the cutoff that --date or --cutoff names. It is zero for --cutoff=now, and if neither flag is given.
func (c *runCmd) cutoff(zone *time.Location) (time.Time, error) {
	switch {
	case c.Date != "":
		cutoff, err := calendar.DateCutoff(c.Date, zone)
		if err != nil {
			return time.Time{}, about("--date", text.UsageErrorf(text.WrongDate, "--date", c.Date))
		}
		return cutoff, after1970("--date", c.Date, cutoff)
	case c.Cutoff == "" || c.Cutoff == cutoffNow:
		return time.Time{}, nil
	default:
		cutoff, err := time.Parse(time.RFC3339Nano, c.Cutoff)
		if err != nil {
			return time.Time{}, about("--cutoff", text.UsageErrorf(text.WrongCutoff, c.Cutoff))
		}
		return cutoff, after1970("--cutoff", c.Cutoff, cutoff)
	}
}

func after1970(flag, given string, at time.Time) error {
	return about(flag, refuse(at.Before(time.Unix(0, 0)), text.Before1970, flag, given))
}

func (c *runCmd) run(ctx context.Context, p *program) error {
	order := settle.Order{
		Trigger: coupon.Cron, CutoffNow: c.Cutoff == cutoffNow, Coupons: c.Coupon,
		AcceptGap: c.AcceptGap, Operator: c.Operator, Reason: c.Reason, List: c.List,
	}
	if c.manual() {
		order.Trigger = coupon.Manual
	}
	if c.ExpectDigest != "" { // Validate has found one coupon
		order.Expect = c.expect(c.Coupon[0])
	}
	if c.Approval > 0 {
		order.Approvals = c.approvals(c.Coupon[0])
	}
	order.Person = p.person(c.operatorFlags)
	s, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	p.shared = s.sharedWith()
	order.Cutoff, _ = c.cutoff(p.Zone) // no error: Validate has read the flags
	if c.Ask {
		return c.askApproval(ctx, p, order)
	}
	if c.DryRun {
		return p.settle(ctx, c.Output, func(s *settle.Settler) (*settle.Report, error) {
			return s.Preview(ctx, order)
		})
	}
	var leftOut []coupon.Class
	if c.manual() && !c.Yes && p.isTerminal() {
		may, failed, err := p.askFirst(ctx, &order)
		if err != nil || !may {
			return err
		}
		leftOut = failed
	}
	return p.settle(ctx, c.Output, c.once(ctx, p, order), leftOut...)
}

// once returns a function that runs the order once and pushes its metrics to --push-gateway.
func (c *runCmd) once(ctx context.Context, p *program,
	order settle.Order) func(*settle.Settler) (*settle.Report, error) {
	return func(settler *settle.Settler) (*settle.Report, error) {
		defer c.pusher(ops.RunJob, p.logger, metricsOf(settler)).Grouping("trigger", string(order.Trigger)).Start()()
		return settler.RunOnce(ctx, order)
	}
}

// settle calls do and prints its report. The exit code also depends on leftOut, the errors of coupons not in the run.
func (p *program) settle(ctx context.Context, format string, do func(*settle.Settler) (*settle.Report, error),
	leftOut ...coupon.Class) error {
	report, err := p.watch(ctx, do)
	if report == nil {
		return err
	}
	if format == "json" {
		err = errors.Join(err, output.JSON(p.Stdout, report))
	}
	err = p.outcome(format, report, err, leftOut...)
	if format != "json" && len(report.Coupons) == 0 && report.Status == coupon.RunSucceeded {
		p.printWaiting(ctx, report.Cutoff)
	}
	return err
}

func (p *program) watch(ctx context.Context, do func(*settle.Settler) (*settle.Report, error)) (*settle.Report, error) {
	settler, err := p.openSettler(ctx)
	if err != nil {
		return nil, err
	}
	defer settler.Close()
	bar := output.NewProgress(p.Stderr, p.Sprintf(text.Settling))
	settler.Progress = func(of coupon.Coupon, applications int) { bar.Add(of.Name, applications) }
	report, err := do(settler.Settler)
	bar.End()
	return report, err
}

// outcome prints a report as a table, and its advice unless the run itself failed. For JSON it prints nothing. It
// returns err together with the exit code.
func (p *program) outcome(format string, report *settle.Report, err error, leftOut ...coupon.Class) error {
	if format != "json" {
		p.view().Settlement(report, p.Stderr)
		for _, advice := range report.Advice() {
			if err == nil {
				p.warn(advice)
			}
		}
	}
	p.note(report.Failures()...)
	classes := append(report.Classes(), leftOut...)
	if err != nil {
		classes = append(classes, classOf(err))
	}
	return errors.Join(err, worst(classes...))
}

// askApproval previews the run, and asks for approval of its winners and its gap.
func (c *runCmd) askApproval(ctx context.Context, p *program, order settle.Order) error {
	s, err := p.openSettler(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	report, err := s.Preview(ctx, order)
	if err != nil {
		return err
	}
	shown := report.Coupons[0]
	if shown.Preview == nil {
		if err := p.outcome(c.Output, report, nil); err != nil {
			return err
		}
		p.warn(text.NothingToApprove)
		if c.Output == "json" {
			return output.JSON(p.Stdout, report)
		}
		return nil
	}
	return p.requestApproval(ctx, s.servers, shown.Preview.Plan, c.pinFlags, c.operatorFlags, c.Output)
}
