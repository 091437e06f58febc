package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/text"
)

type verifyCmd struct {
	Coupon      []uint64 `placeholder:"ID"`
	Output      string   `enum:"table,json" default:"table"`
	PushGateway string   `name:"push-gateway" env:"PUSH_GATEWAY" placeholder:"URL"`
}

// Validate reports what is impossible about the flags.
func (c *verifyCmd) Validate() error {
	if ops.CheckGateway(c.PushGateway) != nil {
		return text.UsageErrorf(text.WrongGateway)
	}
	return nil
}

// couponsPerPage bounds a page of coupon ids.
const couponsPerPage = 1000

// windowTimeout bounds how long Redis may lag behind a changed window: two refreshes of every pod and their duration.
const windowTimeout = 12 * time.Second

// invariants are DESIGN.md §2's, as far as stored data can show them.
var invariants = []struct {
	number int
	name   text.Message
	figure func(p *program, t verifyTotal) string
}{
	{1, text.NeverMoreThanSeats, func(p *program, t verifyTotal) string {
		return p.sprintf(text.CouponsForSeats, t.Coupons, t.Seats)
	}},
	{2, text.NeverTwice, func(p *program, t verifyTotal) string {
		return p.sprintf(text.CouponsAndOutcomes, t.Coupons, t.Account.Outcomes)
	}},
	{3, text.FirstCome, func(p *program, t verifyTotal) string {
		return p.sprintf(text.IssuedInOrder, t.Account.Issued, t.Account.Waiting)
	}},
	{4, text.NoApplicationLost, func(p *program, t verifyTotal) string {
		a, again := t.Account, ""
		if a.AskedAgain > 0 {
			again = p.sprintf(text.AcceptedAgain, a.AskedAgain)
		}
		return p.sprintf(text.AccountFigures,
			a.Accepted, a.Waiting, a.UnderReview, a.Issued, a.Outcomes, a.Twice, a.WrittenOff, again, t.Gap)
	}},
	{5, text.OneClock, func(p *program, t verifyTotal) string {
		return p.sprintf(text.QueuesChecked, t.Checked)
	}},
	{6, text.DatabaseIsTheRecord, func(p *program, t verifyTotal) string {
		return p.sprintf(text.SettlementsRecounted, t.Checked, t.AuditEvents)
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
	a.AskedAgain += b.AskedAgain
	a.LastArrival = max(a.LastArrival, b.LastArrival)
}

type verifyReport struct {
	Violated  bool              `json:"violated"`
	Coupons   []*ledger.Verdict `json:"coupons"`
	Strays    []ledger.Finding  `json:"strays"`              // about no coupon there is; looked for unless coupons are named
	Unchecked []string          `json:"unchecked,omitempty"` // errors, a line per coupon
	Total     verifyTotal       `json:"total"`
}

func (c *verifyCmd) run(ctx context.Context, p *program) error {
	s, err := p.open()
	if err != nil {
		return err
	}
	defer s.Close()

	if _, err := s.users.Look(ctx, s.MySQL); err != nil {
		return err
	}
	l := &ledger.Ledger{Store: s.store, Users: s.users}
	report := verifyReport{Coupons: []*ledger.Verdict{}, Strays: []ledger.Finding{}}
	var classes []coupon.Class // of the coupons that could not be checked
	bar := output.NewProgress(p.stderr, p.sprintf(text.Checking))
	all := func(after uint64) ([]uint64, error) { return l.Coupons(ctx, s.MySQL, after, couponsPerPage) }
	err = c.each(ctx, all, func(couponID uint64) {
		v, err := l.Check(ctx, s.MySQL, couponID)
		if err != nil {
			report.Unchecked = append(report.Unchecked, fmt.Sprintf("coupon %d: %s", couponID, err))
			classes = append(classes, classOf(err))
			return
		}
		report.Coupons = append(report.Coupons, v)
		report.Total.add(v)
		bar.Add(v.Name, 1)
	})
	bar.End()
	if err == nil {
		err = l.Doors(ctx, s.MySQL, report.Coupons, func(ctx context.Context) error {
			if settle.Wait(ctx, windowTimeout) != nil {
				return settle.ToldToStop(ctx)
			}
			return nil
		})
	}
	if err == nil && len(c.Coupon) == 0 {
		report.Strays, err = l.Strays(ctx, s.MySQL)
	}
	if len(c.Coupon) == 0 {
		p.pushFindings(c.PushGateway, report, err == nil && len(report.Unchecked) == 0)
	}
	if err != nil {
		return err
	}
	if report.violations() > 0 {
		report.Violated = true
		classes = append(classes, coupon.Invariant)
	}

	switch {
	case len(report.Coupons)+len(report.Strays) == 0 && len(report.Unchecked) > 0: // only errors
	case c.Output == "json":
		err = output.JSON(p.stdout, report)
	default:
		p.printVerdicts(report)
	}
	for _, unchecked := range report.Unchecked {
		fmt.Fprintln(p.stderr, "settle:", unchecked)
	}
	if slices.Contains(classes, coupon.Infrastructure) {
		fmt.Fprintln(p.stderr, p.sprintf(text.AdviseRunAgain))
	}
	return errors.Join(err, worst(classes))
}

// violations counts the findings that are no warnings.
func (r verifyReport) violations() (found int) {
	count := func(findings []ledger.Finding) {
		for _, f := range findings {
			if !f.Warning {
				found++
			}
		}
	}
	for _, v := range r.Coupons {
		count(v.Findings)
	}
	count(r.Strays)
	return found
}

// pushFindings sends the result of a check of every coupon to a gateway. An incomplete check sends violations, but neither their
// absence nor a success.
func (p *program) pushFindings(gateway string, r verifyReport, sawAll bool) {
	violations := r.violations()
	if !sawAll && violations == 0 {
		return
	}
	findings := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "jajeong_verify_findings", Help: "Violated invariants of coupons in the last check of every coupon.",
	})
	findings.Set(float64(violations))
	metrics := []prometheus.Collector{findings}
	if sawAll {
		success := prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "jajeong_verify_last_success_timestamp_seconds", Help: "Time of the last check that reached every coupon, whatever its result.",
		})
		success.SetToCurrentTime()
		metrics = append(metrics, success)
	}
	ops.NewPusher(gateway, ops.VerifyJob, p.logger, metrics...).Push()
}

