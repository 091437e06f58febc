package recall

import (
	"slices"
	"sync"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

const (
	// keepFor is how long an answer is remembered. After this time the replicas certainly have the application.
	keepFor = 10 * time.Second

	// maxAnswers is how many answers a process remembers, for all coupons together. An answer takes up to 64 bytes.
	maxAnswers = 1 << 20
)

// batch holds the answers of one call.
type batch struct {
	answers []candidates.Answer
	at      int64 // time of the call on the clock of the coupon's Redis shard, µs since 1970
	epoch   int   // number of the epoch whose server certainly has the applications; 0: none. See promises.number
}

// promises is the memory of one coupon: the counts that this process has seen, and its answers.
type promises struct {
	mu   sync.Mutex
	seen candidates.Seen

	batches   []batch  // ordered by time; those before index first are forgotten
	first     int      // index of the oldest remembered batch
	count     int      // number of remembered answers
	now       int64    // time in the last reply, on the clock of the coupon's Redis shard, µs since 1970
	epochs    []string // all epochs that batches refer to
	changes   int      // how often the server changed, or lost the coupon's state
	changed   bool     // whether answers must still be compared with the present server
	comparing bool     // whether a goroutine compares them now

	above coupon.Arrival // arrivals up to it are not compared

	counters *counters
}

// learn takes over the counts in the reply of a script. carried is what the process passed to the script.
func (p *promises) learn(carried candidates.Seen, r candidates.Reply) {
	seen := &p.seen
	p.now, seen.LastArrival = r.Now, max(seen.LastArrival, r.LastArrival)
	switch {
	case r.Epoch == seen.Epoch:
		seen.Accepted, seen.Twice = max(seen.Accepted, r.Accepted), max(seen.Twice, r.Twice)
		return
	case carried.Epoch == seen.Epoch && (carried.Accepted < seen.Accepted || carried.Twice < seen.Twice):
		// Meanwhile another reply brought higher counts of the old epoch. The next call passes these to the new server.
	case seen.Epoch == "":
		for i := range p.batches { // no Redis time was known for them yet
			p.batches[i].at = r.Now
		}
		seen.Epoch, seen.Accepted, seen.Twice = r.Epoch, r.Accepted, r.Twice
		return
	default: // a new epoch; or a late reply of the old one, after which the next reply looks like a new epoch
		seen.Epoch, seen.Accepted, seen.Twice = r.Epoch, r.Accepted, r.Twice
	}
	p.doubt()
}

// doubt records that the present server may lack remembered applications.
func (p *promises) doubt() {
	p.changes++
	p.changed, p.above = p.count > 0, 0
}

// doubtAbove is doubt about arrivals above the given one, although the present server had the applications once.
func (p *promises) doubtAbove(arrival coupon.Arrival) {
	if p.changed { // all of them are being compared
		return
	}
	for i := p.first; i < len(p.batches); i++ {
		p.batches[i].epoch = 0
	}
	p.doubt()
	p.above = arrival
}

// number returns the number of an epoch: its index in epochs plus 1. It is 0 if epoch is empty.
func (p *promises) number(epoch string) int {
	if epoch == "" {
		return 0
	}
	if i := slices.Index(p.epochs, epoch); i >= 0 {
		return i + 1
	}
	p.epochs = append(p.epochs, epoch)
	return len(p.epochs)
}

// uncompared returns answers that the server of an epoch may lack: those of the batches from … to-1.
func (p *promises) uncompared(from int, epoch string) (answers []candidates.Answer, to int) {
	known := p.number(epoch)
	for to = from; to < len(p.batches); to++ {
		b := p.batches[to]
		if b.epoch == known {
			continue
		}
		if len(answers) > 0 && len(answers)+len(b.answers) > candidates.MaxAnswers {
			break
		}
		for _, a := range b.answers {
			if p.above == 0 || a.Arrival > p.above {
				answers = append(answers, a)
			}
		}
	}
	return answers, to
}

// compared records that the server of an epoch has the batches from … to-1. They are remembered for another keepFor.
func (p *promises) compared(from, to int, epoch string) {
	known := p.number(epoch)
	for i := from; i < min(to, len(p.batches)); i++ {
		p.batches[i].at, p.batches[i].epoch = p.now, known
	}
}

// remember appends the answers of one call, as far as there is room. epoch is empty if the reply was lost.
func (p *promises) remember(answers []candidates.Answer, epoch string) {
	if over := p.counters.remembered.Add(int64(len(answers))) - maxAnswers; over > 0 {
		left := min(int(over), len(answers))
		p.counters.remembered.Add(-int64(left))
		p.counters.dropped.Add(int64(left))
		answers = answers[:len(answers)-left]
	}
	if len(answers) > 0 {
		p.batches = append(p.batches, batch{answers, p.now, p.number(epoch)})
		p.count += len(answers)
	}
}

// expire forgets answers that are older than keepFor, unless a comparison is still due.
func (p *promises) expire() {
	if p.changed {
		return
	}
	n := p.first
	for n < len(p.batches) && p.batches[n].at <= p.now-keepFor.Microseconds() {
		n++
	}
	p.forget(n)
}

func (p *promises) forgetAll() {
	p.forget(len(p.batches))
	p.changed = false
}

func (p *promises) forget(before int) {
	for ; p.first < before; p.first++ {
		n := len(p.batches[p.first].answers)
		p.count -= n
		p.counters.remembered.Add(-int64(n))
		p.batches[p.first] = batch{}
	}
	if p.count == 0 {
		p.epochs = nil
	}
	if p.first > len(p.batches)/2 { // only when half of the slice is unused, so that little is copied
		p.batches, p.first = append(make([]batch, 0, 2*(len(p.batches)-p.first)), p.batches[p.first:]...), 0
	}
}
