package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/schedule"
)

type couponCmd struct {
	List     couponListCmd    `cmd:"" help:"Coupons with their seats, windows and lines."`
	Show     couponShowCmd    `cmd:"" help:"Everything about one coupon."`
	Create   couponCreateCmd  `cmd:"" help:"Make a coupon; prints its id."`
	Close    couponCloseCmd   `cmd:"" help:"End a coupon's window now; who was accepted before stands."`
	Extend   couponExtendCmd  `cmd:"" help:"Let a coupon's window end later; a closed one opens again."`
	Pause    couponPauseCmd   `cmd:"" help:"Turn newcomers away until resume."`
	Resume   couponResumeCmd  `cmd:"" help:"Let newcomers in again."`
	Recount  couponRecountCmd `cmd:"" help:"Set issued_count to the coupons there are: runs hold a coupon while the two differ."`
	AddSeats couponSeatsCmd   `cmd:"" name:"add-seats" help:"Give a coupon more seats: to the line by arrival, in which whoever was not selected stands again."`
}

// refusals are couponadmin.Refusal in words, with what it says of its Args; for a new coupon, id 0, the id is left out.
var refusals = map[couponadmin.Refusal]words{
	couponadmin.RefusedFinalised: {"쿠폰 %v은(는) %v에 종결되었습니다. 모든 신청의 결과가 정해졌고 Redis에서 지워졌습니다. NOT_SELECTED인 사람에게 더 주려면 add-seats, 새로 신청을 받으려면 create를 쓰세요.",
		"coupon %v has been finalised since %v: everybody has an outcome, and it is cleared from Redis. To give those NOT_SELECTED more seats use add-seats, to take new applications use create."},
	couponadmin.RefusedSwept: {"쿠폰 %v은(는) 이미 종결되어 Redis에서 지워졌고, 수량이 늘어 다시 정산을 기다릴 뿐입니다. 거절된 사람이 다시 신청할 수 있게 되므로 열 수 없습니다. 새로 신청을 받으려면 create를 쓰세요.",
		"coupon %v was finalised and cleared from Redis, and waits only for its new seats to be given: open again, it would let in whoever was rejected. To take new applications use create."},
	couponadmin.RefusedForgotten: {"쿠폰 %v을(를) 받았거나 거절된 사람을 Redis가 잊었습니다. 다시 열면 그 사람들의 신청을 받게 되므로 열 수 없습니다. settle run으로 정산을 끝내고, 새로 신청을 받으려면 create를 쓰세요.",
		"Redis has forgotten who was given coupon %v, or rejected for good: opened again it would take their applications. Finish it with settle run; to take new applications use create."},
	couponadmin.RefusedUnfinished: {"쿠폰 %v의 정산이 Redis에 아직 다 전해지지 않았습니다. settle run으로 정산을 끝낸 뒤에 extend를 다시 하세요.",
		"a settlement of coupon %v is not finished, and Redis has not heard of all of it: end it with settle run, then extend."},
	couponadmin.RefusedNotOpen: {"쿠폰 %v은(는) %v에 열립니다. 닫으면 열리기 전에 닫히는 쿠폰이 됩니다. 열리지 않게 하려면 pause를 쓰세요.",
		"coupon %v opens only at %v: closed now, it would end before it opens. To keep it shut use pause."},
	couponadmin.RefusedEndsBeforeItOpens: {"쿠폰 %v의 기간이 열리기 전에 끝납니다: 마감 %v, 시작 %v.", "coupon %v would end before it opens: it would close at %v and opens at %v."},
	couponadmin.RefusedPast:              {"쿠폰 %v의 마감 %v은(는) 이미 지났습니다. Redis 시계로 지금은 %v입니다.", "coupon %v would close at %v, which is over: it is %v by the Redis clock."},
	couponadmin.RefusedFar:               {"마감 %v은(는) 너무 멉니다. %v까지 가능합니다.", "closing at %v is too far off: up to %v is possible."},
	couponadmin.RefusedShorter:           {"쿠폰 %v의 마감 %v은(는) 지금 마감인 %v보다 이릅니다. extend는 늦추기만 합니다. 지금 끝내려면 close를 쓰세요.", "coupon %v would close at %v, earlier than at %v as now: extend only makes it later. To end it now use close."},
	couponadmin.RefusedFewerThanIssued:   {"쿠폰 %v은(는) 이미 %v장 발급되었습니다. 수량 %v은(는) 그보다 적습니다.", "coupon %v has %v issued already: %v seats would be fewer."},
	couponadmin.RefusedMoreThanSeats: {"쿠폰 %v은(는) %v장이 있고 수량은 %v입니다. 먼저 add-seats로 수량을 늘리거나, 잘못 넣은 행을 지우세요.",
		"there are %[2]v coupons of coupon %[1]v for %[3]v seats. Add seats first with add-seats, or take away the rows that should not be there."},
	couponadmin.RefusedSeats: {"수량 %v은(는) 안 됩니다. 1부터 %v까지 가능합니다.", "it cannot have %v seats: want 1 to %v."},
}

