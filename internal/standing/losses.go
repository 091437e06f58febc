package standing

import (
	"sync"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/promise"
)

// Verdict says what to make of it that a user is found neither in Redis nor in MySQL.
type Verdict int

const (
	NotApplied Verdict = iota + 1 // no promise is missing: the user has not applied
	Restoring                     // a restore is due, and may find the user
	MayBeLost                     // promises are missing, unknown or written off, and one of them may be the user's
)

const (
	// patience is for how long users are told that a restore may find them. Without `settle serve`, none begins.
	patience = time.Minute
	// maxDue bounds the coupons in a Losses: more than a deployment has, in a few MB.
	maxDue = 100_000
)

// Losses gives the verdicts of a process. It is safe for concurrent use.
type Losses struct {
	now func() time.Time

	mu  sync.Mutex
	due map[coupon.CouponID]due
}

// due says since when this process has known that a restore is due. When the epoch has ended, or a restore that pods
// compare after, another one is.
type due struct {
	epoch    coupon.Arrival
	restores int64
	seen     time.Time
}

func NewLosses(now func() time.Time) *Losses {
	return &Losses{now: now, due: map[coupon.CouponID]due{}}
}

// Judge judges a user of whom a look in Redis and a later reading of MySQL had nothing. If MySQL did not have to be
// asked, the books are zero.
func (l *Losses) Judge(of coupon.Coupon, w candidates.Watch, b promise.Books) Verdict {
	cause := b.Due(w.Line)
	switch waits := l.waits(of, w, cause); {
	case of.Finalised():
		return verdict(b.Unfound+b.WrittenOff > 0)
	case cause == promise.NotDue:
		return verdict(b.Lost(w.Line))
	case waits:
		return Restoring
	case cause == promise.NewServer: // it may have lost the count, too
		line := w.Line
		line.Accepted = max(line.Accepted, b.Accepted)
		return verdict(b.Lost(line))
	default:
		return MayBeLost
	}
}

func verdict(lost bool) Verdict {
	if lost {
		return MayBeLost
	}
	return NotApplied
}

// waits reports whether a restore has been due for less than patience. The time of an epoch counts, too.
func (l *Losses) waits(of coupon.Coupon, w candidates.Watch, cause promise.Cause) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cause == promise.NotDue || of.Finalised() {
		delete(l.due, of.ID)
		return false
	}
	now := l.now()
	d, ok := l.due[of.ID]
	if !ok || d.epoch != w.Since || d.restores != w.Restores {
		if len(l.due) >= maxDue {
			clear(l.due)
		}
		d = due{w.Since, w.Restores, now}
		l.due[of.ID] = d
	}
	began := !w.Restored && w.Since > 0
	return now.Before(d.seen.Add(patience)) && (!began || w.Now.Before(w.Since.Time().Add(patience)))
}
