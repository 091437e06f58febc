package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/settle"
)

type runCmd struct {
	Date         string   `xor:"cutoff" placeholder:"DATE" help:"Settle the applications of this business date, such as 2026-11-20."`
	Cutoff       string   `xor:"cutoff" placeholder:"TIME" help:"Settle what arrived before this instant: RFC 3339 such as 2026-11-21T00:00:00+09:00, or now."`
	From         string   `xor:"cutoff" placeholder:"DATE" help:"Settle the missed nights from this business date, one run each, in order."`
	To           string   `placeholder:"DATE" help:"… to this one."`
	Coupon       []uint64 `placeholder:"ID" help:"Settle only this coupon; may be repeated."`
	DryRun       bool     `help:"Show what would be done, by the same code, and do nothing."`
	List         bool     `help:"With --dry-run: name everybody who would be issued or rejected."`
	ExpectDigest string   `placeholder:"DIGEST" help:"Issue nothing, and exit with 3, unless the winners have the digest that --dry-run showed; with one --coupon and a --date or --cutoff."`
	AcceptGap    bool     `help:"Release coupons that are held because accepted applications were lost."`
	signed       `embed:""`
	PushGateway  string `name:"push-gateway" env:"PUSH_GATEWAY" placeholder:"URL" help:"Push the metrics of the run to this Pushgateway, every 10 s and at its end; one that is away is a warning."`
	Yes          bool   `help:"Do not ask, also on a terminal."`
	Output       string `enum:"table,json" default:"table" help:"table or json. Default ${default}."`
}

// manual is whether a person asks for something special.
func (c *runCmd) manual() bool {
	return c.Date != "" || c.Cutoff != "" || c.From != "" || len(c.Coupon) > 0 || c.AcceptGap
}

// Check tells what is impossible about the flags.
func (c *runCmd) Check() (problems []error) {
	if c.manual() && !c.DryRun {
		problems = c.signed.missing(words{"--date, --cutoff, --from, --coupon, --accept-gap을 준 실행은 사람의 실행이며 이름을 기록에 남깁니다",
			"a run with --date, --cutoff, --from, --coupon or --accept-gap is a person's, whose name is kept"})
	}
	if !c.manual() && c.Operator+c.Reason != "" {
		problems = append(problems, wrong(words{"--operator와 --reason은 사람의 실행에 남깁니다. 야간 실행이 아니라면 --date, --cutoff, --from, --coupon, --accept-gap 중 하나를 주고, 야간 실행이라면 빼세요",
			"--operator and --reason are kept of a person's run: give --date, --cutoff, --from, --coupon or --accept-gap, too; or leave them out for the nightly run"}))
	}
	problems = append(problems, c.signed.tooLong()...)
	if _, err := c.cutoff(time.UTC); err != nil {
		problems = append(problems, err)
	}
	if _, err := c.nights(time.UTC); err != nil {
		problems = append(problems, err)
	}
	if err := ops.CheckGateway(c.PushGateway); err != nil {
		problems = append(problems, err)
	}
	if c.List && !c.DryRun {
		problems = append(problems, wrong(words{"--list는 발급될 사람을 보여 줍니다. --dry-run도 주세요", "--list names who would be issued: give --dry-run, too"}))
	}
	if c.ExpectDigest != "" && !digestForm.MatchString(c.ExpectDigest) {
		problems = append(problems, wrong(words{"--expect-digest=%q은(는) 다이제스트가 아닙니다. --dry-run이 보여 주는 sha256:과 64자리(0-9a-f)를 주세요",
			"--expect-digest=%q is no digest: want sha256: and 64 digits of 0-9a-f, as --dry-run shows it"}, c.ExpectDigest))
	}
	if c.ExpectDigest != "" && (len(c.Coupon) != 1 || c.Date == "" && (c.Cutoff == "" || c.Cutoff == "now")) {
		problems = append(problems, wrong(words{"--expect-digest는 --coupon 하나와 정해진 --date나 --cutoff에 대한 것입니다. 함께 주세요",
			"--expect-digest is about one --coupon and an explicit --date or --cutoff: give them, too"}))
	}
	return problems
}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// mostNights bounds a backfill: more is a slip of the hand.
const mostNights = 366

