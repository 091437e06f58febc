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

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/sleep"
)

const (
	// maxAnswers is how many answers a process remembers, for all coupons together. An answer takes about 70 bytes.
	maxAnswers = 1 << 20
	// roomShare is the share of the oldest answers that is forgotten if there is no room.
	roomShare = 64
	// forgetAtOnce bounds the answers that are forgotten while applicants wait: about 0.1 ms.
	forgetAtOnce = 1000

	// lookInterval is how often the coupons with remembered answers are looked at.
	lookInterval = 2 * time.Second
	// unusedAfter is when a coupon without answers is forgotten: the clocks of two servers differ by seconds.
	unusedAfter = time.Minute
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

	slots chan struct{} // one for each comparison under way

	mu         sync.Mutex // nobody waits for a server, or for more than forgetAtOnce answers, while it is held
	lines      map[coupon.CouponID]*line
	makingRoom bool

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
		slots: make(chan struct{}, comparisons), lines: map[coupon.CouponID]*line{}}
	m.until, m.end = context.WithCancel(context.Background())
	return m
}

// Seen returns the highest arrival of the coupon that this process has seen.
func (m *Memory) Seen(id coupon.CouponID) coupon.Arrival {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.lines[id]; l != nil {
		return l.seen
	}
	return 0
}

// replyTimeout is longer than a reply of Redis may take.
const replyTimeout = 5 * time.Second

// InJournal reports whether the journal is known to have what a reply has just told: an application at this arrival. If
// another server was seen a moment ago, the reply may be of either.
func (m *Memory) InJournal(id coupon.CouponID, arrival coupon.Arrival) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lines[id]
	return l != nil && l.ripe.Covers(l.epoch, arrival) && m.now().Sub(l.changed) >= replyTimeout
}

// Epoch returns the epoch of the last reply; empty: there was none.
func (m *Memory) Epoch(id coupon.CouponID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.lines[id]; l != nil {
		return l.epoch
	}
	return ""
}

// Answered remembers the answers of a reply, and begins a comparison if the server has changed or a restore has ended.
func (m *Memory) Answered(id coupon.CouponID, r candidates.Reply) {
	if r.Epoch == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lines[id]
	if l == nil {
		l = newLine()
		m.lines[id] = l
	}
	l.used = m.now()
	l.learn(r.Epoch, r.Restores, l.used)
	added := int64(0)
	for _, a := range r.Answers {
		if l.remember(a) {
			added++
		}
	}
	m.compareOnce(id, l)
	if m.remembered.Add(added) > m.limit && !m.makingRoom {
		m.makingRoom = true
		m.work.Go(m.makeRoom)
	}
}

// makeRoom forgets the oldest answers.
func (m *Memory) makeRoom() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.remembered.Load() > m.limit {
		oldest := m.oldest()
		for left := int(m.limit/roomShare) + 1; left > 0 && len(oldest.told) > 0; {
			n := min(left, forgetAtOnce, len(oldest.told))
			for _, t := range oldest.told[:n] {
				if t.place != done {
					m.dropped.Add(1)
				}
			}
			m.drop(oldest, n)
			left -= n
			m.mu.Unlock() // applicants come first
			m.mu.Lock()
		}
	}
	m.makingRoom = false
}

// oldest returns the line with the oldest answer. There is one.
func (m *Memory) oldest() (oldest *line) {
	lowest := coupon.MaxArrival
	for _, l := range m.lines {
		if len(l.told) > 0 && l.told[0].Arrival <= lowest {
			oldest, lowest = l, l.told[0].Arrival
		}
	}
	return oldest
}

// drop forgets the first n answers of a coupon.
func (m *Memory) drop(l *line, n int) {
	l.drop(n)
	m.remembered.Add(-int64(n))
}

