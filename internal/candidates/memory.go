package candidates

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

const (
	// rememberedFor is how long a process remembers whom it told that they stand in line.
	rememberedFor = 10 * time.Second

	// mostRemembered bounds the memory of a process, all coupons together, at 64 bytes each at most.
	mostRemembered = 1 << 20
)

// PutBackTime is how long a settlement waits for pods after another server took over: two refreshes of the catalog, each of
// which asks which server it is. It is a variable for tests alone.
var PutBackTime = 10 * time.Second

// answered is one answer that a process gave.
type answered struct {
	user    coupon.UserID
	arrival coupon.Arrival // µs since 1970; 0: Redis did not answer, and the user was told to ask again
}

// batch are the answers of one call.
type batch struct {
	answers []answered
	at      int64 // when, by the clock of the shard, µs since 1970
	epoch   int   // of the server that is known to have them, as memory.number; 0: of none
}

// memory is what a process remembers of one coupon: the promises it has seen, and whom it told of theirs. An epoch is the
// time of one server; see lua/epoch.lua.
type memory struct {
	mu       sync.Mutex
	arrival  coupon.Arrival // highest ever seen
	epoch    string         // the latest one that answered; empty: none has
	accepted int64          // highest count seen in it
	twice    int64          // the same

	batches []batch // in the order of time; those before first are forgotten
	first   int
	count   int      // of answers in them
	now     int64    // the clock of the shard at its last answer, µs since 1970
	changes int      // of the epoch, ever
	changed bool     // answers have not been compared with what stands in Redis since the last one
	epochs  []string // that ever were
	putting bool     // somebody compares it
}

// seen is what a process carries into a script.
type seen struct {
	arrival  coupon.Arrival
	epoch    string
	accepted int64
	twice    int64
}

func (m *memory) seen() seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	return seen{m.arrival, m.epoch, m.accepted, m.twice}
}

// heard is what a script answered.
type heard struct {
	seen
	now int64
}

// learn takes over what a script answered that was told carried, and says whether whom this process remembers is to be
// compared with what stands in Redis.
func (m *memory) learn(carried seen, h heard) (changed bool) {
	m.arrival, m.now = max(m.arrival, h.arrival), h.now
	switch {
	case h.epoch == m.epoch:
		m.accepted, m.twice = max(m.accepted, h.accepted), max(m.twice, h.twice)
		return m.changed
	case carried.epoch == m.epoch && (carried.accepted < m.accepted || carried.twice < m.twice):
		// Another call has learned more since: the next one carries that before it is given up.
	case m.epoch == "":
		for i := range m.batches { // there was no clock yet
			m.batches[i].at = h.now
		}
		m.epoch, m.accepted, m.twice = h.epoch, h.accepted, h.twice
		return m.changed
	default: // the next epoch, or a late answer of the one before, of which the next has not been told
		m.epoch, m.accepted, m.twice = h.epoch, h.accepted, h.twice
	}
	m.changes++
	m.changed = m.count > 0
	return m.changed
}

// lost notes that the server has no state of the coupon any more.
func (m *memory) lost() {
	if m.count > 0 {
		m.changes++
		m.changed = true
	}
}

// number is an epoch's place in epochs, from 1; 0 is that of none.
func (m *memory) number(epoch string) int {
	if epoch == "" {
		return 0
	}
	if i := slices.Index(m.epochs, epoch); i >= 0 {
		return i + 1
	}
	m.epochs = append(m.epochs, epoch)
	return len(m.epochs)
}

// open are up to most of those whom the server of this epoch is not known to have, whole batches from one on; to is the batch
// behind them.
func (m *memory) open(from, most int, epoch string) (open []answered, to int) {
	known := m.number(epoch)
	for to = from; to < len(m.batches); to++ {
		b := m.batches[to]
		if b.epoch == known {
			continue
		}
		if len(open) > 0 && len(open)+len(b.answers) > most {
			break
		}
		open = append(open, b.answers...)
	}
	return open, to
}

// compared notes that the server of this epoch has them now. They are remembered anew, since it may be taken over from, too.
func (m *memory) compared(from, to int, epoch string) {
	known := m.number(epoch)
	for i := from; i < min(to, len(m.batches)); i++ {
		m.batches[i].at, m.batches[i].epoch = m.now, known
	}
}

// forget drops whom Redis has kept for long enough. While it is open whether the present server has them, all stay.
func (m *memory) forget(total *atomic.Int64) {
	if m.changed {
		return
	}
	n := m.first
	for n < len(m.batches) && m.batches[n].at <= m.now-rememberedFor.Microseconds() {
		n++
	}
	m.drop(n, total)
}

// drop forgets the batches before one.
func (m *memory) drop(before int, total *atomic.Int64) {
	for ; m.first < before; m.first++ {
		n := len(m.batches[m.first].answers)
		m.count -= n
		total.Add(-int64(n))
		m.batches[m.first] = batch{}
	}
	if m.count == 0 {
		m.epochs = nil
	}
	if m.first > len(m.batches)/2 { // seldom, so that little is moved
		m.batches, m.first = append(make([]batch, 0, 2*(len(m.batches)-m.first)), m.batches[m.first:]...), 0
	}
}

// remember keeps answers of an epoch, as far as there is room, and returns how many could not be kept.
func (m *memory) remember(answers []answered, epoch string, total *atomic.Int64) (left int) {
	if over := total.Add(int64(len(answers))) - mostRemembered; over > 0 {
		left = min(int(over), len(answers))
		total.Add(-int64(left))
	}
	if answers = answers[:len(answers)-left]; len(answers) > 0 {
		m.batches = append(m.batches, batch{answers, m.now, m.number(epoch)})
		m.count += len(answers)
	}
	return left
}
