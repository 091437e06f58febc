package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/text"
)

type dlqCmd struct {
	List  dlqListCmd  `cmd:""`
	Retry dlqRetryCmd `cmd:""`
	Drop  dlqDropCmd  `cmd:""`
}

// reviewFlags choose applications under review of one coupon, and name the operator.
type reviewFlags struct {
	Coupon        uint64   `required:"" placeholder:"ID"`
	User          []string `placeholder:"USER" bytes:""`
	Cause         []string `placeholder:"CAUSE"`
	operatorFlags `embed:""`
	Output        string `enum:"table,json" default:"table"`
}

// Validate reports what is impossible about the flags.
func (d *reviewFlags) Validate() error {
	problems := []error{d.operatorFlags.check(text.ReviewIsRecorded)}
	if len(d.User) > 0 && len(d.Cause) > 0 {
		problems = append(problems, text.UsageErrorf(text.UserOrCause))
	}
	return errors.Join(problems...)
}

func (d *reviewFlags) order() settle.Order {
	return settle.Order{Operator: d.Operator, Reason: d.Reason}
}

// chosen returns the entries that the flags choose, by arrival. The settler refuses users without an entry.
func (d *reviewFlags) chosen(ctx context.Context, p *program) (chosen []history.DLQEntry, err error) {
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
	reviewFlags `embed:""`
	Canary      int    `placeholder:"N"`
	Cutoff      string `enum:"midnight,now" default:"midnight"`
}

// Validate reports what is impossible about the flags.
func (c *dlqRetryCmd) Validate() error {
	problems := []error{c.reviewFlags.Validate()}
	if c.Canary < 0 {
		problems = append(problems, text.UsageErrorf(text.WrongCanary, c.Canary))
	}
	return errors.Join(problems...)
}

// retried is the JSON of a retry with canaries.
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
		return errors.Join(err, output.JSON(p.stdout, done))
	default:
		return errors.Join(err, output.JSON(p.stdout, done.Runs[0]))
	}
}

func (c *dlqRetryCmd) try(ctx context.Context, p *program, done *retried) error {
	chosen, err := c.chosen(ctx, p)
	if err != nil {
		return err
	}
	if len(chosen) == 0 && len(c.Cause) > 0 {
		p.printNoneChosen()
		return nil
	}
	canaries := min(c.Canary, len(chosen))
	if canaries > 0 && canaries < len(chosen) && len(c.User) <= len(chosen) {
		failed, err := c.retry(ctx, p, chosen[:canaries], users(chosen[:canaries]), true, done)
		if err != nil {
			return err
		}
		if rest := len(chosen) - canaries; failed > 0 {
			fmt.Fprintln(p.stderr, p.sprintf(text.CanariesFailed, canaries, failed, rest))
			return exitError(exitInfrastructure) // not all of it was done, and it is safe to run again
		}
		fmt.Fprintln(p.stderr, p.sprintf(text.CanariesSettled, canaries, len(chosen)-canaries))
		if chosen, err = c.chosen(ctx, p); err != nil || len(chosen) == 0 { // another run has settled them meanwhile
			return err
		}
		_, err = c.retry(ctx, p, chosen, users(chosen), false, done)
		return err
	}
	members := c.User // the settler refuses users without an entry
	if len(c.Cause) > 0 {
		members = users(chosen)
	}
	_, err = c.retry(ctx, p, chosen, members, false, done)
	return err
}

// retry releases these members and settles. It prints why some of the chosen stay under review, and returns their number.
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
		fmt.Fprintln(p.stderr, p.sprintf(text.FailedAgain, again, c.Coupon))
	}
	if seatless > 0 {
		fmt.Fprintln(p.stderr, p.sprintf(text.StayWithoutSeat, seatless))
	}
	if kept > 0 {
		fmt.Fprintln(p.stderr, p.sprintf(text.StayBehindEarlier, kept))
	}
	if late > 0 {
		fmt.Fprintln(p.stderr, p.sprintf(text.ArrivedAfterCutoff, late, output.InZone(wait, p.zone)))
	}
	if not := report.Coupons[0].NotSelected; not > 0 {
		fmt.Fprintln(p.stderr, p.sprintf(text.RecordedNotSelected, not))
	}
	return len(still), nil
}

func (p *program) printNoneChosen() {
	fmt.Fprintln(p.stderr, p.sprintf(text.NoSuchCause))
}

type dlqDropCmd struct {
	reviewFlags `embed:""`
	Yes         bool
}

// Validate reports what is impossible about the flags.
func (c *dlqDropCmd) Validate() error {
	var problems []error
	if len(c.User)+len(c.Cause) == 0 {
		problems = append(problems, text.UsageErrorf(text.UserOrCauseMissing))
	}
	return errors.Join(append(problems, c.reviewFlags.Validate())...)
}

func (c *dlqDropCmd) run(ctx context.Context, p *program) error {
	members := c.User
	if len(c.Cause) > 0 {
		chosen, err := c.chosen(ctx, p)
		if err != nil {
			return err
		}
		if len(chosen) == 0 {
			p.printNoneChosen()
			return nil
		}
		if may, err := c.mayDrop(ctx, p, len(chosen)); err != nil || !may {
			return err
		}
		members = users(chosen)
	}
	return p.settle(ctx, c.Output, func(settler *settle.Settler) (report *settle.Report, err error) {
		if report, err = settler.Drop(ctx, c.Coupon, c.order(), members); report != nil && report.Total.Rejected > 0 {
			fmt.Fprintln(p.stderr, p.sprintf(text.Dropped, report.Total.Rejected, c.Coupon))
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
		return false, text.UsageErrorf(text.DropNeedsYes, n)
	}
	return p.ask(ctx, p.sprintf(text.AskDrop, n, c.Coupon))
}
