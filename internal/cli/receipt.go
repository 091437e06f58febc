package cli

import (
	"context"
	"io"
	"strings"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/receipt"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
	"github.com/jajeong/jajeong/internal/view"
)

type receiptCmd struct {
	Show   receiptShowCmd   `cmd:""`
	Honour receiptHonourCmd `cmd:""`
}

// maxTyped is in bytes: a receipt on standard input may have spaces and line breaks in it.
const maxTyped = 4096

type receiptArgs struct {
	Token    string `arg:"" name:"receipt"`
	KeysFile string `name:"receipt-keys-file" env:"RECEIPT_KEYS_FILE" type:"path" placeholder:"FILE" form:"-"`
	Output   string `enum:"table,json" default:"table" form:"-"`
}

// receipt reads and checks the receipt.
func (c *receiptArgs) receipt(p *program) (receipt.Receipt, error) {
	if c.KeysFile == "" {
		return receipt.Receipt{}, text.UsageErrorf(text.ReceiptKeysMissing)
	}
	keys, err := receipt.LoadToCheck(c.KeysFile)
	if err != nil {
		return receipt.Receipt{}, err
	}
	if c.Token == "-" {
		typed, err := io.ReadAll(io.LimitReader(p.Stdin, maxTyped))
		if err != nil {
			return receipt.Receipt{}, text.UsageErrorf(text.ReceiptUnread, err)
		}
		c.Token = string(typed)
	}
	c.Token = strings.Join(strings.Fields(c.Token), "")
	return keys.Check(c.Token)
}

type receiptShowCmd struct {
	receiptArgs `embed:""`
}

func (c *receiptShowCmd) run(ctx context.Context, p *program) error {
	r, err := c.receipt(p)
	if err != nil {
		return err
	}
	s, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := p.notPurged(ctx, s, r.Coupon); err != nil {
		return err
	}
	found, err := s.restorer(p.Now).Find(ctx, r.Coupon, r.User, r.Arrival)
	if err != nil {
		return err
	}
	return c.tell(ctx, p, s, r, found)
}

type receiptHonourCmd struct {
	receiptArgs   `embed:""`
	DryRun        bool `xor:"approval" form:"-"`
	operatorFlags `embed:""`
	approvalFlags `embed:""`
}

func (*receiptHonourCmd) Declare() verb.Declaration {
	return verb.Declaration{Title: text.ConsoleHonour, Right: signin.ChangePerson,
		Actions: []approval.Action{approval.Honour}}
}

func (c *receiptHonourCmd) Validate() error { return c.operatorFlags.checkUnless(c.DryRun) }

func (c *receiptHonourCmd) run(ctx context.Context, p *program) error {
	r, err := c.receipt(p)
	if err != nil {
		return err
	}
	s, err := p.openWriting(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := p.notPurged(ctx, s, r.Coupon); err != nil {
		return err
	}
	found, err := s.restorer(p.Now).Honour(ctx, journal.HonourOrder{Coupon: r.Coupon, User: r.User, Arrival: r.Arrival,
		Receipt: c.Token, Origin: p.origin(c.operatorFlags), Ticket: c.ticket(p, c.operatorFlags),
		DryRun: c.DryRun || c.Ask})
	switch {
	case err != nil:
		return p.printRefusal(err)
	case c.Ask:
		return p.requestApproval(ctx, s, found.Plan, c.pinFlags, c.operatorFlags, c.Output)
	}
	if err := c.tell(ctx, p, s, r, found); err != nil || c.DryRun {
		return err
	}
	if found.Fate != journal.PutBack && found.Fate != journal.Moved {
		p.warn(text.NothingChanged)
	}
	if found.Fate == journal.Final {
		return exitError(exitUse)
	}
	return nil
}

func (c *receiptArgs) tell(ctx context.Context, p *program, s *servers, r receipt.Receipt,
	found journal.Whereabouts) error {
	story := view.ReceiptStory{Receipt: r, Fate: found.Fate, Arrival: found.Arrival, Position: found.Position}
	if found.Plan.Action != "" {
		story.Digest = found.Plan.Digest()
	}
	story.Later = found.Fate == journal.Waiting && found.Arrival > r.Arrival
	switch found.Fate {
	case journal.UnderReview:
		queue, err := s.store.Watch(ctx, r.Coupon, 0, r.User)
		if err != nil {
			return err
		}
		if reason := queue.Users[0].Reason; reason != nil {
			story.Cause = reason.Cause
		}
	case journal.Issued:
		winner, err := history.Reader{DB: s.MySQL}.Winner(ctx, r.Coupon, r.User)
		if err != nil {
			return err
		}
		if winner == nil {
			return text.RetryableErrorf(text.ReceiptChanged)
		}
		story.Seat, story.IssuedAt = winner.Position, &winner.IssuedAt
	default:
	}
	if c.Output == "json" {
		return output.JSON(p.Stdout, story)
	}
	p.view().ReceiptStory(&story)
	return nil
}