// each visits the coupons that were asked for, or all, page by page.
func (c *verifyCmd) each(ctx context.Context, all func(after uint64) ([]uint64, error), visit func(couponID uint64)) error {
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
				return settle.ToldToStop(ctx)
			}
			visit(id)
			after = id
		}
		if len(c.Coupon) > 0 || len(ids) < couponsPerPage {
			return nil
		}
	}
}

// auditHead describes the end of a coupon's audit chain.
func (p *program) auditHead(couponID uint64, head audit.Head) string {
	return p.sprintf(text.AuditChainEnds, couponID, head.Seq, head.Hash)
}

func (p *program) printVerdicts(r verifyReport) {
	t := output.Table(p.stdout)
	t.AppendHeader(p.header(text.ColumnCoupon, text.ColumnName, text.ColumnSeats, text.ColumnCoupons,
		text.ColumnAccepted, text.ColumnWaiting, text.ColumnUnderReview, text.ColumnIssued, text.ColumnOtherOutcomes,
		text.ColumnGap, text.ColumnVerdict))
	broken := map[int]int{}
	for _, f := range r.Strays {
		broken[f.Invariant]++
	}
	for _, v := range r.Coupons {
		verdict := p.sprintf(text.VerdictOK)
		if len(v.Findings) > 0 {
			verdict = p.sprintf(text.Warning)
		}
		if v.Violated() {
			verdict = output.Bad(p.stdout, p.sprintf(text.VerdictViolated))
		}
		a := v.Account
		t.AppendRow(table.Row{v.Coupon, output.Printable(v.Name), v.TotalQuantity, v.Coupons, a.Accepted, a.Waiting, a.UnderReview, a.Issued, a.Outcomes, v.Gap, verdict})
		for _, f := range v.Findings {
			if !f.Warning {
				broken[f.Invariant]++
			}
		}
	}
	t.Render()

	t = output.Table(p.stdout)
	t.AppendHeader(p.header(text.Message{}, text.ColumnInvariant, text.ColumnHolds, text.ColumnFigures))
	for _, i := range invariants {
		holds := p.sprintf(text.Yes)
		if broken[i.number] > 0 {
			holds = output.Bad(p.stdout, p.sprintf(text.No))
		}
		t.AppendRow(table.Row{i.number, i.name.In(p.language), holds, i.figure(p, r.Total)})
	}
	t.Render()

	for _, v := range r.Coupons {
		if v.AuditHead.Seq > 0 {
			fmt.Fprintln(p.stdout, p.auditHead(v.Coupon, v.AuditHead))
		}
		for _, f := range v.Findings {
			fmt.Fprintln(p.stdout, p.sprintf(text.CouponDetail, v.Coupon, p.finding(f)))
		}
	}
	for _, f := range r.Strays {
		fmt.Fprintln(p.stdout, p.sprintf(text.StrayFinding, p.finding(f)))
	}
}

func (p *program) finding(f ledger.Finding) string {
	kind := text.Violated
	if f.Warning {
		kind = text.Warning
	}
	return p.sprintf(text.Finding, kind.In(p.language), f.Code, f.Invariant, output.Printable(f.Detail))
}
