// Package recall remembers what a process answered to applicants, and puts applications back that a failover of Redis lost.
//
// A server that takes over, or restarts, may lack the last applications that its predecessor accepted. A process therefore
// remembers its answers for ten seconds. When another server replies (see the epochs of candidates, lua/epoch.lua), or the
// coupon's state is gone, the process compares all of them with the server and puts missing applications back at their first
// arrival. An applicant who applied again meanwhile gets the first arrival back. Two servers counted this applicant; `twice`
// counts such applicants. Settlements wait at the fence for all processes, so a failover loses no application of a process that
// lives.
package recall

import (
	"context"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// MaxCoupons bounds the coupons of a memory. The catalog touches each of its coupons at every refresh and holds half as many.
const MaxCoupons = 20_000

// PutBack is the outcome of one comparison after a change of the server.
type PutBack struct {
	Coupon   coupon.CouponID
	Compared int // remembered answers
	Back     int // applications that were missing, now at their first arrival
	Moved    int // applications at a later arrival, now at their first
	Err      error
}

// Memory is the memory of a process. It is safe for concurrent use.
type Memory struct {
	store   *candidates.Store
	coupons *lru.Cache[coupon.CouponID, *promises]
	counters

	// OnPutBack, if set before the first use, is called from any goroutine after a comparison that changed something or failed.
	OnPutBack func(PutBack)
}

type counters struct {
	remembered     atomic.Int64 // answers, now
	dropped        atomic.Int64 // answers for which there was no room, ever
	putBack, moved atomic.Int64 // applications, ever
}

// New returns the memory of a store and registers it there.
func New(store *candidates.Store) *Memory {
	m := &Memory{store: store}
	var err error
	m.coupons, err = lru.NewWithEvict(MaxCoupons, func(_ coupon.CouponID, p *promises) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.forgetAll()
	})
	if err != nil {
		panic(err) // only for a size below 1
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

// Seen returns what this process has seen of a coupon's promises.
func (m *Memory) Seen(couponID coupon.CouponID) candidates.Seen {
	p, ok := m.coupons.Peek(couponID)
	if !ok {
		return candidates.Seen{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// Unanswered records users whose applications may have been accepted although the reply was lost.
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

// Answered records a reply, and starts a comparison where another server has replied.
func (m *Memory) Answered(couponID coupon.CouponID, carried candidates.Seen, r candidates.Reply) {
	p := m.promisesOf(couponID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Epoch == "" { // applying is not possible
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

// compareOnce starts a comparison where one is due and none is running. The caller holds p.mu.
func (m *Memory) compareOnce(couponID coupon.CouponID, p *promises) {
	if p.changed && !p.comparing {
		p.comparing = true
		go m.compare(couponID, p)
	}
}

// Recall asks the server of every remembered coupon for its epoch, and starts a comparison where it has changed. Apply and
// Publish have the same effect; Recall is for a process without applicants and without MySQL. It returns one of the errors.
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
