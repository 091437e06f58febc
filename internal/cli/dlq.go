package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/settle"
)

type dlqCmd struct {
	List  dlqListCmd  `cmd:"" help:"Who is under review, by coupon and cause, or one by one."`
	Retry dlqRetryCmd `cmd:"" help:"Try applications under review again, and settle their coupon."`
	Drop  dlqDropCmd  `cmd:"" help:"End applications under review: they are recorded REJECTED, with the reason."`
}

// deed is what a person does to one coupon, in whose name it is kept.
type deed struct {
	Coupon uint64   `required:"" placeholder:"ID" help:"The coupon."`
	User   []string `placeholder:"USER" bytes:"" help:"Only this user, as it stands in the DLQ; may be repeated."`
	Cause  []string `placeholder:"CAUSE" help:"Only this cause, such as UNKNOWN_USER; may be repeated."`
	signed `embed:""`
	Output string `enum:"table,json" default:"table" help:"table or json. Default ${default}."`
}

// Check tells what is impossible about the flags.
func (d *deed) Check() []error {
	problems := append(d.signed.missing(words{"누가 했는지 기록에 남깁니다", "who does this is kept"}), d.signed.tooLong()...)
	if len(d.User) > 0 && len(d.Cause) > 0 {
		problems = append(problems, wrong(words{"--user와 --cause는 고르는 두 가지 방법입니다. 하나만 주세요", "--user and --cause are two ways to choose: give one"}))
	}
	return problems
}

func (d *deed) order() settle.Order {
	return settle.Order{Operator: d.Operator, Reason: d.Reason}
}

// chosen are the entries that are meant, by arrival. A user who is not there is for the settler to refuse.
func (d *deed) chosen(ctx context.Context, p *program) (chosen []history.DLQEntry, err error) {
	_, err = p.eachUnderReview(ctx, []uint64{d.Coupon}, func(r history.DLQEntry) {
		if among(d.User, r.User) && among(d.Cause, r.Cause) {
			r.Message, r.Tried = "", nil // there may be very many
			chosen = append(chosen, r)
		}
	})
	return chosen, err
}

func users(chosen []history.DLQEntry) []string {
	names := make([]string, len(chosen))
	for i, r := range chosen {
		names[i] = r.User
	}
	return names
}

type dlqRetryCmd struct {
	deed   `embed:""`
	Canary int    `placeholder:"N" help:"Try the first N first, and the rest only when all of these were settled."`
	Cutoff string `enum:"midnight,now" default:"midnight" help:"Settle what arrived before the last midnight, or now. Default ${default}."`
}

// Help is shown by --help.
func (*dlqRetryCmd) Help() string {
	return `Examples:
  settle dlq retry --coupon 42 --user 7 --operator lee --reason CS-123
  settle dlq retry --coupon 42 --cause BAD_ROW --canary 1 --operator kim --reason INC-9`
}

// Check tells what is impossible about the flags.
func (c *dlqRetryCmd) Check() []error {
	problems := c.deed.Check()
	if c.Canary < 0 {
		problems = append(problems, wrong(words{"--canary=%d: 먼저 시도할 건수를 1부터 주세요", "--canary=%d: want how many are tried first, from 1"}, c.Canary))
	}
	return problems
}

// retried is what a retry with canaries did, as programs read it.
type retried struct {
	Runs []*settle.Report `json:"runs"`
}

func (c *dlqRetryCmd) run(ctx context.Context, p *program) error {
	var done retried
	err := c.try(ctx, p, &done)
	switch {
	case c.Output != "json" || len(done.Runs) == 0:
		return err
	case c.Canary > 0:
		return errors.Join(err, printJSON(p.stdout, done))
	default:
		return errors.Join(err, printJSON(p.stdout, done.Runs[0]))
	}
}

