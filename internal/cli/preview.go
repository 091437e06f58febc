package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/text"
)

// isTerminal reports whether a person can be asked.
func (p *program) isTerminal() bool { return output.IsTerminal(p.stdin) && output.IsTerminal(p.stderr) }

// askFirst shows a preview and asks for confirmation. The confirmed preview is pinned: the cutoff, the winners,
// and the number of applications that are written off.
func (p *program) askFirst(ctx context.Context, order *settle.Order, nights int) (may bool, err error) {
	var shown *settle.Report
	aside := *p
	aside.stdout = p.stderr // stdout is for the run itself
	err = aside.settle(ctx, "table", func(settler *settle.Settler) (report *settle.Report, err error) {
		shown, err = settler.Preview(ctx, *order)
		return shown, err
	})
	if shown == nil || exitCode(err) == exitUse { // a coupon that is held or busy does not keep the others from being settled
		return false, err
	}
	question := p.sprintf(text.AskSettle)
	if nights > 0 {
		question = p.sprintf(text.AskBackfill, nights)
	} else {
		order.Cutoff, order.CutoffNow = shown.Cutoff, false
		pinned := map[uint64]string{}
		for _, c := range shown.Coupons {
			if c.Preview != nil && c.Error == "" {
				pinned[c.Coupon] = c.Preview.Digest
			}
		}
		maps.Copy(pinned, order.Expect)
		order.Expect = pinned
	}
	return p.ask(ctx, question)
}

// ask asks a question. Any answer but yes means no, as the end of the input does; the exit code is then 0. A signal is an error.
func (p *program) ask(ctx context.Context, question string) (yes bool, err error) {
	fmt.Fprintf(p.stderr, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(p.stdin, 100)).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case line := <-answer:
		if slices.Contains([]string{"y", "yes", "예", "네", "ㅛ"}, line) { // the last is y on a Korean keyboard
			return true, nil
		}
		fmt.Fprintln(p.stderr, p.sprintf(text.NothingChanged))
		return false, nil
	case <-ctx.Done():
		fmt.Fprintln(p.stderr)
		return false, settle.ToldToStop(ctx)
	}
}

// printPreview prints the winners, the digest to pin, and the applications that would be moved to review.
func (p *program) printPreview(c settle.Result) {
	v := c.Preview
	if v == nil || c.Error != "" {
		return
	}
	fmt.Fprintln(p.stdout, p.sprintf(text.CouponTitle, c.Coupon, output.Printable(c.Name)))
	if v.First != nil {
		fmt.Fprintln(p.stdout, p.sprintf(text.WouldBeIssued,
			c.Issued, v.First.User, p.arrival(v.First.Arrival), v.Last.User, p.arrival(v.Last.Arrival)))
	} else {
		fmt.Fprintln(p.stdout, p.sprintf(text.NoneWouldBeIssued))
	}
	fmt.Fprintf(p.stdout, "  %s\n", v.Digest)
	for _, cause := range slices.Sorted(maps.Keys(v.Causes)) {
		fmt.Fprintln(p.stdout, p.sprintf(text.WouldBeRejected, v.Causes[cause], output.Word(p.language, cause), cause))
	}
	if len(v.Winners) > 0 {
		t := output.Table(p.stdout)
		t.AppendHeader(table.Row{p.sprintf(text.ColumnPlace), p.sprintf(text.ColumnUser), p.sprintf(text.ColumnAppliedAt)})
		for i, w := range v.Winners {
			t.AppendRow(table.Row{i + 1, w.User, p.arrival(w.Arrival)})
		}
		t.Render()
	}
	if len(v.Rejected) > 0 {
		t := output.Table(p.stdout)
		t.AppendHeader(table.Row{p.sprintf(text.ColumnUser), p.sprintf(text.ColumnAppliedAt), p.sprintf(text.ColumnReason), ""})
		for _, r := range v.Rejected {
			t.AppendRow(table.Row{member(r.User), p.arrival(r.Arrival), r.Cause, output.Printable(r.Message)})
		}
		t.Render()
	}
}

func (p *program) arrival(µs int64) string { return output.InZone(time.UnixMicro(µs), p.zone) }