// tellRefusal puts a refused change into words; other errors it leaves as they are.
func (p *program) tellRefusal(err error) error {
	var refused *couponadmin.Refused
	if !errors.As(err, &refused) {
		return err
	}
	args := make([]any, len(refused.Args))
	for i, arg := range refused.Args {
		switch arg := arg.(type) {
		case time.Time:
			args[i] = inZone(arg, p.zone)
		case uint64:
			if args[i] = any(arg); arg == 0 {
				args[i] = p.say(words{"(새 쿠폰)", "(the new one)"})
			}
		default:
			args[i] = arg
		}
	}
	fmt.Fprintln(p.stderr, "settle:", p.say(refusals[refused.Why], args...))
	fmt.Fprintln(p.stderr, p.say(words{"아무것도 바꾸지 않았습니다.", "Nothing was changed."}))
	return exitError(exitUse)
}

// change is what all verbs that change a coupon have in common.
type change struct {
	ID     uint64 `arg:"" name:"id" help:"The coupon."`
	signed `embed:""`
	Output string `enum:"table,json" default:"table" help:"table or json. Default ${default}."`
}

// Check tells what is impossible about the flags.
func (c *change) Check() []error {
	return append(c.missing(words{"누가 쿠폰을 바꿨는지 기록에 남깁니다", "who changes a coupon is kept"}), c.tooLong()...)
}

