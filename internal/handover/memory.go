// Package handover remembers what a process told applicants, and hands over to a restore whom Redis may have lost.
//
// A request that got its answer is a promise. Until MySQL has it, the process that gave the answer is its witness: it
// remembers each answer until it has known for ten seconds that the journal has the application. When it sees another
// Redis server, or that a restore has ended, it compares its whole memory with Redis, and hands over whoever does not
// stand there. A restore enters them, unless they are settled: see package journal. A process enters nobody itself, so
// MySQL may be away meanwhile, and another failover is handled in the same way.
//
// A process that ends while Redis does not answer, or before a restore has taken over whom it has handed over, writes
// its memory into the journal, and asks for a restore there.
package handover

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/sleep"
)

const (
	// MaxCoupons is how many coupons a Memory remembers. The catalog has at most half as many: it forgets none of them.
	MaxCoupons = 20_000

	// maxAnswers is how many answers a process remembers, for all coupons together. An answer takes about 70 bytes.
	maxAnswers = 1 << 20
	// roomShare is the share of the oldest answers that is forgotten if there is no room.
	roomShare = 64
	// forgetAtOnce bounds the answers that are forgotten while applicants of the coupon wait: about 0.1 ms.
	forgetAtOnce = 1000

	// lookInterval is how often the coupons with remembered answers are looked at.
	lookInterval = 2 * time.Second
	// lookTimeout bounds one look at all of them.
	lookTimeout = time.Second
	// handOverTimeout bounds one call of a comparison. The look after a comparison that failed begins another.
	handOverTimeout = time.Second
	// pauseBetween is the pause between two calls of a comparison, so that Redis can serve applicants. A million
	// answers are compared in about ten seconds.
	pauseBetween = 2 * time.Millisecond
	// comparisons bounds the coupons that are compared at the same time: other connections are for applicants.
	comparisons = 4
)

// Store is the part of Redis that a Memory uses. candidates.Store implements it.
type Store interface {
	Looks(ctx context.Context, known map[coupon.CouponID]coupon.Known) (map[coupon.CouponID]coupon.Look, error)
	HandOver(ctx context.Context, couponID coupon.CouponID, epoch string, marks bool,
		answers []coupon.Answer) (now string, handed []int, err error)
}

// Memory is a candidates.Recorder. It is safe for concurrent use.
type Memory struct {
	store  Store
	logger *zap.Logger
	now    func() time.Time
	keep   time.Duration // how long an answer is remembered after the journal is known to have it
	limit  int64         // answers in all

	coupons *lru.Cache[coupon.CouponID, *line]
	slots   chan struct{} // one for each comparison under way
	room    sync.Mutex    // held while room is made

	work  sync.WaitGroup  // comparisons in the background
	until context.Context // of all comparisons in the background
	end   context.CancelFunc
	counters
}

type counters struct {
	remembered atomic.Int64 // answers in memory now
	dropped    atomic.Int64 // answers forgotten since the start, because there was no room
	handed     atomic.Int64 // answers handed over since the start
}

// New returns a Memory of what store answers. It must be closed. keep is candidates.HandOverTime, but for tests.
func New(store Store, keep time.Duration, now func() time.Time, logger *zap.Logger) *Memory {
	m := &Memory{store: store, logger: logger, now: now, keep: keep, limit: maxAnswers,
		slots: make(chan struct{}, comparisons)}
	m.until, m.end = context.WithCancel(context.Background())
	var err error
	m.coupons, err = lru.NewWithEvict(MaxCoupons, func(_ coupon.CouponID, l *line) {
		l.mu.Lock()
		defer l.mu.Unlock()
		m.remembered.Add(-int64(len(l.told)))
		l.told, l.known, l.gone, l.todo = nil, nil, true, false
	})
	if err != nil {
		panic(err) // happens only for a size below 1
	}
	return m
}

// lock returns the locked memory of a coupon.
func (m *Memory) lock(id coupon.CouponID) *line {
	for {
		l, ok := m.coupons.Get(id)
		if !ok {
			added := newLine()
			if l, ok, _ = m.coupons.PeekOrAdd(id, added); !ok {
				l = added
			}
		}
		if l.mu.Lock(); !l.gone {
			return l
		}
		l.mu.Unlock()
	}
}

