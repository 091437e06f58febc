package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/history"
)

// Bounds of what is told of those who wait for a later midnight.
const (
	mostLater   = 20
	laterWithin = 3 * time.Second
)

// tellLater says, where no coupon was due, who waits for which midnight. It only informs: what cannot be read is left out.
func (p *program) tellLater(ctx context.Context, cutoff time.Time) {
	r, err := p.openReading()
	if err != nil {
		return
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(ctx, laterWithin)
	defer cancel()
	told := 0
	for _, status := range []history.CouponStatus{history.Open, history.Paused, history.Closed} { // nobody waits for any other
		coupons, err := r.List(ctx, status, 0, mostPerPage)
		if err != nil {
			return
		}
		ids := make([]uint64, len(coupons))
		for i, c := range coupons {
			ids[i] = c.ID
		}
		heads := r.store.Heads(ctx, ids)
		for _, c := range coupons {
			head := heads[c.ID]
			if head.Waiting == 0 {
				continue
			}
			if told++; told > mostLater {
				fmt.Fprintln(p.stdout, p.say(words{"그 밖의 쿠폰에도 기다리는 신청이 있습니다: settle coupon list", "Others wait for more coupons: settle coupon list"}))
				return
			}
			first := head.Oldest
			if first.Before(cutoff) {
				first = cutoff
			}
			fmt.Fprintln(p.stdout, p.say(words{"쿠폰 %d %s: 기다리는 신청 %d건, 가장 먼저 온 신청은 %s의 정산을 기다립니다. 지금 정산하려면: settle run --coupon %[1]d --cutoff now --operator … --reason …",
				"coupon %d %s: %d waiting, the first of them for the settlement of %s. To settle now: settle run --coupon %[1]d --cutoff now --operator … --reason …"},
				c.ID, printable(c.Name), head.Waiting, inZone(calendar.NextCutoff(first, p.zone), p.zone)))
		}
	}
}
