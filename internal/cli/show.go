package cli

import (
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/history"
)

type showCmd struct {
	Run    uint64 `arg:"" help:"The run, as settle runs lists it."`
	Output string `enum:"table,json" default:"table" help:"table or json. Default ${default}."`
}

// shownRun is what programs read.
type shownRun struct {
	history.Run
	Details []history.RunCoupon `json:"details"` // coupons that it changed or could not settle
}

// Help is shown by --help.
func (*showCmd) Help() string {
	return `Examples:
  settle show 17
  settle show 17 --output json`
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
		return printJSON(p.stdout, shownRun{run, coupons})
	}
	p.printRun(run, coupons)
	return nil
}

func (p *program) printRun(r history.Run, coupons []history.RunCoupon) {
	fmt.Fprintln(p.stdout, p.say(words{"실행 %d (%s) %s, 정산 기준 시각 %s", "run %d (%s) %s, cutoff %s"}, r.ID, r.Trigger, r.Status, inZone(r.Cutoff, p.zone)))
	if r.Operator != "" || r.Reason != "" {
		fmt.Fprintln(p.stdout, p.say(words{"  담당자 %s, 사유: %s", "  by %s: %s"}, printable(r.Operator), printable(r.Reason)))
	}
	switch {
	case r.FinishedAt != nil:
		fmt.Fprintln(p.stdout, p.say(words{"  시작 %s, 끝 %s (%s)", "  from %s to %s (%s)"}, inZone(r.StartedAt, p.zone), inZone(*r.FinishedAt, p.zone), took(r.Millis)))
	case r.Status == "ABANDONED":
		fmt.Fprintln(p.stdout, p.say(words{"  시작 %s, 마지막 신호 %s: 끝을 알리지 못하고 죽었습니다. 다음 실행이 바로잡습니다",
			"  from %s, last heartbeat %s: it died and could not say how it ended; the next run mends that"}, inZone(r.StartedAt, p.zone), inZone(r.HeartbeatAt, p.zone)))
	default:
		fmt.Fprintln(p.stdout, p.say(words{"  시작 %s, 마지막 신호 %s", "  from %s, last heartbeat %s"}, inZone(r.StartedAt, p.zone), inZone(r.HeartbeatAt, p.zone)))
	}
	if len(coupons) == 0 {
		fmt.Fprintln(p.stdout, p.say(words{"바꾼 쿠폰이 없습니다", "it changed no coupon"}))
		return
	}
	t := newTable(p.stdout)
	t.AppendHeader(p.header(
		words{"쿠폰", "coupon"}, words{"이름", "name"}, words{"결과", "status"}, words{"줄 선 사람", "in line"}, words{"발급", "issued"},
		words{"DLQ로", "to DLQ"}, words{"이미 보유", "held before"}, words{"미선정", "not selected"}, words{"갭", "gap"}, words{"시간", "time"}))
	for _, c := range coupons {
		t.AppendRow(table.Row{c.Coupon, printable(c.Name), c.Status, c.Read, c.Issued, c.UnderReview, c.AlreadyIssued, c.NotSelected, c.Gap, took(c.Millis)})
	}
	t.AppendFooter(table.Row{p.say(words{"합계", "total"}), p.say(words{"쿠폰 %d개", "%d coupons"}, len(coupons)), "", "", r.Issued, r.UnderReview, r.AlreadyIssued, r.NotSelected, "", took(r.Millis)})
	t.Render()
	for _, c := range coupons {
		p.printRunCoupon(c)
	}
}

// printRunCoupon tells what has no room in a table.
func (p *program) printRunCoupon(c history.RunCoupon) {
	if c.WinnersDigest != "" {
		fmt.Fprintln(p.stdout, p.say(words{"쿠폰 %d: 발급받은 사람의 신청 시각 %s ~ %s", "coupon %d: issued to arrivals from %s to %s"},
			c.Coupon, p.arrival(c.FirstArrival), p.arrival(c.LastArrival)))
		fmt.Fprintf(p.stdout, "  %s\n", c.WinnersDigest)
	}
	p.printRejected(c.Coupon, c.Rejected)
	if c.Recorded && c.CleanedAt == nil {
		fmt.Fprintln(p.stdout, p.say(words{"쿠폰 %d: Redis 정리가 남아 있습니다. 다음 실행이 합니다", "coupon %d: Redis is still to be cleaned up; the next run does that"}, c.Coupon))
	}
	if c.Error != "" {
		fmt.Fprintln(p.stdout, p.say(words{"쿠폰 %d: %s", "coupon %d: %s"}, c.Coupon, printable(c.Error)))
	}
}
