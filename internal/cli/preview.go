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

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
)

// isTerminal is whether a person sits before it who can be asked.
func (p *program) isTerminal() bool { return isTerminal(p.stdin) && isTerminal(p.stderr) }

// askFirst shows what a run would do and asks whether it may. What was shown is pinned: the cutoff, who gets a coupon,
// and how many are written off.
func (p *program) askFirst(ctx context.Context, order *settle.Order, nights int) (may bool, err error) {
	var shown *settle.Report
	aside := *p
	aside.stdout = p.stderr // what was asked for comes to stdout
	err = aside.settle(ctx, "table", func(settler *settle.Settler) (report *settle.Report, err error) {
		shown, err = settler.Preview(ctx, *order)
		return shown, err
	})
	if shown == nil || exitCode(err) == exitUse { // a coupon that is held or busy does not keep the others from being settled
		return false, err
	}
	question := p.say(words{"이대로 정산할까요?", "Settle this?"})
	if nights > 0 {
		question = p.say(words{"위는 마지막 밤까지 모두 정산했을 때입니다. %d일을 하루씩 차례로 정산할까요?",
			"That is what all of it comes to. Settle %d nights, one after the other?"}, nights)
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

// ask tells whether the answer is yes. Anything else, also the end of the input, is no: a decision like another, after which
// nothing is left to do and the exit code is 0. A signal decides nothing, and is an error as everywhere.
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
		fmt.Fprintln(p.stderr, p.say(words{"아무것도 바꾸지 않았습니다.", "Nothing was changed."}))
		return false, nil
	case <-ctx.Done():
		fmt.Fprintln(p.stderr)
		return false, settle.ToldToStop(ctx)
	}
}

var causes = map[coupon.Cause]words{
	coupon.CauseUnknownUser:  {"없는 사용자", "unknown users"},
	coupon.CauseInactiveUser: {"이용할 수 없는 사용자", "inactive users"},
	coupon.CauseMalformed:    {"사용자 번호가 아닌 항목", "members that are no user ids"},
	coupon.CausePassedOver:   {"차례가 지나간 신청", "passed over"},
	coupon.CauseBadRow:       {"데이터베이스가 거부한 행", "rows the database refuses"},
	coupon.CauseDatabaseAway: {"데이터베이스에 닿을 수 없었음", "the database was away"},
}

// printPreview tells beside the table who would be issued, who rejected and why, and the digest to pin.
func (p *program) printPreview(c settle.Result) {
	v := c.Preview
	if v == nil || c.Error != "" {
		return
	}
	fmt.Fprintln(p.stdout, p.say(words{"쿠폰 %d %s", "coupon %d %s"}, c.Coupon, printable(c.Name)))
	if v.First != nil {
		fmt.Fprintln(p.stdout, p.say(words{"  발급될 사람: %d명, 첫 번째 사용자 %d (%s), 마지막 사용자 %d (%s)", "  would be issued: %d, the first user %d (%s), the last user %d (%s)"},
			c.Issued, v.First.User, p.arrival(v.First.Arrival), v.Last.User, p.arrival(v.Last.Arrival)))
	} else {
		fmt.Fprintln(p.stdout, p.say(words{"  발급될 사람이 없습니다", "  nobody would be issued"}))
	}
	fmt.Fprintf(p.stdout, "  %s\n", v.Digest)
	for _, cause := range slices.Sorted(maps.Keys(v.Causes)) {
		fmt.Fprintln(p.stdout, p.say(words{"  거절될 신청: %d건, %s (%s)", "  would be rejected: %d, %s (%s)"}, v.Causes[cause], causes[cause].in(p.language), cause))
	}
	if len(v.Winners) > 0 {
		t := newTable(p.stdout)
		t.AppendHeader(table.Row{p.say(words{"순번", "place"}), p.say(words{"사용자", "user"}), p.say(words{"신청 시각", "applied at"})})
		for i, w := range v.Winners {
			t.AppendRow(table.Row{i + 1, w.User, p.arrival(w.Arrival)})
		}
		t.Render()
	}
	if len(v.Rejected) > 0 {
		t := newTable(p.stdout)
		t.AppendHeader(table.Row{p.say(words{"사용자", "user"}), p.say(words{"신청 시각", "applied at"}), p.say(words{"사유", "why"}), ""})
		for _, r := range v.Rejected {
			t.AppendRow(table.Row{member(r.User), p.arrival(r.Arrival), r.Cause, printable(r.Message)})
		}
		t.Render()
	}
}

func (p *program) arrival(µs int64) string { return inZone(time.UnixMicro(µs), p.zone) }
