package settle

import (
	"slices"
	"sync/atomic"

	"github.com/jajeong/jajeong/internal/coupon"
)

// maxRemembered is how many winners a run keeps in memory (16 MB). A settlement without room reads them from MySQL.
const maxRemembered = 1_000_000

// memory counts the winners for which the settlements of a run have reserved room.
type memory struct{ taken atomic.Int64 }

// remembered holds all winners of one settlement, or none.
type remembered struct {
	memory   *memory
	room     int        // greatest number of winners; 0: none are remembered
	pages    [][]Winner // a longer list would be copied as it grows
	count    int
	complete bool
}

func (r *remembered) all() []Winner { return slices.Concat(r.pages...) }

// reserve reserves room for one winner per seat, until release. If there is no room, no winner is remembered.
func (m *memory) reserve(seats int) *remembered {
	n := int64(seats)
	if m.taken.Add(n) > maxRemembered {
		m.taken.Add(-n)
		return &remembered{memory: m}
	}
	return &remembered{memory: m, room: seats}
}

func (r *remembered) release() { r.memory.taken.Add(-int64(r.room)) }

// reset discards the winners of an earlier attempt at the transaction.
func (r *remembered) reset() { r.pages, r.count, r.complete = nil, 0, r.room > 0 }

// forget makes the clean-up read the winners from MySQL.
func (r *remembered) forget() { r.pages, r.count, r.complete = nil, 0, false }

func (r *remembered) add(issued []coupon.Application) {
	if !r.complete || len(issued) == 0 {
		return
	}
	if r.count+len(issued) > r.room { // seats were added since the room was reserved
		r.forget()
		return
	}
	r.count += len(issued)
	r.pages = append(r.pages, mapped(issued, func(a coupon.Application) Winner { return Winner{a.User(), a.Arrival} }))
}
