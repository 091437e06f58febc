// Package recall remembers what a process answered, and puts applications back that a failover of Redis lost.
//
// After a failover or a restart, a Redis server may lack the last applications that were accepted. A process therefore
// remembers its answers for ten seconds. When the server has changed (a new epoch, see candidates/lua/epoch.lua), or
// the coupon's state is gone, the process compares its answers with the server and puts missing applications back at
// their first arrival. If an applicant has applied again meanwhile, the application is moved back to its first arrival.
// The count `twice` says how many applications two servers have counted for this reason. Settlements wait at the fence
// until processes had time to put applications back: a failover loses no application whose process lives.
//
// What becomes of a remembered application depends on where the new server has it:
//
//	in no key                       it is entered at its own arrival
//	in the queue, later             it is lowered to its own arrival, and is in twice if this server counted it
//	in the queue, earlier           nothing, but it is counted as twice if this server counted it, too
//	under review, issued, rejected  nothing
//	in no key, and no reply came    it is entered at the end, if it could be accepted now
//
// An own arrival goes beyond the line limit, because a promise goes before a limit. Nothing happens to a coupon that is
// finalised, or whose window is not published.
package recall

import (
	"context"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// MaxCoupons is how many coupons a Memory remembers. The catalog has at most half as many, so it forgets none of them.
const MaxCoupons = 20_000

// PutBack is the result of one comparison of a coupon's remembered answers with a server.
type PutBack struct {
	Coupon   coupon.CouponID
	Compared int // number of answers that were compared
	Back     int // number of missing applications that were put back at their first arrival
	Moved    int // number of applications that were moved from a later arrival to their first
	Err      error
}

// Memory remembers what a process answered to applicants. It is a candidates.Recorder and safe for concurrent use.
type Memory struct {
	store   *candidates.Store
	coupons *lru.Cache[coupon.CouponID, *promises]
	counters

	// OnPutBack, if set before the first use, is called after a comparison that changed something or failed.
	OnPutBack func(PutBack)
}

type counters struct {
	remembered     atomic.Int64 // answers in memory now
	dropped        atomic.Int64 // answers dropped since the start, because there was no room
	putBack, moved atomic.Int64 // applications put back, and moved, since the start
}

// New returns a Memory, and sets it as the Recorder of the store.
func New(store *candidates.Store) *Memory {
	m := &Memory{store: store}
	var err error
	m.coupons, err = lru.NewWithEvict(MaxCoupons, func(_ coupon.CouponID, p *promises) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.forgetAll()
	})
	if err != nil {
		panic(err) // happens only for a size below 1
	}
	store.Recorder = m
	return m
}

func (m *Memory) promisesOf(couponID coupon.CouponID) *promises {
	if p, ok := m.coupons.Get(couponID); ok {
		return p
	}
	p := &promises{counters: &m.counters}
	if first, found, _ := m.coupons.PeekOrAdd(couponID, p); found {
		return first
	}
	return p
}

func (m *Memory) Seen(couponID coupon.CouponID) candidates.Seen {
	p, ok := m.coupons.Peek(couponID)
	if !ok {
		return candidates.Seen{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

func (m *Memory) Unanswered(couponID coupon.CouponID, users []coupon.UserID) {
	answers := make([]candidates.Answer, len(users))
	for i, user := range users {
		answers[i] = candidates.Answer{User: user, Counted: true}
	}
	p := m.promisesOf(couponID)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remember(answers, "")
}

// Answered records a reply, and starts a comparison if the server has changed.
func (m *Memory) Answered(couponID coupon.CouponID, carried candidates.Seen, r candidates.Reply) {
	p := m.promisesOf(couponID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Epoch == "" { // applying is not possible now
		p.now = r.Now
		if r.NoWindow { // the state is gone: the next refresh of the catalog publishes the window and begins an epoch
			p.doubt()
		}
		return
	}
	p.learn(carried, r)
	p.expire()
	p.remember(r.Answers, r.Epoch)
	m.compareOnce(couponID, p)
}

// compareOnce starts a comparison if one is due and none is running. The caller holds p.mu.
func (m *Memory) compareOnce(couponID coupon.CouponID, p *promises) {
	if p.changed && !p.comparing {
		p.comparing = true
		go m.compare(couponID, p)
	}
}

// Doubt compares the remembered answers of a coupon with Redis: its promises are missing, although no server has
// changed. Arrivals up to settledUpTo may be settled, and are left out.
func (m *Memory) Doubt(couponID coupon.CouponID, settledUpTo coupon.Arrival) {
	p, ok := m.coupons.Peek(couponID)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubtAbove(settledUpTo)
	m.compareOnce(couponID, p)
}

// Recall reads the epochs of all remembered coupons from Redis, and starts a comparison of each coupon whose epoch has
// changed. Apply and Publish do so, too; Recall is for a process that has neither applicants nor MySQL.
func (m *Memory) Recall(ctx context.Context) error {
	var workers errgroup.Group
	workers.SetLimit(recallWorkers)
	for _, couponID := range m.coupons.Keys() {
		workers.Go(func() error { return m.recall(ctx, couponID) })
	}
	return workers.Wait()
}

func (m *Memory) recall(ctx context.Context, couponID coupon.CouponID) error {
	p, ok := m.coupons.Peek(couponID)
	if !ok {
		return nil
	}
	p.mu.Lock()
	known, idle := p.seen.Epoch, p.seen.Epoch == "" || p.count == 0 || p.comparing
	p.mu.Unlock()
	if idle {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	epoch, _, err := m.store.Missing(ctx, couponID, nil)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch != known && p.seen.Epoch == known {
		p.doubt()
	}
	m.compareOnce(couponID, p)
	return nil
}