// Seen returns the highest arrival of the coupon that this process has seen.
func (m *Memory) Seen(id coupon.CouponID) coupon.Arrival {
	l, ok := m.coupons.Peek(id)
	if !ok {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// replyTimeout is longer than a reply of Redis may take.
const replyTimeout = 5 * time.Second

// InJournal reports whether the journal is known to have what a reply has just told: an application at this arrival. If
// another server was seen a moment ago, the reply may be of either.
func (m *Memory) InJournal(id coupon.CouponID, arrival coupon.Arrival) bool {
	l, ok := m.coupons.Peek(id)
	if !ok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ripe.Covers(l.epoch, arrival) && m.now().Sub(l.changed) >= replyTimeout
}

// Answered remembers the answers of a reply, and begins a comparison if the server has changed or a restore has ended.
func (m *Memory) Answered(id coupon.CouponID, r candidates.Reply) {
	if r.Epoch == "" {
		return
	}
	l := m.lock(id)
	defer l.mu.Unlock()
	l.learn(r.Epoch, r.Restores, m.now())
	added := int64(0)
	for _, a := range r.Answers {
		if l.remember(a) {
			added++
		}
	}
	m.compareOnce(id, l)
	if m.remembered.Add(added) > m.limit && m.room.TryLock() {
		m.work.Go(func() {
			defer m.room.Unlock()
			m.makeRoom()
		})
	}
}

// makeRoom forgets the oldest answers.
func (m *Memory) makeRoom() {
	for m.remembered.Load() > m.limit {
		oldest := m.oldest()
		if oldest == nil {
			return
		}
		for left := int(m.limit/roomShare) + 1; left > 0; {
			oldest.mu.Lock()
			n := min(left, forgetAtOnce, len(oldest.told))
			for _, t := range oldest.told[:n] {
				if t.place != done {
					m.dropped.Add(1)
				}
			}
			oldest.drop(n)
			m.remembered.Add(-int64(n))
			oldest.mu.Unlock()
			if left -= n; n == 0 {
				break
			}
		}
	}
}

// oldest returns the line with the oldest answer; nil: there is none.
func (m *Memory) oldest() (oldest *line) {
	lowest := coupon.MaxArrival
	for _, l := range m.coupons.Values() {
		l.mu.Lock()
		if len(l.told) > 0 && l.told[0].Arrival <= lowest {
			oldest, lowest = l, l.told[0].Arrival
		}
		l.mu.Unlock()
	}
	return oldest
}

// Journalled notes how far the journal came, as MySQL says now, and forgets what has been there for long enough. What
// Redis said before must be known already: nobody may be forgotten who has to be handed over.
func (m *Memory) Journalled(id coupon.CouponID, mark promise.Mark) {
	l, ok := m.coupons.Peek(id)
	if !ok {
		return
	}
	l.mu.Lock()
	l.noteMark(mark, m.now(), m.keep)
	l.mu.Unlock()
	for n := forgetAtOnce; n == forgetAtOnce; {
		l.mu.Lock()
		n = l.forgetSome(forgetAtOnce)
		m.remembered.Add(-int64(n))
		l.mu.Unlock()
	}
}

// Forget forgets a coupon whose applications all have their outcomes.
func (m *Memory) Forget(id coupon.CouponID) { m.coupons.Remove(id) }

// Run looks at the coupons with remembered answers until ctx ends: without applicants and MySQL, nothing else would
// notice another server.
func (m *Memory) Run(ctx context.Context) {
	for sleep.For(ctx, lookInterval) == nil {
		m.look(ctx)
	}
}

// look returns the coupons with remembered answers that Redis did not answer about.
func (m *Memory) look(ctx context.Context) (silent map[coupon.CouponID]bool) {
	asked := map[coupon.CouponID]coupon.Known{}
	for id, l := range m.lines() {
		l.mu.Lock()
		if len(l.told) > 0 {
			asked[id] = coupon.Known{}
		}
		l.mu.Unlock()
	}
	if len(asked) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	looks, _ := m.store.Looks(ctx, asked) // those that are missing are silent
	silent = map[coupon.CouponID]bool{}
	for id := range asked {
		look, ok := looks[id]
		if !ok {
			silent[id] = true
			continue
		}
		l := m.lock(id)
		l.learn(look.Epoch, look.Restores, m.now())
		l.noteReturned(look, m.now(), m.keep)
		m.compareOnce(id, l)
		l.mu.Unlock()
	}
	return silent
}

func (m *Memory) lines() map[coupon.CouponID]*line {
	lines := map[coupon.CouponID]*line{}
	for _, id := range m.coupons.Keys() {
		if l, ok := m.coupons.Peek(id); ok {
			lines[id] = l
		}
	}
	return lines
}

// compareOnce begins a comparison if one is due and none is under way. The caller holds l.mu.
func (m *Memory) compareOnce(id coupon.CouponID, l *line) {
	if !l.todo || l.comparing || m.until.Err() != nil {
		return
	}
	select {
	case m.slots <- struct{}{}:
	default: // the next look begins it
		return
	}
	l.comparing = true
	m.work.Go(func() {
		defer func() { <-m.slots }()
		_ = m.compare(m.until, id, l) // it has logged the error
		l.mu.Lock()
		defer l.mu.Unlock()
		l.comparing = false
	})
}

// compare compares all answers with the present server, and logs what came of it. If another server takes over
// meanwhile, the next look begins again.
func (m *Memory) compare(ctx context.Context, id coupon.CouponID, l *line) error {
	c := l.beginComparison()
	err := m.compareAll(ctx, id, l, &c)
	m.handed.Add(int64(c.total))
	logger := m.logger.With(zap.Uint64("coupon_id", uint64(id)), zap.Int("handed_over", c.total))
	switch {
	case err != nil:
		logger.Error("answers not compared with redis; another attempt follows", zap.Error(err))
	case c.total > 0:
		logger.Warn("redis may have lost applications; they were handed over to a restore")
	}
	return err
}

func (m *Memory) compareAll(ctx context.Context, id coupon.CouponID, l *line, c *comparison) error {
	for {
		answers, numbers, valid := l.next(c)
		switch {
		case !valid:
			return nil
		case len(answers) == 0:
			l.endComparison(*c)
			return nil
		}
		handedOver, same, err := m.handOver(ctx, id, l, c, answers)
		if err != nil || !same {
			return err
		}
		l.note(c, numbers, handedOver)
		if err := sleep.For(ctx, pauseBetween); err != nil {
			return err
		}
	}
}

// handOver calls Redis once. same is false if the server serves another epoch: then nobody was handed over.
func (m *Memory) handOver(ctx context.Context, id coupon.CouponID, l *line, c *comparison,
	answers []coupon.Answer) (handedOver []int, same bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	epoch, handedOver, err := m.store.HandOver(ctx, id, c.epoch, c.again, answers)
	if err != nil {
		return nil, false, err
	}
	if epoch != c.epoch {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.learn(epoch, unknownRestores, m.now())
	}
	return handedOver, epoch == c.epoch, nil
}
