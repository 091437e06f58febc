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
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// maxPerPage bounds one listing; each coupon costs one call to Redis.
const maxPerPage = 1000

type couponListCmd struct {
	Status string `enum:",scheduled,open,paused,closed,finalised" default:"" placeholder:"STATUS"`
	After  uint64 `default:"0" placeholder:"ID"`
	Limit  int    `default:"50" placeholder:"N"`
	Output string `enum:"table,json" default:"table"`
}

// Validate reports what is impossible about the flags.
func (c *couponListCmd) Validate() error {
	if c.Limit < 1 || c.Limit > maxPerPage {
		return text.UsageErrorf(text.WrongLimit, c.Limit, maxPerPage)
	}
	return nil
}

// couponLine is a coupon with its counts in Redis.
type couponLine struct {
	history.Coupon
	Left    int64  `json:"left"`
	Waiting *int64 `json:"waiting"` // null: Redis could not be reached
	DLQ     *int64 `json:"dlq"`
}

// reading holds the connections of verbs that only read.
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

// line adds the counts in Redis, as long as Redis answers.
func (r *reading) line(ctx context.Context, c history.Coupon) (couponLine, candidates.Counts) {
	l := couponLine{Coupon: c, Left: c.Free()}
	if r.failed != nil {
		return l, candidates.Counts{}
	}
	f, err := r.store.Counts(ctx, c.ID, 0)
	if r.failed = err; err == nil {
		l.Waiting, l.DLQ = &f.Waiting, &f.DLQ
	}
	return l, f
}

// withoutRedis reports that Redis could not be read. It returns the exit code.
func (p *program) withoutRedis(failed error) error {
	if failed == nil {
		return nil
	}
	fmt.Fprintln(p.stderr, p.sprintf(text.QueuesUnknown, failed))
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
		return errors.Join(output.JSON(p.stdout, lines), unknown)
	}
	if len(lines) == 0 {
		fmt.Fprintln(p.stdout, p.sprintf(text.NoCoupons))
		return nil
	}
	t := output.Table(p.stdout)
	t.AppendHeader(p.header(text.ColumnCoupon, text.ColumnName, text.ColumnStatus, text.ColumnSeats, text.ColumnIssued, text.ColumnSeatsLeft,
		text.ColumnOpens, text.ColumnCloses, text.ColumnWaiting, text.ColumnUnderReview))
	for _, l := range lines {
		t.AppendRow(table.Row{l.ID, output.Printable(l.Name), output.Word(p.language, l.Status), l.TotalQuantity, l.IssuedCount, l.Left,
			output.InZone(l.OpensAt, p.zone), output.InZone(l.ClosesAt, p.zone), output.Known(l.Waiting, "?"), output.Known(l.DLQ, "?")})
	}
	t.Render()
	if len(lines) == c.Limit {
		fmt.Fprintln(p.stdout, p.sprintf(text.MoreCoupons, lines[len(lines)-1].ID))
	}
	return unknown
}

type couponShowCmd struct {
	ID     uint64 `arg:"" name:"id"`
	Output string `enum:"table,json" default:"table"`
}

// maxActions bounds the audit events that are shown.
const maxActions = 10

// couponShown is everything about one coupon.
type couponShown struct {
	couponLine
	Outcomes history.Outcomes     `json:"outcomes"`
	SoldOut  *bool                `json:"soldOut"` // whether new applications are answered SOLD_OUT; null: Redis could not be reached
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
	var f candidates.Counts
	s.couponLine, f = r.line(ctx, couponID)
	if r.failed == nil {
		s.SoldOut = &f.Sold
	}
	if s.Outcomes, err = r.Outcomes(ctx, c.ID); err != nil {
		return err
	}
	s.Outcomes.Accepted = max(s.Outcomes.Accepted, f.Accepted-f.Twice)
	if s.Deeds, err = r.AuditEntries(ctx, c.ID, maxActions); err != nil {
		return err
	}
	groups := history.DLQGroups{}
	if r.failed == nil {
		r.failed = history.EachDLQEntry(ctx, r.store, c.ID, groups.Add)
	}
	s.Review = groups.Sorted()
	unknown := p.withoutRedis(r.failed)
	if c.Output == "json" {
		return errors.Join(output.JSON(p.stdout, s), unknown)
	}
	p.printCoupon(s, f.Now)
	return unknown
}

func (p *program) printCoupon(s couponShown, now time.Time) {
	t := output.Table(p.stdout)
	row := func(what text.Message, value any) { t.AppendRow(table.Row{what.In(p.language), value}) }
	row(text.ColumnCoupon, s.ID)
	row(text.ColumnName, output.Printable(s.Name))
	status := output.Word(p.language, s.Status)
	if s.SoldOut != nil && *s.SoldOut {
		status += p.sprintf(text.AnsweredSoldOut)
	}
	row(text.ColumnStatus, status)
	row(text.ColumnSeats, p.sprintf(text.SeatsIssuedLeft, s.TotalQuantity, s.IssuedCount, s.Left))
	row(text.ColumnWindow, p.sprintf(text.FromTo, output.InZone(s.OpensAt, p.zone), output.InZone(s.ClosesAt, p.zone)))
	if s.FinalisedAt != nil {
		row(text.ColumnFinalisedAt, output.InZone(*s.FinalisedAt, p.zone))
	}
	if s.CampaignID != nil {
		row(text.ColumnCampaign, *s.CampaignID)
	}
	row(text.ColumnValidity, p.sprintf(text.Days, s.ValidityDays))
	row(text.ColumnDiscount, p.sprintf(text.Won, s.DiscountWon))
	row(text.ColumnAccepted, s.Outcomes.Accepted)
	row(text.ColumnWaiting, output.Known(s.Waiting, "?"))
	row(text.ColumnUnderReview, output.Known(s.DLQ, "?"))
	row(text.ColumnIssuedByRuns, s.Outcomes.Issued)
	row(text.ColumnIssuedByHand, s.Outcomes.ByHand)
	row(text.ColumnNotSelected, s.Outcomes.NotSelected)
	row(text.ColumnRejected, s.Outcomes.Rejected)
	row(text.ColumnAlreadyHeld, s.Outcomes.AlreadyIssued)
	row(text.ColumnWrittenOff, s.Outcomes.WrittenOff)
	t.Render()
	if len(s.Review) > 0 {
		p.printGroups(s.Review, now)
	}
	if len(s.Deeds) > 0 {
		t = output.Table(p.stdout)
		t.AppendHeader(p.header(text.ColumnAt, text.ColumnActor, text.ColumnAction, text.ColumnReason, text.ColumnDetail))
		for _, d := range s.Deeds {
			t.AppendRow(table.Row{output.InZone(d.At, p.zone), output.Printable(d.Actor), output.Word(p.language, d.Action), output.Printable(d.Reason), output.Printable(d.Detail)})
		}
		t.Render()
	}
}
