package settle

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/jajeong/jajeong/internal/coupon"
)

// maxRemembered winners are kept in memory by all settlements of a run: 16 MB. Those of other settlements are read back from
// MySQL for the clean-up.
const maxRemembered = 1_000_000

// memory is the room that a run has for winners.
type memory struct{ taken atomic.Int64 }

// remembered are the winners of one settlement, all or none of them.
type remembered struct {
	memory  *memory
	room    int // 0: none are remembered
	all     []winner
	partial bool
}

// winner is an application that got a seat, as small as can be.
type winner struct {
	user    coupon.UserID
	arrival coupon.Arrival
}

// reserve makes room for so many winners until release, unless other settlements have it.
func (m *memory) reserve(seats int) *remembered {
	n := int64(seats)
	if m.taken.Add(n) > maxRemembered {
		m.taken.Add(-n)
		return &remembered{memory: m, partial: true}
	}
	return &remembered{memory: m, room: seats}
}

func (r *remembered) release() {
	r.memory.taken.Add(-int64(r.room))
	r.forget()
	r.room = 0
}

// reset begins a transaction anew.
func (r *remembered) reset() { r.all, r.partial = nil, r.room == 0 }

// forget has the winners read back from MySQL.
func (r *remembered) forget() { r.all, r.partial = nil, true }

func (r *remembered) complete() bool { return !r.partial }

func (r *remembered) add(issued []coupon.Application) {
	if r.partial {
		return
	}
	if len(r.all)+len(issued) > r.room { // seats were added since the room was reserved
		r.forget()
		return
	}
	if r.all == nil {
		r.all = make([]winner, 0, min(r.room, maxRemembered))
	}
	for _, a := range issued {
		r.all = append(r.all, winner{a.User(), a.Arrival})
	}
}

// removeRemembered takes remembered winners out of Redis. In the order of the line that costs Redis least.
func (s *settlement) removeRemembered(ctx context.Context, winners *remembered) error {
	for some := range slices.Chunk(winners.all, cleanUpApplications) {
		page := make([]coupon.Application, len(some))
		for i, w := range some {
			page[i] = coupon.Application{Member: w.user.Member(), Arrival: w.arrival, Source: coupon.SourceQueue}
		}
		if _, err := s.Line.Remove(ctx, s.coupon.ID, s.coupon.ClosesAt, coupon.MarkIssued, page); err != nil {
			return err
		}
	}
	return nil
}
