package cli

import (
	"context"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/text"
)

// maxWaiting limits how many coupons printWaiting lists, and waitingTimeout how long it takes.
const (
	maxWaiting     = 20
	waitingTimeout = 3 * time.Second
)

// printWaiting lists readable coupons with waiting applications, each with the time of its next settlement.
func (p *program) printWaiting(ctx context.Context, cutoff time.Time) {
	s, err := p.open(ctx)
	if err != nil {
		return
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(ctx, waitingTimeout)
	defer cancel()
	printed := 0
	// Scheduled and finalised coupons have no queue.
	for _, status := range []history.CouponStatus{history.Open, history.Paused, history.Closed} {
		coupons, err := history.Reader{DB: s.MySQL}.List(ctx, history.CouponFilter{Status: status, Limit: maxPerPage})
		if err != nil {
			return
		}
		ids := make([]coupon.CouponID, len(coupons))
		for i, c := range coupons {
			ids[i] = c.ID
		}
		stats := s.store.QueueStats(ctx, ids)
		for _, c := range coupons {
			queue := stats[c.ID]
			if queue.Waiting == 0 {
				continue
			}
			if printed++; printed > maxWaiting {
				p.view().Println(text.OtherQueues)
				return
			}
			first := slices.MaxFunc([]time.Time{queue.Oldest, cutoff}, time.Time.Compare)
			p.view().Queue(c, queue.Waiting, calendar.NextCutoff(first, p.Zone))
		}
	}
}
