package events

import (
	"container/heap"
	"context"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const (
	// statementRows is how many coupons one statement of a settlement inserts at most. It inserts them sorted by user,
	// so the ids of so many coupons are not in the order of positions. A test compares it with
	// internal/records.MaxSeatRows.
	statementRows = 1<<15 - 1
	// readRows is how many coupons are read at once: as many as a round publishes, so that reading keeps pace.
	readRows = roundCoupons
	// maxAhead is how many coupons are kept that cannot be published yet, or need not.
	maxAhead = statementRows + 2*readRows
)

// ahead reads the coupons of one settlement, and encodes their events in the order of positions. The rows do not
// change: reading needs no lock.
type ahead struct {
	settlement
	position int                 // the last seat whose event was taken; 0: none
	unread   int                 // number of coupons
	next     coupon.UserCouponID // where to read on
	read     byPosition          // coupons that were read, but come after one that was not
	ready    []encoded           // events to take
}

// encoded is the event of one coupon.
type encoded struct {
	row      coupon.UserCouponID
	position int
	Message
}

func aheadOf(c cursor) *ahead {
	return &ahead{settlement: c.settlement, position: c.position, unread: c.left, next: c.row}
}

// at reports whether the next event to take is the next one to publish.
func (a *ahead) at(c cursor) bool {
	return a != nil && a.settlement == c.settlement && a.position == c.position
}

// left returns the number of events that are not taken.
func (a *ahead) left() int { return len(a.ready) + len(a.read) + a.unread }

// fill reads until want events are ready, or all are.
func (a *ahead) fill(ctx context.Context, q mysqltx.Querier, want int) error {
	for a.unread > 0 && len(a.ready) < want {
		if err := a.more(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// more reads some coupons, unless enough are kept.
func (a *ahead) more(ctx context.Context, q mysqltx.Querier) error {
	if len(a.ready)+len(a.read) >= maxAhead {
		return nil
	}
	limit := readRows
	if a.position == 0 && len(a.ready)+len(a.read) == 0 {
		limit = statementRows // the first seat is the lowest one of the first statement
	}
	limit = min(limit, a.unread)
	found, err := a.winners(ctx, q, a.next, a.last(), limit)
	if err != nil {
		return err
	}
	for i := range found {
		heap.Push(&a.read, &found[i])
		a.next = found[i].UserCoupon + 1
	}
	if a.unread -= len(found); len(found) < limit { // `settle purge` has deleted coupons
		a.unread = 0
	}
	a.encode()
	return nil
}

// last returns the last seat that is ready or taken.
func (a *ahead) last() int {
	if n := len(a.ready); n > 0 {
		return a.ready[n-1].position
	}
	return a.position
}

// encode makes the events ready whose predecessors are. A position that is missing although it should have been read is
// skipped.
func (a *ahead) encode() {
	for len(a.read) > 0 {
		missing := a.unread > 0 && len(a.read) <= statementRows
		if last := a.last(); missing && last > 0 && a.read[0].Position != last+1 {
			return
		}
		issued := heap.Pop(&a.read).(*Issued)
		a.ready = append(a.ready, encoded{issued.UserCoupon, issued.Position, issued.Message()})
	}
}

// take returns the next events, at most limit. The caller has filled.
func (a *ahead) take(limit int) []encoded {
	n := min(limit, len(a.ready))
	taken := a.ready[:n:n]
	if a.ready = a.ready[n:]; n > 0 {
		a.position = taken[n-1].position
	}
	return taken
}

// lowest returns an id that is not above the id of any coupon in rest, nor of one that is not taken.
func (a *ahead) lowest(rest []encoded) coupon.UserCouponID {
	lowest := a.next
	for _, events := range [][]encoded{rest, a.ready} {
		for i := range events {
			lowest = min(lowest, events[i].row)
		}
	}
	for _, issued := range a.read {
		lowest = min(lowest, issued.UserCoupon)
	}
	return lowest
}

// byPosition is a heap: its first element has the lowest position.
type byPosition []*Issued

func (h byPosition) Len() int           { return len(h) }
func (h byPosition) Less(i, j int) bool { return h[i].Position < h[j].Position }
func (h byPosition) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byPosition) Push(x any)        { *h = append(*h, x.(*Issued)) }
func (h *byPosition) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return x
}
