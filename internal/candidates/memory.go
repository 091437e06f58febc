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
	epoch   int   // in memory.epochs: whose server has it; 0: not known
}

// memory is what a process remembers of one coupon: the promises it has seen, and whom it told of theirs. An epoch is the
// time of one server; see lua/epoch.lua.
type memory struct {
	mu       sync.Mutex
	arrival  int64  // highest ever seen
	epoch    string // the latest one that answered; empty: none has
	accepted int64  // highest count seen in it
	twice    int64  // the same

	answers []answered // in the order of time
	now     int64      // the clock of the shard at its last answer, µs since 1970
	changes int        // of the epoch, ever
	changed bool       // answers have not been compared with what stands in Redis since the last one
	epochs  []string   // that ever were; the first is none
	putting bool       // somebody compares it
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
	m.changed = len(m.answers) > 0
	return m.changed
}

// lost notes that the server has no state of the coupon any more.
func (m *memory) lost() {
	if len(m.answers) > 0 {
		m.changes++
		m.changed = true
	}
}

// number is an epoch's place in epochs.
func (m *memory) number(epoch string) int {
	if i := slices.Index(m.epochs, epoch); i >= 0 {
		return i
	}
	if len(m.epochs) == 0 {
		m.epochs = []string{""}
	}
	m.epochs = append(m.epochs, epoch)
	return len(m.epochs) - 1
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
	if m.changed || len(m.answers) == 0 {
		return
	}
	n := 0
	for n < len(m.answers) && m.answers[n].at <= m.now-rememberedFor.Microseconds() {
		n++
	}
	if n == len(m.answers) || n > len(m.answers)/2 { // seldom, so that little is moved
		m.drop(n, total)
	}
}

func (m *memory) drop(n int, total *atomic.Int64) {
	m.answers = append(make([]answered, 0, 2*(len(m.answers)-n)), m.answers[n:]...)
	total.Add(-int64(n))
}

// remember keeps answers of an epoch, as far as there is room, and returns how many could not be kept.
func (m *memory) remember(answers []answered, epoch string, total *atomic.Int64) (left int) {
	for i, a := range answers {
		if a.arrival > 0 {
			a.epoch = m.number(epoch)
		}
		if total.Add(1) > mostRemembered {
			total.Add(-1)
			return len(answers) - i
		}
		a.at = m.now
		m.answers = append(m.answers, a)
	}
	return 0
}