// nights are the cutoffs of a backfill, in order.
func (c *runCmd) nights(zone *time.Location) (cutoffs []time.Time, err error) {
	switch {
	case c.From == "" && c.To == "":
		return nil, nil
	case c.From == "" || c.To == "":
		return nil, wrong(words{"--from과 --to는 함께 줍니다. 첫 영업일과 마지막 영업일입니다", "--from and --to belong together: the first and the last business date"})
	case c.DryRun:
		return nil, wrong(words{"--dry-run은 하룻밤만 보여 줍니다. --from과 --to 대신 --date를 주세요", "--dry-run shows one night: give --date instead of --from and --to"})
	}
	first, err := calendar.DateCutoff(c.From, zone)
	if err != nil {
		return nil, wrongDate("--from", c.From)
	}
	last, err := calendar.DateCutoff(c.To, zone)
	if err != nil {
		return nil, wrongDate("--to", c.To)
	}
	if err := sane(first); err != nil {
		return nil, err
	}
	for night := first; !night.After(last); night = calendar.NextCutoff(night, zone) {
		if cutoffs = append(cutoffs, night); len(cutoffs) > mostNights {
			return nil, wrong(words{"--from=%s --to=%s는 %d일이 넘습니다. 나누어 실행하세요", "--from=%s --to=%s are more than %d nights: backfill them in parts"}, c.From, c.To, mostNights)
		}
	}
	if len(cutoffs) == 0 {
		return nil, wrong(words{"--from=%s이 --to=%s보다 늦습니다", "--from=%s lies after --to=%s"}, c.From, c.To)
	}
	return cutoffs, nil
}

// cutoff is the instant that was asked for; zero for now and for the default.
func (c *runCmd) cutoff(zone *time.Location) (time.Time, error) {
	switch {
	case c.Date != "":
		cutoff, err := calendar.DateCutoff(c.Date, zone)
		if err != nil {
			return time.Time{}, wrongDate("--date", c.Date)
		}
		return cutoff, sane(cutoff)
	case c.Cutoff == "" || c.Cutoff == "now":
		return time.Time{}, nil
	default:
		cutoff, err := time.Parse(time.RFC3339Nano, c.Cutoff)
		if err != nil {
			return time.Time{}, wrong(words{"--cutoff=%q은(는) now도 아니고 2026-11-21T00:00:00+09:00 같은 시각도 아닙니다", "--cutoff=%q is neither now nor an instant such as 2026-11-21T00:00:00+09:00"}, c.Cutoff)
		}
		return cutoff, sane(cutoff)
	}
}

// sane refuses instants before there were any: nobody means them.
func sane(cutoff time.Time) error {
	if cutoff.Before(time.Unix(0, 0)) {
		return wrong(words{"정산 기준 시각 %s은(는) 1970년보다 이릅니다", "the cutoff %s lies before 1970"}, cutoff.Format(time.RFC3339))
	}
	return nil
}

// Help is shown by --help.
func (c *runCmd) Help() string {
	return `Running again is always safe: what is settled stays as it is.

Examples:
  settle run                                              the nightly run: everything before the last midnight
  settle run --push-gateway http://pushgateway:9091       the same, telling Prometheus
  settle run --dry-run --date 2026-11-20                  what would be done, and by which winners' digest
  settle run --coupon 42 --date 2026-11-20 --operator kim --reason TICKET-123
  settle run --coupon 42 --date 2026-11-20 --expect-digest sha256:… --operator kim --reason TICKET-123
  settle run --from 2026-11-18 --to 2026-11-20 --operator kim --reason "missed nights"
  settle run --coupon 42 --cutoff now --accept-gap --operator kim --reason "Redis lost 3 applications"`
}

func (c *runCmd) run(ctx context.Context, p *program) error {
	order := settle.Order{
		Trigger: coupon.Cron, CutoffNow: c.Cutoff == "now", Coupons: c.Coupon,
		AcceptGap: c.AcceptGap, Operator: c.Operator, Reason: c.Reason, List: c.List,
	}
	if c.manual() {
		order.Trigger = coupon.Manual
	}
	if c.ExpectDigest != "" {
		order.Expect = map[uint64]string{c.Coupon[0]: c.ExpectDigest}
	}
	order.Cutoff, _ = c.cutoff(p.zone) // Check has read them before
	nights, _ := c.nights(p.zone)
	if c.DryRun {
		return p.settle(ctx, c.Output, func(settler *settle.Settler) (*settle.Report, error) { return settler.Preview(ctx, order) })
	}
	if len(nights) > 0 {
		if err := c.over(ctx, p, nights[len(nights)-1]); err != nil {
			return err
		}
		order.Cutoff = nights[len(nights)-1]
	}
	if c.manual() && !c.Yes && p.isTerminal() {
		if may, err := p.askFirst(ctx, &order, len(nights)); err != nil || !may {
			return err
		}
	}
	if len(nights) > 0 {
		return c.backfill(ctx, p, order, nights)
	}
	return p.settle(ctx, c.Output, c.once(ctx, p, order))
}