// Journalled notes how far the journal came, as MySQL says now, and forgets what has been there for long enough. What
// Redis said before must be known already: nobody may be forgotten who has to be handed over.
func (m *Memory) Journalled(id coupon.CouponID, mark promise.Mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lines[id]
	if l == nil {
		return
	}
	l.noteMark(mark, m.now(), m.keep)
	for n := forgetAtOnce; n == forgetAtOnce; {
		n = l.forgettable(forgetAtOnce)
		m.drop(l, n)
		m.mu.Unlock() // applicants come first
		m.mu.Lock()
	}
}

// Forget forgets a coupon whose applications all have their outcomes.
func (m *Memory) Forget(id coupon.CouponID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.lines[id]; l != nil {
		m.drop(l, len(l.told)) // a comparison under way finds no more answers
		delete(m.lines, id)
	}
}

// Run looks at the coupons with remembered answers until ctx ends: without applicants and MySQL, nothing else would
// notice another server.
func (m *Memory) Run(ctx context.Context) {
	for sleep.For(ctx, lookInterval) == nil {
		m.look(ctx)
	}
}

// look returns the coupons with remembered answers that Redis did not answer about.
func (m *Memory) look(ctx context.Context) (silent map[coupon.CouponID]bool) {
	asked := m.toLookAt()
	if len(asked) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	looks, _ := m.store.Looks(ctx, asked) // those that are missing are silent
	m.mu.Lock()
	defer m.mu.Unlock()
	silent = map[coupon.CouponID]bool{}
	for id := range asked {
		look, ok := looks[id]
		l := m.lines[id]
		switch {
		case !ok:
			silent[id] = true
		case l != nil:
			l.learn(look.Epoch, look.Restores, m.now())
			l.noteReturned(look, m.now(), m.keep)
			m.compareOnce(id, l)
		}
	}
	return silent
}

// toLookAt returns the coupons with remembered answers. It forgets those without, once they are not used any more.
func (m *Memory) toLookAt() map[coupon.CouponID]coupon.Known {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := map[coupon.CouponID]coupon.Known{}
	for id, l := range m.lines {
		if len(l.told) > 0 {
			asked[id] = coupon.Known{}
		} else if m.now().Sub(l.used) > unusedAfter {
			delete(m.lines, id)
		}
	}
	return asked
}

// compareOnce begins a comparison if one is due and none is under way. The caller holds m.mu.
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
		m.mu.Lock()
		defer m.mu.Unlock()
		l.comparing = false
	})
}

// compare compares all answers with the present server, and logs what came of it. If another server takes over
// meanwhile, the next look begins again.
func (m *Memory) compare(ctx context.Context, id coupon.CouponID, l *line) error {
	total, err := m.compareAll(ctx, id, l)
	m.handed.Add(int64(total))
	logger := m.logger.With(zap.Uint64("coupon_id", uint64(id)), zap.Int("handed_over", total))
	switch {
	case err != nil:
		logger.Error("answers not compared with redis; another attempt follows", zap.Error(err))
	case total > 0:
		logger.Warn("applications are accounted for nowhere; they were handed over to a restore")
	}
	return err
}

// compareAll returns how many were handed over.
func (m *Memory) compareAll(ctx context.Context, id coupon.CouponID, l *line) (total int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := l.beginComparison()
	for l.changes == c.changes { // else another comparison is due
		answers, numbers := l.next(&c)
		if len(answers) == 0 {
			l.todo, l.again = false, false
			return total, nil
		}
		m.mu.Unlock()
		epoch, handedOver, err := m.handOver(ctx, id, c, answers)
		m.mu.Lock()
		if err != nil {
			return total, err
		}
		if epoch != c.epoch { // nobody was handed over
			l.learn(epoch, unknownRestores, m.now())
			return total, nil
		}
		total += len(handedOver)
		l.note(numbers, handedOver)
		m.mu.Unlock()
		err = sleep.For(ctx, pauseBetween)
		m.mu.Lock()
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// handOver calls Redis once, and returns the epoch that the server serves.
func (m *Memory) handOver(ctx context.Context, id coupon.CouponID, c comparison,
	answers []coupon.Answer) (epoch string, handedOver []int, err error) {
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	return m.store.HandOver(ctx, id, c.epoch, c.again, answers)
}