func (c *dlqRetryCmd) try(ctx context.Context, p *program, done *retried) error {
	chosen, err := c.chosen(ctx, p)
	if err != nil {
		return err
	}
	if len(chosen) == 0 && len(c.Cause) > 0 {
		p.nothingChosen()
		return nil
	}
	canaries := min(c.Canary, len(chosen))
	if canaries > 0 && canaries < len(chosen) && len(c.User) <= len(chosen) {
		failed, err := c.retry(ctx, p, chosen[:canaries], users(chosen[:canaries]), true, done)
		if err != nil {
			return err
		}
		if rest := len(chosen) - canaries; failed > 0 {
			fmt.Fprintln(p.stderr, p.say(words{"먼저 시도한 %d건 가운데 %d건이 정산되지 않아 나머지 %d건은 시도하지 않았습니다.",
				"Of the %d that were tried first %d were not settled: the other %d were not tried."}, canaries, failed, rest))
			return exitError(exitInfrastructure) // not all of it was done, and it is safe to run again
		}
		fmt.Fprintln(p.stderr, p.say(words{"먼저 시도한 %d건이 정산되어 나머지 %d건을 시도합니다.", "The first %d were settled; the other %d are tried now."}, canaries, len(chosen)-canaries))
		if chosen, err = c.chosen(ctx, p); err != nil || len(chosen) == 0 { // another run has settled them meanwhile
			return err
		}
		_, err = c.retry(ctx, p, chosen, users(chosen), false, done)
		return err
	}
	members := c.User // whoever of them is not there is refused
	if len(c.Cause) > 0 {
		members = users(chosen)
	}
	_, err = c.retry(ctx, p, chosen, members, false, done)
	return err
}

// retry settles with these members released, tells who of the chosen stays under review, and returns how many.
func (c *dlqRetryCmd) retry(ctx context.Context, p *program, chosen []history.DLQEntry, members []string, canaries bool, done *retried) (stay int, err error) {
	order := c.order()
	if canaries {
		order.Canaries = members
	}
	order.CutoffNow = c.Cutoff == "now"
	report, err := p.watch(ctx, func(settler *settle.Settler) (*settle.Report, error) {
		return settler.Retry(ctx, c.Coupon, order, members)
	})
	if report != nil {
		done.Runs = append(done.Runs, report)
		err = p.outcome(c.Output, report, err)
	}
	if err != nil {
		return 0, err
	}
	still, err := p.stillUnderReview(ctx, c.Coupon, chosen)
	if err != nil {
		return 0, err
	}
	seats := report.Coupons[0].SeatsLeft
	var late, again, seatless, kept int
	var wait time.Time
	for _, r := range chosen {
		now, stays := still[r.User]
		switch {
		case !stays:
		case now.Attempts > r.Attempts:
			again++
		case !r.Arrival.Before(report.Cutoff):
			late, wait = late+1, r.Arrival
		case seats == 0:
			seatless++
		case canaries:
			kept++
		default:
			again++
		}
	}
	if again > 0 {
		fmt.Fprintln(p.stderr, p.say(words{"%d건은 다시 실패하여 검토 중으로 남습니다. settle dlq list --coupon %d --list로 사유를 보세요.",
			"%d failed again and stay under review: see why with settle dlq list --coupon %d --list."}, again, c.Coupon))
	}
	if seatless > 0 {
		fmt.Fprintln(p.stderr, p.say(words{"남은 수량이 없습니다. %d건은 검토 중으로 남습니다. 그때까지 수량이 생기지 않으면, 그 가운데 마지막으로 받은 사람보다 늦게 신청한 건은 다음 정산이 NOT_SELECTED로 기록합니다.",
			"No seat is left: %d stay under review. Unless a seat is free by then, the next run records NOT_SELECTED whoever of them applied after the last who got one."}, seatless))
	}
	if kept > 0 {
		fmt.Fprintln(p.stderr, p.say(words{"남은 수량은 먼저 신청한 건의 몫입니다. %d건은 차례가 오지 않아 시도하지 않았고 검토 중으로 남습니다.",
			"The seats that are left are kept for whoever applied before: %d were not tried, since it was not their turn, and stay under review."}, kept))
	}
	if late > 0 {
		fmt.Fprintln(p.stderr, p.say(words{"%d건은 이번 정산의 기준 시각보다 늦게 신청하여 시도하지 않았고, 검토 중으로 남아 다음 야간 실행의 대상이 됩니다. 지금 시도하려면 --cutoff now (마지막 신청 %s).",
			"%d applied after the cutoff and were not tried: they stay under review, in line for the next nightly run; --cutoff now tries them now (the last applied %s)."}, late, inZone(wait, p.zone)))
	}
	if not := report.Coupons[0].NotSelected; not > 0 {
		fmt.Fprintln(p.stderr, p.say(words{"남은 수량이 없어 마지막으로 받은 사람보다 늦게 신청한 %d건은 NOT_SELECTED로 기록되었습니다. 수량이 늘면 다시 신청한 순서대로 정산 대상이 됩니다.",
			"No seat is left: %d who applied after the last who got one are recorded NOT_SELECTED. They are in line again, by arrival, when seats are added."}, not))
	}
	return len(still), nil
}