// once is a run whose metrics are pushed to the gateway.
func (c *runCmd) once(ctx context.Context, p *program, order settle.Order) func(*settle.Settler) (*settle.Report, error) {
	return func(settler *settle.Settler) (*settle.Report, error) {
		defer ops.NewPusher(c.PushGateway, ops.RunJob, p.logger, settler.Metrics).Grouping("trigger", string(order.Trigger)).Start()()
		return settler.RunOnce(ctx, order)
	}
}

// over refuses nights of which the last is not over, by the Redis clock: else the others would be settled before that shows.
func (c *runCmd) over(ctx context.Context, p *program, last time.Time) error {
	s, err := p.open()
	if err != nil {
		return err
	}
	defer s.Close()
	now, err := s.store.Now(ctx)
	if err != nil || !last.After(now) {
		return err
	}
	return wrong(words{"--to=%s의 밤이 아직 끝나지 않았습니다. %s에 끝나고, Redis 시계로 지금은 %s입니다. 아무것도 바꾸지 않았습니다",
		"--to=%s is not over: it ends at %s, and it is %s by the Redis clock. Nothing was changed"}, c.To, inZone(last, p.zone), inZone(now, p.zone))
}

// backfill settles night after night, each by a run of its own. A coupon that failed stops no other night.
func (c *runCmd) backfill(ctx context.Context, p *program, order settle.Order, nights []time.Time) (err error) {
	var done struct {
		Nights []*settle.Report `json:"nights"`
	}
	done.Nights = []*settle.Report{}
	codes := map[int]bool{}
	for _, order.Cutoff = range nights {
		if ctx.Err() != nil {
			err = settle.ToldToStop(ctx)
			break
		}
		var report *settle.Report
		if report, err = p.watch(ctx, c.once(ctx, p, order)); report != nil {
			done.Nights = append(done.Nights, report)
			var told exitError
			errors.As(p.outcome(c.Output, report, err), &told)
			codes[int(told)] = true
		}
		if err != nil {
			break // of the run itself: it could not begin, or was told to stop
		}
	}
	if err != nil {
		codes[codeOf(classOf(err))] = true
	}
	if c.Output == "json" && len(done.Nights) > 0 {
		err = errors.Join(err, printJSON(p.stdout, done))
	}
	return errors.Join(err, worstCode(codes))
}

// settle has a settler do something and prints what became of it.
func (p *program) settle(ctx context.Context, output string, do func(*settle.Settler) (*settle.Report, error)) error {
	report, err := p.watch(ctx, do)
	if report == nil {
		return err
	}
	if output == "json" {
		err = errors.Join(err, printJSON(p.stdout, report))
	}
	err = p.outcome(output, report, err)
	if output != "json" && len(report.Coupons) == 0 && report.Status == coupon.RunSucceeded {
		p.tellLater(ctx, report.Cutoff)
	}
	return err
}

// watch has a settler do something and shows how far it has come.
func (p *program) watch(ctx context.Context, do func(*settle.Settler) (*settle.Report, error)) (*settle.Report, error) {
	settler, err := p.openSettler(ctx)
	if err != nil {
		return nil, err
	}
	defer settler.Close()
	bar := newProgress(p.stderr, p.say(words{"정산 중", "settling"}))
	settler.Progress = func(of coupon.Coupon, applications int) { bar.add(of.Name, applications) }
	report, err := do(settler.Settler)
	bar.end()
	return report, err
}

