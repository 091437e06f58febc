package candidates

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// rememberedFor is how long a process remembers whom it told that they stand in line.
	rememberedFor = 10 * time.Second

	// mostRemembered bounds the memory of a process, all coupons together, at 32 bytes each.
	mostRemembered = 1 << 20
)

// PutBackTime is how long a settlement waits for pods after another server took over: two refreshes of the catalog, each of
// which asks which server it is. It is a variable for tests alone.
var PutBackTime = 10 * time.Second

// answered is one answer that a process gave.
type answered struct {
	user    uint64
	arrival int64 // µs since 1970; 0: Redis did not answer, and the user was told to ask again
	at      int64 // when, by the clock of the shard, µs since 1970
	epoch   int   // of the server that is known to have it, as memory.number; 0: of none
}

// memory is what a process remembers of one coupon: the promises it has seen, and whom it told of theirs. An epoch is the
// time of one server; see lua/epoch.lua.
type memory struct {
	mu       sync.Mutex
	arrival  int64  // highest ever seen
	epoch    string // the latest one that answered; empty: none has
	accepted int64  // highest count seen in it
	twice    int64  // the same

	answers []answered // in the order of time; those before first are forgotten
	first   int
	now     int64    // the clock of the shard at its last answer, µs since 1970
	changes int      // of the epoch, ever
	changed bool     // answers have not been compared with what stands in Redis since the last one
	epochs  []string // that ever were
	putting bool     // somebody compares it
}

// seen is what a process carries into a script.
type seen struct {
	arrival  int64
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
		for i := range m.answers { // there was no clock yet
			m.answers[i].at = h.now
		}
		m.epoch, m.accepted, m.twice = h.epoch, h.accepted, h.twice
		return m.changed
	default: // the next epoch, or a late answer of the one before, of which the next has not been told
		m.epoch, m.accepted, m.twice = h.epoch, h.accepted, h.twice
	}
	m.changes++
	m.changed = m.remembers() > 0
	return m.changed
}

func (m *memory) remembers() int { return len(m.answers) - m.first }

// lost notes that the server has no state of the coupon any more.
func (m *memory) lost() {
	if m.remembers() > 0 {
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

// open are those among the answers from one place to another that the server of this epoch is not known to have.
func (m *memory) open(from, to int, epoch string) (open []answered) {
	known := m.number(epoch)
	for _, a := range m.answers[min(from, len(m.answers)):min(to, len(m.answers))] {
		if a.epoch != known {
			open = append(open, a)
		}
	}
	return open
}

// compared notes that the server of this epoch has them now. They are remembered anew, since it may be taken over from, too.
func (m *memory) compared(from, to int, epoch string) {
	known := m.number(epoch)
	for i := from; i < min(to, len(m.answers)); i++ {
		m.answers[i].at, m.answers[i].epoch = m.now, known
	}
}

// forget drops whom Redis has kept for long enough. While it is open whether the present server has them, all stay.
func (m *memory) forget(total *atomic.Int64) {
	if m.changed {
		return
	}
	n := m.first
	for n < len(m.answers) && m.answers[n].at <= m.now-rememberedFor.Microseconds() {
		n++
	}
	m.drop(n-m.first, total)
}

// drop forgets the first n of those who are remembered.
func (m *memory) drop(n int, total *atomic.Int64) {
	total.Add(-int64(n))
	if m.first += n; m.first > len(m.answers)/2 { // seldom, so that little is moved
		m.answers, m.first = append(make([]answered, 0, 2*m.remembers()), m.answers[m.first:]...), 0
	}
}

// remember keeps answers of an epoch, as far as there is room, and returns how many could not be kept.
func (m *memory) remember(answers []answered, epoch string, total *atomic.Int64) (left int) {
	if over := total.Add(int64(len(answers))) - mostRemembered; over > 0 {
		left = min(int(over), len(answers))
		total.Add(-int64(left))
	}
	known := m.number(epoch)
	for _, a := range answers[:len(answers)-left] {
		a.at, a.epoch = m.now, known
		m.answers = append(m.answers, a)
	}
	return left
}
