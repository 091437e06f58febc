package cli

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/ahead"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/sleep"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verify"
)

type verifyCmd struct {
	Coupon    []coupon.CouponID `placeholder:"ID"`
	All       bool
	Output    string `enum:"table,json" default:"table"`
	pushFlags `embed:""`
}

func (c *verifyCmd) Validate() error {
	return errors.Join(c.wrong(), refuse(c.All && len(c.Coupon) > 0, text.AllOrCoupon))
}

// windowTimeout is the longest time until a changed window is in Redis. Every pod refreshes Redis twice within it.
const windowTimeout = 12 * time.Second

func (c *verifyCmd) read(ctx context.Context, p *program, s *servers) error {
	if _, err := s.users.Look(ctx, s.MySQL); err != nil {
		return err
	}
	found, unchecked, err := c.check(ctx, p, s)
	if len(c.Coupon) == 0 {
		c.pushFindings(p, found, err == nil && len(unchecked) == 0)
	}
	if err != nil {
		return err
	}
	found.Violated = len(found.Violations()) > 0
	switch {
	case len(found.Coupons)+len(found.Strays) == 0 && len(unchecked) > 0: // nothing was checked
	case c.Output == "json":
		err = output.JSON(p.Stdout, found)
	default:
		p.view().Verdicts(found)
	}
	classes := p.printErrors(unchecked...)
	if found.Violated {
		classes = append(classes, coupon.Invariant)
	}
	return errors.Join(err, worst(classes...))
}

// check checks the coupons. unchecked has one error for each coupon that could not be checked. Only a check of all
// coupons writes seals.
func (c *verifyCmd) check(ctx context.Context, p *program,
	s *servers) (found verify.Summary, unchecked []error, err error) {
	found = verify.Summary{Coupons: []*verify.Verdict{}, Strays: []verify.Finding{}}
	l, ids, plan := s.verifier(), sortedOnce(c.Coupon), (*verify.Plan)(nil)
	if len(ids) == 0 {
		if plan, err = l.Plan(ctx, s.MySQL, c.All); err != nil {
			return found, nil, err
		}
		ids = plan.Coupons
	}
	bar := output.NewProgress(p.Stderr, p.Sprintf(text.Checking))
	for v, err := range ahead.Items(ctx, p.SettleParallel, ids,
		func(ctx context.Context, id coupon.CouponID) (*verify.Verdict, error) {
			if plan == nil { // a plan has no purged coupon
				if err := p.notPurged(ctx, s, id); err != nil {
					return nil, err
				}
			}
			return l.Check(ctx, s.MySQL, id)
		}) {
		switch {
		case ctx.Err() != nil:
			bar.End()
			return found, unchecked, settle.Stopped(ctx)
		case err != nil:
			unchecked, found.Unchecked = append(unchecked, err), append(found.Unchecked, err.Error())
		default:
			found.Add(v)
			bar.Add(v.Name, 1)
		}
	}
	bar.End()
	err = l.CheckWindows(ctx, s.MySQL, found.Coupons, func(ctx context.Context) error {
		if sleep.For(ctx, windowTimeout) != nil {
			return settle.Stopped(ctx)
		}
		return nil
	})
	if err != nil || plan == nil {
		return found, unchecked, err
	}
	if found.Strays, err = l.Strays(ctx, s.MySQL, plan); err != nil {
		return found, unchecked, err
	}
	// The check was whole, whether or not this account and this server take its seals.
	if err = l.Seal(ctx, s.MySQL, plan, found.Coupons); mysqltx.MayNotWrite(err) {
		p.warn(text.NotSealed)
		err = nil
	}
	if err == nil {
		err = l.CountLeft(ctx, s.MySQL, plan)
	}
	found.Sealed = &plan.Sealed
	return found, unchecked, err
}

// pushFindings pushes the number of violations. After an incomplete check it pushes neither a zero nor a success.
func (c *verifyCmd) pushFindings(p *program, found verify.Summary, complete bool) {
	violations := 0
	for _, n := range found.Violations() {
		violations += n
	}
	if !complete && violations == 0 {
		return
	}
	findings := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "jajeong_verify_findings", Help: "Violated invariants of coupons in the last check of every coupon.",
	})
	findings.Set(float64(violations))
	metrics := []prometheus.Collector{findings}
	if complete {
		success := prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "jajeong_verify_last_success_timestamp_seconds",
			Help: "Time of the last check that reached every coupon, whatever its result.",
		})
		success.SetToCurrentTime()
		metrics = append(metrics, success)
	}
	c.pusher(ops.VerifyJob, p.logger, metrics...).Push()
}
