package live

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/standing"
)

// Store asks Redis about a queue, and up to candidates.MaxWatched users.
type Store interface {
	Watch(ctx context.Context, couponID coupon.CouponID, upTo coupon.Arrival,
		users ...coupon.UserID) (candidates.Watch, error)
}

// Records ask MySQL about users whose standing Redis does not give. standing.Records implements it.
type Records interface {
	Read(ctx context.Context, couponID coupon.CouponID,
		users ...coupon.UserID) (map[coupon.UserID][]standing.Outcome, promise.Books, error)
}

// Coupons are the coupons in the memory of the process.
type Coupons interface {
	Lookup(id coupon.CouponID) (coupon.Coupon, bool)
}

// Options configure a Hub. Every field is required.
type Options struct {
	Store   Store
	Records Records
	Losses  *standing.Losses // those of the process
	Coupons Coupons
	Terms   standing.Terms
	Max     int // streams; further ones get one state and end
	Logger  *zap.Logger
	Metrics prometheus.Registerer
	Now     func() time.Time
}

const (
	maxLoggedFailures = 5 // equal log lines per second
	streamsPerUser    = 2
)

// Hub holds the streams of one process. It is safe for concurrent use.
type Hub struct {
	Options
	metrics metrics
	open    atomic.Int64 // streams
	drained atomic.Int64 // when the last stream ends, in ns since 1970; 0: the process does not end
	rooms   sync.WaitGroup

	mu       sync.Mutex
	byCoupon map[coupon.CouponID]*room
	byUser   map[coupon.UserID][]*stream // the oldest first
}

func New(o Options) *Hub {
	o.Logger = ops.Sampled(o.Logger, maxLoggedFailures)
	h := &Hub{Options: o, byCoupon: map[coupon.CouponID]*room{}, byUser: map[coupon.UserID][]*stream{}}
	h.metrics = newMetrics(o.Metrics, h)
	return h
}

// Drain ends the streams over some time, each at a moment of its own, so that clients do not come back all at once.
// Streams that begin afterwards get one state and end.
func (h *Hub) Drain(over time.Duration) {
	h.drained.Store(h.Now().Add(over).UnixNano())
	time.AfterFunc(over, h.endAll) // a room may be waiting for a server
}

func (h *Hub) endAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.byCoupon {
		for _, s := range r.streams {
			s.push(frame{last: drained})
		}
	}
}

func (h *Hub) draining() bool { return h.drained.Load() != 0 }

// drainLeft returns how much time is left until the last stream ends, if the process ends.
func (h *Hub) drainLeft(now time.Time) (left time.Duration, ends bool) {
	until := h.drained.Load()
	return max(0, time.Duration(until-now.UnixNano())), until != 0
}

// join adds a stream to the room of its coupon. A user's third stream ends the oldest one.
func (h *Hub) join(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !s.brief {
		if mine := h.byUser[s.user]; len(mine) >= streamsPerUser {
			mine[0].push(frame{text: retryFrame(lateRetry()), last: replaced})
			h.byUser[s.user] = mine[1:]
		}
		h.byUser[s.user] = append(h.byUser[s.user], s)
	}
	r := h.byCoupon[s.coupon.ID]
	if r == nil {
		r = newRoom(h, s.coupon)
		h.byCoupon[s.coupon.ID] = r
		h.rooms.Go(r.run)
	}
	s.seat, r.streams, r.newcomers = len(r.streams), append(r.streams, s), append(r.newcomers, s)
	select {
	case r.kick <- struct{}{}:
	default: // the room knows already that somebody has come
	}
}

func (h *Hub) leave(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.byCoupon[s.coupon.ID]; r != nil && s.seat != noSeat {
		last := len(r.streams) - 1
		r.streams[s.seat], r.streams[last].seat = r.streams[last], s.seat
		r.streams[last] = nil
		r.streams = r.streams[:last]
	}
	mine := h.byUser[s.user]
	for i, one := range mine {
		if one == s {
			mine = append(mine[:i:i], mine[i+1:]...)
			break
		}
	}
	if h.byUser[s.user] = mine; len(mine) == 0 {
		delete(h.byUser, s.user)
	}
}

// closeIfEmpty reports whether the room has no stream; it then belongs to the hub no longer.
func (h *Hub) closeIfEmpty(r *room) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(r.streams) > 0 {
		return false
	}
	delete(h.byCoupon, r.coupon.ID)
	return true
}

// members returns the streams of a room.
func (h *Hub) members(r *room, into []*stream) []*stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append(into, r.streams...)
}

// welcomed returns the streams that have joined a room since the last call.
func (h *Hub) welcomed(r *room) []*stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := r.newcomers
	r.newcomers = nil
	return all
}