func (p *program) nothingChosen() {
	fmt.Fprintln(p.stderr, p.say(words{"그런 사유로 검토 중인 신청이 없습니다.", "Nothing is under review for such a cause."}))
}

type dlqDropCmd struct {
	deed `embed:""`
	Yes  bool `help:"Do not ask, also on a terminal; --cause without a terminal needs it."`
}

// Help is shown by --help.
func (*dlqDropCmd) Help() string {
	return `Example:
  settle dlq drop --coupon 42 --user 7 --operator kim --reason "CS-123: duplicate account"`
}

// Check tells what is impossible about the flags.
func (c *dlqDropCmd) Check() (problems []error) {
	if len(c.User)+len(c.Cause) == 0 {
		problems = append(problems, wrong(words{"--user나 --cause가 없습니다. 누구의 신청을 끝낼지 주세요", "--user or --cause is missing: whose application is to end"}))
	}
	return append(problems, c.deed.Check()...)
}

func (c *dlqDropCmd) run(ctx context.Context, p *program) error {
	members := c.User
	if len(c.Cause) > 0 {
		chosen, err := c.chosen(ctx, p)
		if err != nil {
			return err
		}
		if len(chosen) == 0 {
			p.nothingChosen()
			return nil
		}
		if may, err := c.mayDrop(ctx, p, len(chosen)); err != nil || !may {
			return err
		}
		members = users(chosen)
	}
	return p.settle(ctx, c.Output, func(settler *settle.Settler) (report *settle.Report, err error) {
		if report, err = settler.Drop(ctx, c.Coupon, c.order(), members); report != nil && report.Total.Rejected > 0 {
			fmt.Fprintln(p.stderr, p.say(words{"쿠폰 %[2]d의 신청 %[1]d건을 REJECTED로 기록했습니다", "%[1]d applications of coupon %[2]d recorded REJECTED"}, report.Total.Rejected, c.Coupon))
		}
		return report, err
	})
}

// mayDrop asks before more are ended than were named.
func (c *dlqDropCmd) mayDrop(ctx context.Context, p *program, n int) (may bool, err error) {
	if c.Yes {
		return true, nil
	}
	if !p.isTerminal() {
		return false, wrong(words{"신청 %d건이 끝납니다. 확인했으면 --yes를 주세요. 아무것도 바꾸지 않았습니다.", "this would end %d applications: give --yes if you mean it. Nothing was changed."}, n)
	}
	return p.ask(ctx, p.say(words{"쿠폰 %[2]d의 신청 %[1]d건을 REJECTED로 끝낼까요?", "End %[1]d applications of coupon %[2]d as REJECTED?"}, n, c.Coupon))
}
