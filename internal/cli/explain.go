package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	shop "github.com/jajeong/jajeong/internal/users"
)

type explainCmd struct {
	Coupon uint64 `required:"" placeholder:"ID" help:"The coupon."`
	User   uint64 `required:"" placeholder:"USER" help:"The user."`
	Output string `enum:"table,json" default:"table" help:"table or json. Default ${default}."`
}

// Help is shown by --help.
func (*explainCmd) Help() string {
	return `Examples:
  settle explain --coupon 42 --user 7
  settle explain --coupon 42 --user 7 --lang ko`
}

func (c *explainCmd) run(ctx context.Context, p *program) error {
	s, err := p.open()
	if err != nil {
		return err
	}
	defer s.Close()
	explainer := &explain.Explainer{DB: s.MySQL, Redis: s.store, Users: s.users, Now: p.now,
		SettlesAt: func(arrival time.Time) time.Time { return calendar.NextCutoff(arrival, p.zone) }}
	x, err := explainer.Explain(ctx, c.Coupon, c.User)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		err = printJSON(p.stdout, x)
	} else {
		p.printExplanation(x)
	}
	var classes []coupon.Class
	for _, unread := range x.Unread {
		fmt.Fprintln(p.stderr, "settle:", p.language.tell(unread))
		if advice := advice(unread); advice != "" {
			fmt.Fprintln(p.stderr, p.language.advise(advice))
		}
		classes = append(classes, classOf(unread))
	}
	return errors.Join(err, worst(classes))
}

// printExplanation is the timeline, and the one sentence to read out.
func (p *program) printExplanation(x *explain.Explanation) {
	f := &x.Facts
	fmt.Fprint(p.stdout, p.say(words{"쿠폰 %d", "coupon %d"}, f.CouponID))
	if c := f.Coupon; c != nil {
		fmt.Fprintf(p.stdout, " %s, %s", printable(c.Name), p.say(words{"수량 %d장 중 %d장 발급", "%[2]d of %[1]d seats taken"}, c.Seats, c.Issued))
	}
	fmt.Fprintln(p.stdout, p.say(words{"; 사용자 %d", "; user %d"}, f.UserID)+p.userStatus(f))
	if f.Gap > 0 {
		fmt.Fprintln(p.stdout, p.say(words{"접수된 신청 %[2]d건 중 %[1]d건을 찾을 수 없습니다", "%d of %d accepted applications cannot be found"}, f.Gap, f.Account.Accepted))
	}
	if f.Coupon != nil && f.Coupon.WrittenOff > 0 {
		fmt.Fprintln(p.stdout, p.say(words{"유실 인정: %d건", "applications written off as lost: %d"}, f.Coupon.WrittenOff))
	}
	t := newTable(p.stdout)
	t.AppendHeader(p.header(words{"시각", "when"}, words{"일어난 일", "what happened"}))
	for _, e := range x.Events {
		t.AppendRow(table.Row{inZone(e.At, p.zone), p.event(f, e)})
	}
	t.Render()
	if x.LeftOut > 0 {
		fmt.Fprintln(p.stdout, p.say(words{"오래된 일 %d건 이상을 생략했습니다", "left out: %d or more, the oldest"}, x.LeftOut))
	}
	for _, away := range []struct {
		why  string
		what words
	}{
		{f.NoRedis, words{"Redis에 물어보지 못했습니다: 대기와 검토 중인 신청", "Redis could not be asked: who waits and who is under review"}},
		{f.NoMySQL, words{"MySQL에 물어보지 못했습니다: 정산 결과와 운영 기록", "MySQL could not be asked: outcomes, runs and what operators did"}},
		{f.NoAccount, words{"유실된 신청이 있는지 세어 보지 못했습니다", "whether applications were lost could not be counted"}},
	} {
		if away.why != "" {
			fmt.Fprintln(p.stdout, p.say(away.what))
		}
	}
	fmt.Fprintf(p.stdout, "\n%s\n", p.sentence(f, x.Conclusion))
}

func (p *program) userStatus(f *explain.Facts) string {
	switch {
	case f.Coupon == nil:
		return ""
	case !f.UserKnown:
		return p.say(words{" (없는 사용자)", " (unknown)"})
	case f.UserStatus == "" && f.UserActive: // there is no status column
		return ""
	default:
		return " (" + shop.Shown(f.UserStatus) + ")"
	}
}

// plainEvents need no more to be said.
var plainEvents = map[explain.EventKind]words{
	explain.EventOpens:      {"신청 시작", "applications open"},
	explain.EventCloses:     {"신청 마감", "applications close"},
	explain.EventLastSeated: {"쿠폰을 받은 마지막 신청", "the last application that got a seat"},
	explain.EventFinalised:  {"쿠폰 종결: 정기 정산 대상이 아님", "coupon finalised: nightly runs pass it by"},
	explain.EventSettles:    {"정산 예정 시각", "to be settled"},
	explain.EventExpires:    {"쿠폰 사용 기한", "the coupon expires"},
	explain.EventApplied:    {"신청", "applied"},
}