// outcome prints a report, unless it goes to a program, with what to do about it, and returns the exit code it asks for.
func (p *program) outcome(output string, report *settle.Report, err error) error {
	if output != "json" {
		p.printReport(report)
	}
	classes := report.Classes()
	if err != nil {
		classes = append(classes, classOf(err))
	} else if output != "json" {
		for _, advice := range report.Advice() {
			fmt.Fprintln(p.stderr, p.language.advise(advice))
		}
	}
	return errors.Join(err, worst(classes))
}

// status stands out where a coupon was not settled.
func (p *program) status(s coupon.ResultStatus) string {
	switch s {
	case coupon.HeldBack, coupon.Busy, coupon.Failed:
		return p.bad(s)
	default:
		return string(s)
	}
}

func (p *program) printReport(r *settle.Report) {
	var title string
	switch {
	case r.DryRun:
		title = p.say(words{"미리 보기: 아무것도 바꾸지 않았습니다", "preview: nothing was done"})
	case r.Run == 0:
		title = p.say(words{"기록되지 않은 실행", "run not recorded"})
	default:
		title = p.say(words{"실행 %d", "run %d"}, r.Run)
	}
	fmt.Fprintln(p.stdout, p.say(words{"%s (%s), 정산 기준 시각 %s", "%s (%s), cutoff %s"}, title, r.Trigger, inZone(r.Cutoff, p.zone)))
	if len(r.Coupons) == 0 && r.Status == coupon.RunSucceeded {
		fmt.Fprintln(p.stdout, p.say(words{"정산할 쿠폰이 없습니다", "no coupon is due"}))
		return
	}
	t := newTable(p.stdout)
	t.AppendHeader(p.header(
		words{"쿠폰", "coupon"}, words{"이름", "name"}, words{"결과", "status"}, words{"줄 선 사람", "in line"}, words{"발급", "issued"},
		words{"DLQ로", "to DLQ"}, words{"이미 보유", "held before"}, words{"미선정", "not selected"}, words{"남은 수량", "seats left"}, words{"시간", "time"}))
	for _, c := range r.Coupons {
		t.AppendRow(table.Row{c.Coupon, printable(c.Name), p.status(c.Status), c.Read, c.Issued, c.UnderReview, c.AlreadyIssued, c.NotSelected, c.SeatsLeft, millis(c.Millis)})
	}
	t.AppendFooter(table.Row{p.say(words{"합계", "total"}), p.say(words{"쿠폰 %d개", "%d coupons"}, r.Total.Coupons), r.Status, r.Total.Read, r.Total.Issued,
		r.Total.UnderReview, r.Total.AlreadyIssued, r.Total.NotSelected, "", millis(r.Total.Millis)})
	t.Render()
	for _, c := range r.Coupons {
		if c.Earlier != nil {
			fmt.Fprintln(p.stdout, p.say(words{"쿠폰 %d: 바뀐 것이 없습니다. 실행 %d에서 %s에 이미 정산했습니다", "coupon %d: nothing has changed; run %d settled it at %s"},
				c.Coupon, c.Earlier.Run, inZone(c.Earlier.At, p.zone)))
		}
		p.printRejected(c.Coupon, int64(c.Rejected))
		p.printPreview(c)
		p.printWrittenOff(c, r.DryRun)
		if c.Error != "" {
			fmt.Fprintln(p.stderr, p.say(words{"settle: 쿠폰 %d: %s", "settle: coupon %d: %s"}, c.Coupon, p.language.tell(c.Err())))
		}
	}
}

// printRejected prints how many applications of a coupon were ended for good.
func (p *program) printRejected(couponID coupon.CouponID, n int64) {
	if n > 0 {
		fmt.Fprintln(p.stdout, p.say(words{"쿠폰 %d: 거절로 종료된 신청 %d건", "coupon %d: applications ended as rejected: %d"}, couponID, n))
	}
}

// printWrittenOff tells what --accept-gap comes to: these promises are broken for good.
func (p *program) printWrittenOff(c settle.Result, dryRun bool) {
	if c.Gap <= 0 || c.Error != "" {
		return
	}
	said := words{"쿠폰 %d: 유실 인정: 찾을 수 없는 접수 %d건", "coupon %d: accepted applications written off as lost: %d"}
	if dryRun {
		said = words{"쿠폰 %d: 유실 인정 예정: 찾을 수 없는 접수 %d건", "coupon %d: accepted applications that would be written off as lost: %d"}
	}
	fmt.Fprintln(p.stdout, p.say(said, c.Coupon, c.Gap))
}
