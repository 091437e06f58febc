package api

import (
	"time"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

const (
	// lineRetry is after how long an immediate coupon's full line may have places again: it moves at every look.
	lineRetry = time.Second
	// lateLineRetry is the same for a nightly coupon whose settlement is under way, or is late.
	lateLineRetry = time.Minute
)

// ofLineFull says when places may come free: when the first of the line is settled. They do not if every seat is taken,
// or if the window has closed by then.
func (s *server) ofLineFull(reply candidates.Receipt, of coupon.Coupon) answer {
	reopens := reply.Now.Add(lineRetry)
	if !of.Immediate() {
		if reopens = calendar.NextCutoff(reply.Arrival.Time(), s.Terms.Zone()); !reopens.After(reply.Now) {
			reopens = reply.Now.Add(lateLineRetry)
		}
	}
	mayReopen := of.Free() > 0 && reopens.Before(of.ClosesAt)
	a := answer{result: lineFull, extra: problemDocument{MayReopen: &mayReopen}}
	if mayReopen {
		a.retryAfter = reopens.Sub(reply.Now)
	}
	return a
}