// event tells one event; what is still to come says so.
func (p *program) event(f *explain.Facts, e explain.Event) (text string) {
	switch e.Kind {
	case explain.EventApplied:
		text = p.appliedEvent(f, e)
	case explain.EventLastSeated:
		text = p.say(plainEvents[e.Kind]) + p.say(words{" (도착 %d)", " (arrival %d)"}, e.Arrival)
	case explain.EventRun:
		text = p.runEvent(e)
	case explain.EventAttempt:
		text = p.say(words{"처리 실패: %s", "attempt failed: %s"}, p.why(e.Reason)) + p.byRun(e.Run) + p.behind(e.Detail)
	case explain.EventReview:
		text = p.reviewEvent(e)
	case explain.EventAudit:
		text = p.say(words{"운영 기록, %s: %s", "%s: %s"}, printable(e.Actor), p.action(e.Action)) + p.behind(e.Reason) + p.behind(e.Detail)
	case explain.EventIssued:
		text = p.say(words{"수동 발급", "given by hand"})
		if e.Run > 0 {
			text = p.say(words{"발급: %d번 자리", "issued: seat %d"}, f.UserCoupon.Seat) + p.byRun(e.Run)
		}
		if f.UserCoupon.Status != "ISSUED" {
			text += p.say(words{"; 지금 상태 %s", "; now %s"}, f.UserCoupon.Status)
		}
	case explain.EventNotSelected, explain.EventRejected, explain.EventAlready:
		text = p.say(map[explain.EventKind]words{
			explain.EventNotSelected: {"미선정", "not selected"},
			explain.EventRejected:    {"거절", "rejected"},
			explain.EventAlready:     {"이미 보유", "held the coupon already"},
		}[e.Kind]) + p.byRun(e.Run) + p.behind(e.Reason)
	default:
		text = p.say(plainEvents[e.Kind])
	}
	if e.At.After(f.At) {
		text += p.say(words{" (예정)", " (to come)"})
	}
	return text
}

func (p *program) behind(detail string) string {
	if detail == "" {
		return ""
	}
	return "; " + printable(detail)
}

// byRun is nothing where a hand did it, or a run that MySQL could not record.
func (p *program) byRun(run uint64) string {
	if run == 0 {
		return ""
	}
	return p.say(words{", 실행 %d", ", by run %d"}, run)
}

func (p *program) appliedEvent(f *explain.Facts, e explain.Event) string {
	text := p.say(plainEvents[e.Kind]) + p.say(words{" (도착 %d)", " (arrival %d)"}, e.Arrival)
	for _, a := range f.Applications {
		if a.Arrival != e.Arrival {
			continue
		}
		if a.Order > 0 {
			text += p.say(words{", 전체 신청 중 %s", ", number %s of all"}, p.nth(a.Order))
		}
		switch {
		case a.Place == "":
		case a.Outcome != "":
			text += p.say(words{"; Redis 정리 전", "; still stands in Redis, to be cleaned up"})
		case a.Place == explain.InQueue:
			text += p.say(words{"; 대기 %[2]d명 중 %[1]s", "; position %s of %d waiting"}, p.nth(a.Position), f.Door.Waiting)
		default:
			text += p.say(words{"; 검토 중", "; under review"})
		}
	}
	return text
}

func (p *program) runEvent(e explain.Event) string {
	r := e.Settled
	who := string(r.Trigger)
	if r.Operator != "" {
		who += ", " + printable(r.Operator)
	}
	if r.Reason != "" {
		who += ", " + printable(r.Reason)
	}
	text := p.say(words{"정산 실행 %d (%s), 정산 기준 시각 %s, %s", "run %d (%s), cutoff %s, %s"}, r.ID, who, inZone(r.Cutoff, p.zone), r.Status)
	if !r.Settled {
		return text + p.say(words{": 이 쿠폰은 바뀐 것 없음", ": nothing of this coupon"})
	}
	return text + p.say(words{": 대상 %d, 발급 %d, 미선정 %d", ": in line %d, issued %d, not selected %d"}, r.Read, r.Issued, r.NotSelected)
}

func (p *program) reviewEvent(e explain.Event) string {
	r := e.Review
	next := p.say(words{"담당자 결정 대기", "until a person decides"})
	if r.Retryable && r.Refused > 0 {
		next = p.say(words{"밤마다 한 번 다시 시도", "tried again once a night"})
	} else if r.Retryable {
		next = p.say(words{"정산 때마다 다시 시도", "every run tries again"})
	}
	return p.say(words{"검토 대상: %s, %d번 시도, %s", "under review: %s, attempts %d, %s"},
		p.why(r.Cause), r.Attempts, next) + p.byRun(r.Run) + p.behind(r.Message)
}

// why is a cause in words, with its code.
func (p *program) why(cause string) string {
	if w, ok := causes[coupon.Cause(cause)]; ok {
		return w.in(p.language) + " (" + cause + ")"
	}
	return cmp.Or(printable(cause), "?")
}
