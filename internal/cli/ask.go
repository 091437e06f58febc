package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/review"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/text"
)

// isTerminal reports whether a person can be asked.
func (p *program) isTerminal() bool { return output.IsTerminal(p.stdin) && output.IsTerminal(p.stderr) }

// askFirst shows a preview and asks for confirmation. The run must repeat the confirmed preview.
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
		review.Pin(order, shown)
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
		p.warn(text.NothingChanged)
		return false, nil
	case <-ctx.Done():
		fmt.Fprintln(p.stderr)
		return false, settle.ToldToStop(ctx)
	}
}