// atDesk has the desk make a change.
func (p *program) atDesk(ctx context.Context, person signed, make func(*couponadmin.Admin) (*couponadmin.Change, error)) (*couponadmin.Change, error) {
	s, err := p.openWriting(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	admin, err := couponadmin.New(couponadmin.Config{DB: mysqltx.New(s.MySQL), Clock: s.store, Windows: s.store, Now: p.now,
		Operator: person.Operator, Reason: person.Reason})
	if err != nil {
		return nil, err
	}
	made, err := make(admin)
	return made, p.tellRefusal(err)
}

// changed is a change as programs read it.
type changed struct {
	Coupon      uint64    `json:"coupon"`
	Changed     bool      `json:"changed"`
	Seats       int       `json:"seats"`
	Issued      int       `json:"issued"`
	OpensAt     time.Time `json:"opensAt"`
	ClosesAt    time.Time `json:"closesAt"`
	Paused      bool      `json:"paused"`
	Finalised   bool      `json:"finalised"`
	NotSelected int       `json:"notSelected"` // who is next when there are free seats
	DoorTold    bool      `json:"doorTold"`    // false: the catalog tells it within 5 s
	SoldOut     *bool     `json:"soldOut"`     // what the door tells newcomers; null: not known
}

// do makes a change and says what became of it; told has words for one that was made and one that was so already.
func (c *change) do(ctx context.Context, p *program, told, already words, make func(*couponadmin.Admin) (*couponadmin.Change, error)) (*couponadmin.Change, error) {
	made, err := p.atDesk(ctx, c.signed, make)
	if err != nil {
		return nil, err
	}
	if c.Output == "json" {
		err = printJSON(p.stdout, changed{
			Coupon: made.After.ID, Changed: made.Changed, Seats: made.After.TotalQuantity, Issued: made.After.IssuedCount, OpensAt: made.After.OpensAt,
			ClosesAt: made.After.ClosesAt, Paused: made.After.Paused(), Finalised: !made.After.FinalisedAt.IsZero(), NotSelected: made.NotSelected,
			DoorTold: made.PublishErr == nil, SoldOut: soldOut(made),
		})
	} else {
		switch {
		case !made.Changed:
			told = already
		case made.PublishErr != nil:
			told = words{"쿠폰 %d %s: 변경을 기록했습니다.", "coupon %d %s: the change is recorded."}
		}
		fmt.Fprintln(p.stdout, p.say(told, made.After.ID, printable(made.After.Name)))
	}
	if made.PublishErr != nil {
		fmt.Fprintln(p.stderr, p.say(words{"Redis가 이대로 신청을 받고 있는지 확인하지 못했습니다: %v\n" +
			"apply-api가 MySQL과 Redis에 닿으면 5초마다 하는 갱신 때 알립니다. 그때까지 Redis는 전에 알던 기준으로 신청을 받을 수 있습니다.",
			"Whether Redis goes by this could not be made sure of: %v\n" +
				"apply-api tells it with its refresh, every 5 s, once it reaches MySQL and Redis. Until then Redis may take applications by what it knew before."}, made.PublishErr))
	}
	return made, err
}

func soldOut(made *couponadmin.Change) *bool {
	if made.PublishErr != nil || !made.After.FinalisedAt.IsZero() { // the door was not asked
		return nil
	}
	return &made.SoldOut
}

// newcomers says what they are told instead of being let in; empty where they are.
func (p *program) newcomers(made *couponadmin.Change) string {
	is := made.After
	switch {
	case is.Paused():
		return p.say(words{"멈춰 있어 새 신청은 PAUSED입니다.", "It is paused: newcomers are told PAUSED."})
	case !is.ClosesAt.After(made.At):
		return p.say(words{"신청 기간이 %s에 끝나 새 신청은 CLOSED입니다.", "It closed at %s: newcomers are told CLOSED."}, inZone(is.ClosesAt, p.zone))
	case is.OpensAt.After(made.At):
		return p.say(words{"신청은 %s에 시작됩니다.", "It opens at %s."}, inZone(is.OpensAt, p.zone))
	case made.SoldOut && is.TotalQuantity == is.IssuedCount:
		return p.say(words{"남은 수량이 없어 새 신청은 SOLD_OUT입니다.", "Every seat is taken: newcomers are told SOLD_OUT."})
	case made.SoldOut:
		return p.say(words{"정산 실행이 끝날 때까지 새 신청은 SOLD_OUT입니다.\n지금 받으려면: settle run --coupon %d --cutoff now --operator … --reason …",
			"It was sold out: newcomers are told SOLD_OUT until a run has ended.\nTo let them in now: settle run --coupon %d --cutoff now --operator … --reason …"}, is.ID)
	default:
		return ""
	}
}

func (c *change) said(p *program, text words, args ...any) {
	if c.Output != "json" {
		fmt.Fprintln(p.stdout, p.say(text, args...))
	}
}

type couponCloseCmd struct {
	change `embed:""`
}

func (c *couponCloseCmd) run(ctx context.Context, p *program) error {
	made, err := c.do(ctx, p, words{"쿠폰 %d %s: 마감했습니다. 지금부터 새 신청은 CLOSED입니다.", "coupon %d %s is closed: from now on newcomers are told CLOSED."},
		words{"쿠폰 %d %s: 이미 마감되어 있습니다. 아무것도 바꾸지 않았습니다.", "coupon %d %s is closed already: nothing was changed."},
		func(a *couponadmin.Admin) (*couponadmin.Change, error) { return a.Close(ctx, c.ID) })
	if err == nil && made.Changed {
		c.said(p, words{"마감 시각은 %s(이전: %s). 전에 접수된 신청의 정산에는 영향이 없습니다.", "Its window ends at %s (before: %s). That changes nothing about how applications received before are settled."},
			inZone(made.After.ClosesAt, p.zone), inZone(made.Before.ClosesAt, p.zone))
	}
	return err
}

type couponExtendCmd struct {
	change `embed:""`
	Closes string `required:"" placeholder:"TIME" help:"When it closes instead: \"2026-11-20 14:00\" in SETTLE_TIME_ZONE, or RFC 3339."`
}

// Check tells what is impossible about the flags.
func (c *couponExtendCmd) Check() (problems []error) {
	if _, err := instant("--closes", c.Closes, time.UTC); err != nil {
		problems = append(problems, err)
	}
	return append(problems, c.change.Check()...)
}

func (c *couponExtendCmd) run(ctx context.Context, p *program) error {
	closes, _ := instant("--closes", c.Closes, p.zone) // Check has read it before
	made, err := c.do(ctx, p, words{"쿠폰 %d %s: 기간을 늘렸습니다.", "coupon %d %s is extended."},
		words{"쿠폰 %d %s: 이미 그때 마감됩니다. 아무것도 바꾸지 않았습니다.", "coupon %d %s closes then already: nothing was changed."},
		func(a *couponadmin.Admin) (*couponadmin.Change, error) { return a.Extend(ctx, c.ID, closes) })
	if err != nil || !made.Changed {
		return err
	}
	c.said(p, words{"마감 시각은 %s(이전: %s).", "It closes at %s (before: %s)."}, inZone(made.After.ClosesAt, p.zone), inZone(made.Before.ClosesAt, p.zone))
	if told := p.newcomers(made); made.PublishErr != nil {
		return nil
	} else if told != "" {
		c.said(p, words{"%s", "%s"}, told)
	} else if !made.Before.ClosesAt.After(made.At) {
		c.said(p, words{"마감되어 있던 쿠폰이 다시 열렸습니다. 새 신청은 지금까지의 모든 신청보다 뒤에 섭니다.", "It was closed and is open again; newcomers stand behind everybody who applied before."})
	}
	return nil
}

type couponPauseCmd struct {
	change `embed:""`
}

func (c *couponPauseCmd) run(ctx context.Context, p *program) error {
	_, err := c.do(ctx, p, words{"쿠폰 %d %s: 멈췄습니다. 지금부터 새 신청은 PAUSED입니다. 전에 접수된 신청의 정산에는 영향이 없습니다.", "coupon %d %s is paused: from now on newcomers are told PAUSED. That changes nothing about how applications received before are settled."},
		words{"쿠폰 %d %s: 이미 멈춰 있습니다. 아무것도 바꾸지 않았습니다.", "coupon %d %s is paused already: nothing was changed."},
		func(a *couponadmin.Admin) (*couponadmin.Change, error) { return a.Pause(ctx, c.ID) })
	return err
}

type couponResumeCmd struct {
	change `embed:""`
}

func (c *couponResumeCmd) run(ctx context.Context, p *program) error {
	made, err := c.do(ctx, p, words{"쿠폰 %d %s: 멈춤을 풀었습니다.", "coupon %d %s is not paused any more."},
		words{"쿠폰 %d %s: 멈춰 있지 않습니다. 아무것도 바꾸지 않았습니다.", "coupon %d %s is not paused: nothing was changed."},
		func(a *couponadmin.Admin) (*couponadmin.Change, error) { return a.Resume(ctx, c.ID) })
	if err != nil || !made.Changed || made.PublishErr != nil {
		return err
	}
	if told := p.newcomers(made); told != "" {
		c.said(p, words{"%s", "%s"}, told)
	} else {
		c.said(p, words{"다시 신청을 받습니다.", "It takes applications again."})
	}
	return nil
}

type couponRecountCmd struct {
	change `embed:""`
}

func (c *couponRecountCmd) run(ctx context.Context, p *program) error {
	made, err := c.do(ctx, p, words{"쿠폰 %d %s: 발급 수를 다시 셌습니다.", "coupon %d %s: what was issued is counted again."},
		words{"쿠폰 %d %s: 발급 수가 맞습니다. 아무것도 바꾸지 않았습니다.", "coupon %d %s: the count is right, nothing was changed."},
		func(a *couponadmin.Admin) (*couponadmin.Change, error) { return a.Recount(ctx, c.ID) })
	if err == nil && made.Changed {
		c.said(p, words{"발급 %d(이전: %d), 수량 %d, 남은 수량 %d. 다음 실행부터 이 쿠폰을 다시 정산합니다.", "%d issued (before: %d), %d seats, %d left. Runs settle this coupon again."},
			made.After.IssuedCount, made.Before.IssuedCount, made.After.TotalQuantity, made.After.TotalQuantity-made.After.IssuedCount)
	}
	return err
}

type couponSeatsCmd struct {
	change `embed:""`
	Seats  int64 `xor:"seats" placeholder:"N" help:"So many more."`
	Total  int64 `xor:"seats" placeholder:"N" help:"So many in all; not fewer than are issued."`
}

// Check tells what is impossible about the flags.
func (c *couponSeatsCmd) Check() (problems []error) {
	if c.Seats < 0 || c.Seats > couponadmin.MaxSeats || c.Total < 0 || c.Seats+c.Total == 0 {
		problems = append(problems, wrong(words{"--seats(몇 장 더) 또는 --total(모두 몇 장)을 주세요: 1부터 %d까지", "want --seats, how many more, or --total, how many in all: 1 to %d"}, int64(couponadmin.MaxSeats)))
	}
	return append(problems, c.change.Check()...)
}

func (c *couponSeatsCmd) run(ctx context.Context, p *program) error {
	made, err := c.do(ctx, p, words{"쿠폰 %d %s: 수량을 바꿨습니다.", "coupon %d %s has other seats now."},
		words{"쿠폰 %d %s: 이미 그 수량입니다. 아무것도 바꾸지 않았습니다.", "coupon %d %s has so many seats already: nothing was changed."},
		func(a *couponadmin.Admin) (*couponadmin.Change, error) {
			if c.Total > 0 {
				return a.SetSeats(ctx, c.ID, int(c.Total))
			}
			return a.AddSeats(ctx, c.ID, int(c.Seats))
		})
	if err != nil || !made.Changed {
		return err
	}
	left := made.After.TotalQuantity - made.After.IssuedCount
	c.said(p, words{"수량 %d(이전: %d), 발급 %d, 남은 수량 %d.", "%d seats (before: %d), %d issued, %d left."}, made.After.TotalQuantity, made.Before.TotalQuantity, made.After.IssuedCount, left)
	timetable, err := schedule.Parse(p.SettleSchedule, p.zone)
	if err != nil {
		return err
	}
	night := inZone(timetable.Next(made.At), p.zone)
	switch {
	case left == 0:
	case made.NotSelected > 0:
		c.said(p, words{"NOT_SELECTED인 %d명이, 다시 시도할 검토 중인 신청과 함께 신청한 순서대로 다음 야간 실행(%s)의 대상이 됩니다. 다시 신청할 필요가 없습니다.\n지금 정산하려면: settle run --coupon %d --cutoff now --operator … --reason …",
			"The %d who are NOT_SELECTED are in line for them, by arrival among those under review that are tried again, in the next nightly run (%s); they need not apply again.\nTo settle now: settle run --coupon %d --cutoff now --operator … --reason …"}, made.NotSelected, night, c.ID)
	case !made.After.FinalisedAt.IsZero():
		c.said(p, words{"종결된 쿠폰이고 NOT_SELECTED인 사람도 없어, 받을 순서인 사람이 아무도 없습니다.", "It is finalised and nobody is NOT_SELECTED: nobody is in line for them."})
	case !made.After.ClosesAt.After(made.At):
		c.said(p, words{"마감된 쿠폰이고 NOT_SELECTED인 사람이 없습니다. 기다리거나 검토 중인 신청이 있으면 다음 야간 실행(%s)의 대상이 됩니다.",
			"It is closed, and nobody is NOT_SELECTED: whoever still waits or is under review is in line for them in the next nightly run (%s)."}, night)
	case made.PublishErr != nil: // what newcomers are told is not known
	case made.SoldOut:
		c.said(p, words{"기다리거나 검토 중인 신청이 있으면 다음 야간 실행(%s)의 대상이 됩니다. 정산 실행이 끝날 때까지 새 신청은 SOLD_OUT입니다.\n지금 받으려면: settle run --coupon %d --cutoff now --operator … --reason …",
			"Whoever still waits or is under review is in line for them in the next nightly run (%s); newcomers are told SOLD_OUT until a run has ended.\nTo let them in now: settle run --coupon %d --cutoff now --operator … --reason …"}, night, c.ID)
	default:
		c.said(p, words{"기다리는 사람과 그때까지 신청하는 사람이 신청한 순서대로 다음 야간 실행(%s)의 대상이 됩니다.", "Whoever waits, or applies before then, is in line for them by arrival in the next nightly run (%s)."}, night)
	}
	return nil
}

type couponCreateCmd struct {
	Name         string `required:"" help:"What people call it, up to 200 letters."`
	Seats        int64  `required:"" placeholder:"N" help:"How many get one."`
	Opens        string `required:"" placeholder:"TIME" help:"When applications begin: \"2026-11-20 14:00\" in SETTLE_TIME_ZONE, or RFC 3339."`
	Closes       string `required:"" placeholder:"TIME" help:"When they end, in the same form."`
	ValidityDays int64  `default:"30" placeholder:"N" help:"For how many days an issued coupon is valid. Default ${default}."`
	DiscountWon  int64  `default:"0" placeholder:"N" help:"What it is worth, in won. Default ${default}."`
	Campaign     uint64 `placeholder:"ID" help:"The campaign it is a round of."`
	signed       `embed:""`
	Output       string `enum:"table,json" default:"table" help:"table or json. Default ${default}."`
}

func (c *couponCreateCmd) coupon(zone *time.Location) (n couponadmin.NewCoupon, problems []error) {
	opens, err := instant("--opens", c.Opens, zone)
	if err != nil {
		problems = append(problems, err)
	}
	closes, err := instant("--closes", c.Closes, zone)
	if err != nil {
		problems = append(problems, err)
	}
	n = couponadmin.NewCoupon{Name: c.Name, Seats: c.Seats, Opens: opens, Closes: closes, ValidityDays: c.ValidityDays, DiscountWon: c.DiscountWon, Campaign: c.Campaign}
	return n, append(problems, n.Problems()...)
}

// Check tells what is impossible about the flags.
func (c *couponCreateCmd) Check() []error {
	_, problems := c.coupon(time.UTC)
	return append(append(problems, c.missing(words{"누가 쿠폰을 만들었는지 기록에 남깁니다", "who creates a coupon is kept"})...), c.tooLong()...)
}

func (c *couponCreateCmd) run(ctx context.Context, p *program) error {
	n, _ := c.coupon(p.zone) // Check has read it before
	made, err := p.atDesk(ctx, c.signed, func(a *couponadmin.Admin) (*couponadmin.Change, error) { return a.Create(ctx, n) })
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return json.NewEncoder(p.stdout).Encode(map[string]uint64{"coupon": made.After.ID})
	}
	fmt.Fprintln(p.stdout, made.After.ID)
	fmt.Fprintln(p.stderr, p.say(words{"쿠폰 %d %s: 수량 %d, 신청 %s부터 %s까지. 신청 API에는 늦어도 5초 안에 적용됩니다.", "coupon %d %s: %d seats, applications from %s to %s; the API knows it within 5 s."},
		made.After.ID, printable(made.After.Name), made.After.TotalQuantity, inZone(made.After.OpensAt, p.zone), inZone(made.After.ClosesAt, p.zone)))
	return nil
}

// localForms are instants as people write them, without a zone.
var localForms = []string{"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05"}

// instant reads what a person gives as a time: RFC 3339, or in the zone of the settlements.
func instant(flag, text string, zone *time.Location) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	for _, form := range localForms {
		if err != nil {
			t, err = time.ParseInLocation(form, text, zone)
		}
	}
	if err != nil || t.Year() < 1970 || t.Year() > 9998 {
		return time.Time{}, wrong(words{"%s=%q은(는) \"2026-11-20 14:00\"이나 2026-11-20T14:00:00+09:00 같은 시각이 아닙니다", "%s=%q is not a time such as \"2026-11-20 14:00\" or 2026-11-20T14:00:00+09:00"},
			flag, text)
	}
	return t.UTC().Truncate(time.Microsecond), nil
}
