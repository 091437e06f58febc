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
	"github.com/jajeong/jajeong/internal/settle"
)

type verifyCmd struct {
	Coupon      []uint64 `placeholder:"ID" help:"Check only this coupon; may be repeated."`
	Output      string   `enum:"table,json" default:"table" help:"table or json. Default ${default}."`
	PushGateway string   `name:"push-gateway" env:"PUSH_GATEWAY" placeholder:"URL" help:"Tell this Pushgateway what a check of every coupon found; one that is away is a warning."`
}

// Check tells what is impossible about the flags.
func (c *verifyCmd) Check() []error {
	if err := ops.CheckGateway(c.PushGateway); err != nil {
		return []error{err}
	}
	return nil
}

// Help is shown by --help.
func (*verifyCmd) Help() string {
	return `Examples:
  settle verify                                           every coupon; exits 3 when an invariant is violated
  settle verify --push-gateway http://pushgateway:9091    the same, telling Prometheus
  settle verify --coupon 42 --output json`
}

// couponsAtOnce bounds how many coupon ids are read at once.
const couponsAtOnce = 1000

// doorPatience is how long a door may go by another window than its row: two refreshes of every pod, and what they take.
const doorPatience = 12 * time.Second

// invariants are DESIGN.md §2's, as far as stored data can show them.
var invariants = []struct {
	number int
	name   words
	figure func(p *program, t verifyTotal) string
}{
	{1, words{"수량보다 많이 발급하지 않는다", "never more than N"}, func(p *program, t verifyTotal) string {
		return p.say(words{"쿠폰 %d장, 수량 %d", "%d coupons for %d seats"}, t.Coupons, t.Seats)
	}},
	{2, words{"두 번 발급하지 않는다", "never twice"}, func(p *program, t verifyTotal) string {
		return p.say(words{"쿠폰 %d장, 다른 결과 %d건", "%d coupons, %d other outcomes"}, t.Coupons, t.Account.Outcomes)
	}},
	{3, words{"먼저 온 순서대로", "first come"}, func(p *program, t verifyTotal) string {
		return p.say(words{"도착 순서대로 발급 %d건, 대기 %d건", "%d issued in order of arrival, %d waiting"}, t.Account.Issued, t.Account.Waiting)
	}},
	{4, words{"약속을 어기지 않는다", "no broken promise"}, func(p *program, t verifyTotal) string {
		a, again := t.Account, ""
		if a.AskedAgain > 0 {
			again = p.say(words{", 페일오버 뒤 다시 접수 %d", ", accepted again after a failover %d"}, a.AskedAgain)
		}
		return p.say(words{"접수 %d, 대기 %d, 검토 중 %d, 발급 %d, 다른 결과 %d, 두 번 셈 %d, 손실 처리 %d%s: 갭 %d",
			"accepted %d, waiting %d, under review %d, issued %d, other outcomes %d, counted twice %d, written off %d%s: gap %d"},
			a.Accepted, a.Waiting, a.UnderReview, a.Issued, a.Outcomes, a.Twice, a.WrittenOff, again, t.Gap)
	}},
	{5, words{"하나의 시계", "one clock"}, func(p *program, t verifyTotal) string {
		return p.say(words{"줄 %d개", "%d lines"}, t.Checked)
	}},
	{6, words{"데이터베이스가 진실이다", "the database is the truth"}, func(p *program, t verifyTotal) string {
		return p.say(words{"쿠폰 %d개의 정산을 다시 셈, 감사 기록 %d건", "every settlement of %d coupons counted again, %d audit events"}, t.Checked, t.AuditEvents)
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
	Unchecked []string          `json:"unchecked,omitempty"` // what failed, a line per coupon
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
	var classes []coupon.Class // of what could not be checked
	bar := newProgress(p.stderr, p.say(words{"확인 중", "checking"}))
	all := func(after uint64) ([]uint64, error) { return l.Coupons(ctx, s.MySQL, after, couponsAtOnce) }
	err = c.each(ctx, all, func(couponID uint64) {
		v, err := l.Check(ctx, s.MySQL, couponID)
		if err != nil {
			report.Unchecked = append(report.Unchecked, fmt.Sprintf("coupon %d: %s", couponID, err))
			classes = append(classes, classOf(err))
			return
		}
		report.Coupons = append(report.Coupons, v)
		report.Total.add(v)
		bar.add(v.Name, 1)
	})
	bar.end()
	if err == nil {
		err = l.Doors(ctx, s.MySQL, report.Coupons, func(ctx context.Context) error {
			if settle.Wait(ctx, doorPatience) != nil {
				return settle.ToldToStop(ctx)
			}
			return nil
		})
	}
	if err == nil && len(c.Coupon) == 0 {
		report.Strays, err = l.Strays(ctx, s.MySQL)
	}
	if len(c.Coupon) == 0 {
		p.pushFound(c.PushGateway, report, err == nil && len(report.Unchecked) == 0)
	}
	if err != nil {
		return err
	}
	if report.violations() > 0 {
		report.Violated = true
		classes = append(classes, coupon.Invariant)
	}

	switch {
	case len(report.Coupons)+len(report.Strays) == 0 && len(report.Unchecked) > 0: // only failures to tell
	case c.Output == "json":
		err = printJSON(p.stdout, report)
	default:
		p.printVerdicts(report)
	}
	for _, unchecked := range report.Unchecked {
		fmt.Fprintln(p.stderr, "settle:", unchecked)
	}
	if slices.Contains(classes, coupon.Infrastructure) {
		fmt.Fprintln(p.stderr, p.language.advise(settle.SafeToRunAgain))
	}
	return errors.Join(err, worst(classes))
}

// violations are what a person must look at, without warnings.
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

// pushFound pushes the result of a check of every coupon. A check that did not reach all of them pushes violations only: it
// cannot report that there are none, nor that it was complete.
func (p *program) pushFound(gateway string, r verifyReport, sawAll bool) {
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
		if len(c.Coupon) > 0 || len(ids) < couponsAtOnce {
			return nil
		}
	}
}

// auditHead names the end of a coupon's audit chain.
func (p *program) auditHead(couponID uint64, head audit.Head) string {
	return p.say(words{"쿠폰 %d: 감사 체인은 %d번 기록에서 끝납니다, %s", "coupon %d: the audit chain ends with event %d, %s"}, couponID, head.Seq, head.Hash)
}

func (p *program) printVerdicts(r verifyReport) {
	t := newTable(p.stdout)
	t.AppendHeader(p.header(words{"쿠폰", "coupon"}, words{"이름", "name"}, words{"수량", "seats"}, words{"쿠폰 수", "coupons"},
		words{"접수", "accepted"}, words{"대기", "waiting"}, words{"DLQ", "DLQ"}, words{"발급", "issued"}, words{"다른 결과", "other outcomes"},
		words{"갭", "gap"}, words{"판정", "verdict"}))
	broken := map[int]int{}
	for _, f := range r.Strays {
		broken[f.Invariant]++
	}
	for _, v := range r.Coupons {
		verdict := p.say(words{"정상", "ok"})
		if len(v.Findings) > 0 {
			verdict = p.say(words{"경고", "warning"})
		}
		if v.Violated() {
			verdict = p.bad(p.say(words{"위반", "VIOLATED"}))
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
	t.AppendHeader(p.header(words{}, words{"불변식", "invariant"}, words{"지켜짐", "holds"}, words{"수치", "figures"}))
	for _, i := range invariants {
		holds := p.say(words{"예", "yes"})
		if broken[i.number] > 0 {
			holds = p.bad(p.say(words{"아니요", "NO"}))
		}
		t.AppendRow(table.Row{i.number, i.name.in(p.language), holds, i.figure(p, r.Total)})
	}
	t.Render()

	for _, v := range r.Coupons {
		if v.AuditHead.Seq > 0 {
			fmt.Fprintln(p.stdout, p.auditHead(v.Coupon, v.AuditHead))
		}
		for _, f := range v.Findings {
			fmt.Fprintln(p.stdout, p.say(words{"쿠폰 %d: %s", "coupon %d: %s"}, v.Coupon, p.finding(f)))
		}
	}
	for _, f := range r.Strays {
		fmt.Fprintln(p.stdout, p.say(words{"쿠폰이 없는 기록: %s", "no coupon: %s"}, p.finding(f)))
	}
}

func (p *program) finding(f ledger.Finding) string {
	kind := words{"위반", "violated"}
	if f.Warning {
		kind = words{"경고", "warning"}
	}
	return p.say(words{"%s %s (불변식 %d): %s", "%s %s (invariant %d): %s"}, kind.in(p.language), f.Code, f.Invariant, printable(f.Detail))
}
