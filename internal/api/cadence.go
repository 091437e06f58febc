package api

import (
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

const (
	// lineRetry is after how long an immediate coupon's full line may have places again: it moves at every look.
	lineRetry = time.Second
	// lateLineRetry is the same for a nightly coupon whose settlement is under way, or is late.
	lateLineRetry = time.Minute
)

// settlesAt returns when an application is settled: at a midnight, or at the next look if the coupon is immediate. now
// is the time on the clock of Redis.
func (s *server) settlesAt(c coupon.Coupon, arrival coupon.Arrival, now time.Time) time.Time {
	at := arrival.Time()
	if !c.Immediate() {
		return s.SettlesAt(at)
	}
	if now.After(at) { // an arrival may be ahead of the clock
		at = now
	}
	return at.Add(s.IssueInterval)
}

// delayed reports whether an immediate coupon's application waits longer than it should. now is the time on the clock
// of Redis.
func (s *server) delayed(c coupon.Coupon, arrival coupon.Arrival, now time.Time) bool {
	return c.Immediate() && coupon.Delayed(now.Sub(arrival.Time()), s.IssueInterval)
}

// ofLineFull says when places may come free: when the first of the line is settled. They do not if every seat is taken,
// or if the window has closed by then.
func (s *server) ofLineFull(receipt candidates.Receipt, of coupon.Coupon) answer {
	reopens := receipt.Now.Add(lineRetry)
	if !of.Immediate() {
		if reopens = s.SettlesAt(receipt.Arrival.Time()); !reopens.After(receipt.Now) {
			reopens = receipt.Now.Add(lateLineRetry)
		}
	}
	mayReopen := of.Free() > 0 && reopens.Before(of.ClosesAt)
	a := answer{result: lineFull, extra: problemDocument{MayReopen: &mayReopen}}
	if mayReopen {
		a.retryAfter = reopens.Sub(receipt.Now)
	}
	return a
}
