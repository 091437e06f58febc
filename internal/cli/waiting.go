package cli

import (
	"context"
	"time"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// Bounds of the list of coupons with waiting applications.
const (
	maxWaiting     = 20
	waitingTimeout = 3 * time.Second
)

// printWaiting lists coupons with waiting applications and the settlement they wait for. It omits what it cannot read.
func (p *program) printWaiting(ctx context.Context, cutoff time.Time) {
	s, err := p.open()
	if err != nil {
		return
	}
	defer s.Close()
	r := s.reading()
	ctx, cancel := context.WithTimeout(ctx, waitingTimeout)
	defer cancel()
	told := 0
	for _, status := range []history.CouponStatus{history.Open, history.Paused, history.Closed} { // other coupons have no queue
		coupons, err := r.List(ctx, status, 0, maxPerPage)
		if err != nil {
			return
		}
		ids := make([]coupon.CouponID, len(coupons))
		for i, c := range coupons {
			ids[i] = c.ID
		}
		heads := r.store.QueueStats(ctx, ids)
		for _, c := range coupons {
			head := heads[c.ID]
			if head.Waiting == 0 {
				continue
			}
			if told++; told > maxWaiting {
				p.view().Println(text.OtherQueues)
				return
			}
			first := head.Oldest
			if first.Before(cutoff) {
				first = cutoff
			}
			p.view().Println(text.QueueOf,
				c.ID, output.Printable(c.Name), head.Waiting, output.InZone(calendar.NextCutoff(first, p.zone), p.zone))
		}
	}
}
