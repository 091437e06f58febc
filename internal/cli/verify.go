package cli

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/ahead"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/durability"
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
	var unnoted bool // a check that notes nothing is no success: the next one does not know of it
	found, unchecked, err := c.check(ctx, p, s, &unnoted)
	if len(c.Coupon) == 0 {
		c.pushFindings(p, found, err == nil && len(unchecked) == 0 && !unnoted)
		c.pushTables(ctx, p, s)
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

// check checks the coupons. unchecked has one error for each coupon that could not be checked, and for each further
// step. Only a check of all coupons writes seals.
func (c *verifyCmd) check(ctx context.Context, p *program, s *servers,
	unnoted *bool) (found verify.Summary, unchecked []error, err error) {
	found = verify.Summary{Coupons: []*verify.Verdict{}, Strays: []verify.Finding{}}
	one := verifyOne{program: p, servers: s, verifier: s.verifier(), unnoted: unnoted}
	ids := sortedOnce(c.Coupon)
	if len(ids) == 0 {
		if one.plan, err = one.verifier.Plan(ctx, s.MySQL, c.All); err != nil {
			return found, nil, err
		}
		ids, found.Sealed = one.plan.Coupons, &one.plan.Sealed
	}
	failed := func(err error) {
		unchecked, found.Unchecked = append(unchecked, err), append(found.Unchecked, err.Error())
	}
	bar := output.NewProgress(p.Stderr, p.Sprintf(text.Checking))
	for v, err := range ahead.Items(ctx, p.SettleParallel, ids, one.check) {
		switch {
		case ctx.Err() != nil:
			bar.End()
			return found, unchecked, settle.Stopped(ctx)
		case err != nil:
			failed(err)
		case v != nil:
			found.Add(v)
			bar.Add(v.Name, 1)
		}
	}
	bar.End()
	err = one.verifier.CheckWindows(ctx, s.MySQL, found.Coupons, func(ctx context.Context) error {
		if sleep.For(ctx, windowTimeout) != nil {
			return settle.Stopped(ctx)
		}
		return nil
	})
	if err != nil && ctx.Err() != nil {
		return found, unchecked, err
	}
	if err != nil {
		failed(err)
	}
	if one.plan == nil {
		if err := one.noted(one.err); err != nil {
			failed(err)
		}
		return found, unchecked, nil
	}
	if found.Durability, err = durability.Look(ctx, durability.Of(s.MySQL)); err != nil {
		failed(err)
	}
	if found.Strays, err = one.verifier.Strays(ctx, s.MySQL, one.plan); err != nil {
		failed(err)
		return found, unchecked, nil
	}
	err = one.err
	if err == nil {
		err = one.plan.Done(ctx, s.MySQL)
	}
	if err := one.noted(err); err != nil {
		failed(err)
	}
	return found, unchecked, nil
}

// verifyOne checks one coupon after another, and writes what it finds of those of a plan.
type verifyOne struct {
	*program
	*servers
	verifier *verify.Verifier
	plan     *verify.Plan // nil: these coupons were named
	unnoted  *bool        // set if this account or server takes no writes

	mu  sync.Mutex
	err error // the first one that kept a result from being written
}

// check returns nil for a coupon of the plan that was purged meanwhile.
func (o *verifyOne) check(ctx context.Context, id coupon.CouponID) (*verify.Verdict, error) {
	if o.plan == nil {
		if err := o.notPurged(ctx, o.servers, id); err != nil {
			return nil, err
		}
	}
	if o.plan != nil {
		o.wrote(o.verifier.List(ctx, o.MySQL, id))
	}
	v, err := o.verifier.Check(ctx, o.MySQL, id)
	switch {
	case o.plan == nil && errors.Is(err, verify.ErrPurged):
		return nil, o.notPurged(ctx, o.servers, id)
	case o.plan == nil && err == nil && v.Violated():
		o.wrote(o.verifier.NoteWrong(ctx, o.MySQL, v))
		return v, nil
	case o.plan == nil:
		return v, err
	case text.Is(err, text.NoSuchCoupon) || errors.Is(err, verify.ErrPurged):
		return nil, nil
	case err != nil:
		o.wrote(o.verifier.NoteUnchecked(ctx, o.MySQL, id))
		return nil, err
	}
	o.wrote(o.verifier.Seal(ctx, o.MySQL, v))
	return v, nil
}

func (o *verifyOne) wrote(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = cmp.Or(o.err, err)
}

// noted warns if this account or server does not take what a check has found. The check was whole nevertheless.
func (o *verifyOne) noted(err error) error {
	if mysqltx.MayNotWrite(err) {
		if mysqltx.IsReadOnly(err) {
			o.warn(text.NotSealedHere)
		} else {
			o.warn(text.NotSealed)
		}
		*o.unnoted = true
		return nil
	}
	return err
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
		Name: "jajeong_verify_findings", Help: "Violated invariants in the last check without --coupon.",
	})
	findings.Set(float64(violations))
	metrics := []prometheus.Collector{findings}
	if complete {
		success := prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "jajeong_verify_last_success_timestamp_seconds",
			Help: "Time of the last check that looked at all that it had to, whatever its result.",
		})
		success.SetToCurrentTime()
		metrics = append(metrics, success)
	}
	c.pusher(ops.VerifyJob, p.logger, metrics...).Push()
}

// pushTables pushes how big and how old tables are, and which coupons are kept open.
func (c *verifyCmd) pushTables(ctx context.Context, p *program, s *servers) {
	if c.PushGateway == "" {
		return
	}
	tables, err := verify.Tables(ctx, s.MySQL)
	kept, keptErr := verify.ListKeptOpen(ctx, s.MySQL, p.Now())
	if err = errors.Join(err, keptErr); err != nil {
		p.logger.Warn("sizes of tables not pushed", zap.Error(err))
		return
	}
	bytes := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "jajeong_table_bytes", Help: "Size of a table with its indexes, as MySQL estimates it.",
	}, []string{"table"})
	oldest := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "jajeong_table_oldest_timestamp_seconds",
		Help: "Time of the first row of a table; of coupon, when the first one closed.",
	}, []string{"table"})
	closed := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "jajeong_coupon_kept_open_timestamp_seconds",
		Help: "When a coupon closed that is not finalised 30 days later; the first 100 of them.",
	}, []string{"coupon_id"})
	for _, t := range tables {
		bytes.WithLabelValues(t.Name).Set(float64(t.Bytes))
		if t.Oldest.Valid {
			oldest.WithLabelValues(t.Name).Set(float64(t.Oldest.Time.Unix()))
		}
	}
	for _, k := range kept {
		closed.WithLabelValues(k.ID.String()).Set(float64(k.ClosesAt.Unix()))
	}
	c.pusher(ops.TablesJob, p.logger, bytes, oldest, closed).Whole().Push()
}
