package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/review"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/text"
)

func (p *program) isTerminal() bool { return output.IsTerminal(p.Stdin) && output.IsTerminal(p.Stderr) }

// askFirst shows a preview and asks for confirmation. It limits order to what the preview shows.
// leftOut holds the error classes of the coupons that the preview could not show.
func (p *program) askFirst(ctx context.Context, order *settle.Order) (may bool, leftOut []coupon.Class, err error) {
	var shown *settle.Report
	aside := *p
	aside.Stdout = p.Stderr // stdout is kept for the result of the run
	err = aside.settle(ctx, "table", func(settler *settle.Settler) (report *settle.Report, err error) {
		shown, err = settler.Preview(ctx, *order)
		return shown, err
	})
	if shown == nil || exitCode(err) == exitUse { // other errors concern single coupons, and the rest can be settled
		return false, nil, err
	}
	failed := review.Pin(order, shown)
	if len(order.Coupons) == 0 {
		p.warn(text.NothingChanged)
		return false, nil, err
	}
	if len(failed) > 0 {
		p.warn(text.LeftOut, failed)
	}
	may, err = p.ask(ctx, p.Sprintf(text.AskSettle))
	return may, shown.Classes(), err
}

// confirm asks, unless yes was given. Without a terminal, needsYes is returned.
func (p *program) confirm(ctx context.Context, yes bool, needsYes error, question string) (may bool, err error) {
	switch {
	case yes:
		return true, nil
	case !p.isTerminal():
		return false, needsYes
	default:
		return p.ask(ctx, question)
	}
}

// ask prints a question and reads the answer. Any answer except yes means no, and so does the end of the input.
func (p *program) ask(ctx context.Context, question string) (yes bool, err error) {
	fmt.Fprintf(p.Stderr, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(p.Stdin, 100)).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case line := <-answer:
		if slices.Contains([]string{"y", "yes", "예", "네", "ㅛ"}, line) { // ㅛ is the key Y in Korean input mode
			return true, nil
		}
		p.warn(text.NothingChanged)
		return false, nil
	case <-ctx.Done():
		fmt.Fprintln(p.Stderr)
		return false, settle.Stopped(ctx)
	}
}
