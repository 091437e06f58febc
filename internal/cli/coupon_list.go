package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
)

// mostPerPage bounds one listing; each coupon is one question to Redis.
const mostPerPage = 1000

type couponListCmd struct {
	Status string `enum:",scheduled,open,paused,closed,finalised" default:"" placeholder:"STATUS" help:"Only scheduled, open, paused, closed or finalised ones."`
	After  uint64 `default:"0" placeholder:"ID" help:"Only those with a higher id: the last of the page before."`
	Limit  int    `default:"50" placeholder:"N" help:"How many, 1 to 1000. Default ${default}."`
	Output string `enum:"table,json" default:"table" help:"table or json. Default ${default}."`
}

// Check tells what is impossible about the flags.
func (c *couponListCmd) Check() []error {
	if c.Limit < 1 || c.Limit > mostPerPage {
		return []error{wrong(words{"--limit=%d: 1부터 %d까지 가능합니다", "--limit=%d: want 1 to %d"}, c.Limit, mostPerPage)}
	}
	return nil
}

// couponLine is a coupon and what Redis says of it.
type couponLine struct {
	history.Coupon
	Left    int64  `json:"left"`
	Waiting *int64 `json:"waiting"` // null: Redis could not be reached
	DLQ     *int64 `json:"dlq"`
}

var statuses = map[history.CouponStatus]words{
	history.Scheduled: {"시작 전", "scheduled"},
	history.Open:      {"신청 중", "open"},
	history.Paused:    {"멈춤", "paused"},
	history.Closed:    {"마감", "closed"},
	history.Finalised: {"종결", "finalised"},
}

// reading is what the verbs that only read work with.
type reading struct {
	*servers
	history.Reader
	failed error // of Redis, once: it is not asked again
}

func (p *program) openReading() (*reading, error) {
	s, err := p.open()
	if err != nil {
		return nil, err
	}
	return &reading{servers: s, Reader: history.Reader{DB: s.MySQL}}, nil
}

// line adds what Redis says, as long as it answers.
func (r *reading) line(ctx context.Context, c history.Coupon) (couponLine, candidates.Figures) {
	l := couponLine{Coupon: c, Left: c.Free()}
	if r.failed != nil {
		return l, candidates.Figures{}
	}
	f, err := r.store.Figures(ctx, c.ID, 0)
	if r.failed = err; err == nil {
		l.Waiting, l.DLQ = &f.Waiting, &f.DLQ
	}
	return l, f
}

// withoutRedis tells what is missing, behind what was shown, and has the exit code say so.
func (p *program) withoutRedis(failed error) error {
	if failed == nil {
		return nil
	}
	fmt.Fprintln(p.stderr, p.say(words{"settle: Redis에 닿을 수 없어 줄과 DLQ는 알 수 없습니다: %v", "settle: Redis cannot be reached, so that lines and DLQs are not known: %v"}, failed))
	return worst([]coupon.Class{classOf(failed)})
}

func (c *couponListCmd) run(ctx context.Context, p *program) error {
	r, err := p.openReading()
	if err != nil {
		return err
	}
	defer r.Close()
	coupons, err := r.List(ctx, history.CouponStatus(strings.ToUpper(c.Status)), c.After, c.Limit)
	if err != nil {
		return err
	}
	lines := make([]couponLine, len(coupons))
	for i, couponID := range coupons {
		lines[i], _ = r.line(ctx, couponID)
	}
	unknown := p.withoutRedis(r.failed)
	if c.Output == "json" {
		return errors.Join(printJSON(p.stdout, lines), unknown)
	}
	if len(lines) == 0 {
		fmt.Fprintln(p.stdout, p.say(words{"쿠폰이 없습니다", "there is no coupon"}))
		return nil
	}
	t := newTable(p.stdout)
	t.AppendHeader(p.header(words{"쿠폰", "coupon"}, words{"이름", "name"}, words{"상태", "status"}, words{"수량", "seats"}, words{"발급", "issued"}, words{"남은 수량", "left"},
		words{"시작", "opens"}, words{"마감", "closes"}, words{"대기", "waiting"}, words{"검토 중", "DLQ"}))
	for _, l := range lines {
		t.AppendRow(table.Row{l.ID, printable(l.Name), statuses[l.Status].in(p.language), l.TotalQuantity, l.IssuedCount, l.Left,
			inZone(l.OpensAt, p.zone), inZone(l.ClosesAt, p.zone), known(l.Waiting), known(l.DLQ)})
	}
	t.Render()
	if len(lines) == c.Limit {
		fmt.Fprintln(p.stdout, p.say(words{"더 있을 수 있습니다: --after %d", "there may be more: --after %d"}, lines[len(lines)-1].ID))
	}
	return unknown
}

func known(n *int64) any {
	if n == nil {
		return "?"
	}
	return *n
}

type couponShowCmd struct {
	ID     uint64 `arg:"" name:"id" help:"The coupon."`
	Output string `enum:"table,json" default:"table" help:"table or json. Default ${default}."`
}

// lastDeeds is how much of what was done to a coupon is shown.
const lastDeeds = 10

// couponShown is everything about one coupon.
type couponShown struct {
	couponLine
	Outcomes history.Outcomes     `json:"outcomes"`
	SoldOut  *bool                `json:"soldOut"` // what the door tells newcomers; null: Redis could not be reached
	Review   []history.DLQGroup   `json:"review"`
	Deeds    []history.AuditEntry `json:"deeds"`
}

func (c *couponShowCmd) run(ctx context.Context, p *program) error {
	r, err := p.openReading()
	if err != nil {
		return err
	}
	defer r.Close()
	couponID, err := r.Coupon(ctx, c.ID)
	if err != nil {
		return err
	}
	var s couponShown
	var f candidates.Figures
	s.couponLine, f = r.line(ctx, couponID)
	if r.failed == nil {
		s.SoldOut = &f.Sold
	}
	if s.Outcomes, err = r.Outcomes(ctx, c.ID); err != nil {
		return err
	}
	s.Outcomes.Accepted = max(s.Outcomes.Accepted, f.Accepted-f.Twice)
	if s.Deeds, err = r.AuditEntries(ctx, c.ID, lastDeeds); err != nil {
		return err
	}
	groups := history.DLQGroups{}
	if r.failed == nil {
		r.failed = history.EachDLQEntry(ctx, r.store, c.ID, groups.Add)
	}
	s.Review = groups.Sorted()
	unknown := p.withoutRedis(r.failed)
	if c.Output == "json" {
		return errors.Join(printJSON(p.stdout, s), unknown)
	}
	p.printCoupon(s, f.Now)
	return unknown
}

func (p *program) printCoupon(s couponShown, now time.Time) {
	t := newTable(p.stdout)
	row := func(what words, value any) { t.AppendRow(table.Row{what.in(p.language), value}) }
	row(words{"쿠폰", "coupon"}, s.ID)
	row(words{"이름", "name"}, printable(s.Name))
	status := statuses[s.Status].in(p.language)
	if s.SoldOut != nil && *s.SoldOut {
		status += p.say(words{", 신청자에게 SOLD_OUT으로 답함", ", newcomers are told SOLD_OUT"})
	}
	row(words{"상태", "status"}, status)
	row(words{"수량", "seats"}, p.say(words{"%d, 발급 %d, 남음 %d", "%d, issued %d, left %d"}, s.TotalQuantity, s.IssuedCount, s.Left))
	row(words{"신청 기간", "window"}, p.say(words{"%s부터 %s까지", "%s to %s"}, inZone(s.OpensAt, p.zone), inZone(s.ClosesAt, p.zone)))
	if s.FinalisedAt != nil {
		row(words{"종결 시각", "finalised at"}, inZone(*s.FinalisedAt, p.zone))
	}
	if s.CampaignID != nil {
		row(words{"캠페인", "campaign"}, *s.CampaignID)
	}
	row(words{"유효 기간", "valid for"}, p.say(words{"%d일", "%d days"}, s.ValidityDays))
	row(words{"할인", "discount"}, p.say(words{"%d원", "%d won"}, s.DiscountWon))
	row(words{"접수", "accepted"}, s.Outcomes.Accepted)
	row(words{"대기", "waiting"}, known(s.Waiting))
	row(words{"검토 중", "under review"}, known(s.DLQ))
	row(words{"정산으로 발급", "issued by runs"}, s.Outcomes.Issued)
	row(words{"수동 발급", "given by hand"}, s.Outcomes.ByHand)
	row(words{"미선정", "not selected"}, s.Outcomes.NotSelected)
	row(words{"거절", "rejected"}, s.Outcomes.Rejected)
	row(words{"이미 보유", "held before"}, s.Outcomes.AlreadyIssued)
	row(words{"유실 인정", "written off"}, s.Outcomes.WrittenOff)
	t.Render()
	if len(s.Review) > 0 {
		p.printGroups(s.Review, now)
	}
	if len(s.Deeds) > 0 {
		t = newTable(p.stdout)
		t.AppendHeader(p.header(words{"시각", "at"}, words{"누가", "who"}, words{"무엇을", "what"}, words{"사유", "why"}, words{"내용", "detail"}))
		for _, d := range s.Deeds {
			t.AppendRow(table.Row{inZone(d.At, p.zone), printable(d.Actor), p.action(d.Action), printable(d.Reason), printable(d.Detail)})
		}
		t.Render()
	}
}
