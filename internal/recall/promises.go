package recall

import (
	"slices"
	"sync"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
)

const (
	// keepFor is how long an answer is remembered: until replicas certainly have its application.
	keepFor = 10 * time.Second

	// maxAnswers bounds the memory of a process, at up to 64 bytes per answer.
	maxAnswers = 1 << 20
)

// batch holds the answers of one call.
type batch struct {
	answers []candidates.Answer
	at      int64 // when, µs since 1970 by the shard's clock
	epoch   int   // epoch whose server has them for certain, as promises.number; 0: none
}

// promises is the memory of one coupon: the counts that this process has seen, and its answers.
type promises struct {
	mu   sync.Mutex
	seen candidates.Seen

	batches   []batch  // by time; those before first are forgotten
	first     int      // index of the oldest batch
	count     int      // of answers
	now       int64    // the shard's clock in the last reply, µs since 1970
	epochs    []string // all epochs that batches refer to
	changes   int      // how often the epoch has changed
	changed   bool     // the answers are not compared with the present epoch's server yet
	comparing bool     // a goroutine compares them

	counters *counters
}

// learn takes over the counts of a reply to a script that carried what was seen before.
func (p *promises) learn(carried candidates.Seen, r candidates.Reply) {
	seen := &p.seen
	p.now, seen.LastArrival = r.Now, max(seen.LastArrival, r.LastArrival)
	switch {
	case r.Epoch == seen.Epoch:
		seen.Accepted, seen.Twice = max(seen.Accepted, r.Accepted), max(seen.Twice, r.Twice)
		return
	case carried.Epoch == seen.Epoch && (carried.Accepted < seen.Accepted || carried.Twice < seen.Twice):
		// Another call has learned more of the old epoch meanwhile. The next call carries that to the new epoch.
	case seen.Epoch == "":
		for i := range p.batches { // answers without a reply had no clock yet
			p.batches[i].at = r.Now
		}
		seen.Epoch, seen.Accepted, seen.Twice = r.Epoch, r.Accepted, r.Twice
		return
	default: // the next epoch, or a late reply of the previous one, which makes the next reply a change again
		seen.Epoch, seen.Accepted, seen.Twice = r.Epoch, r.Accepted, r.Twice
	}
	p.doubt()
}

// doubt records that the present server may lack answers.
func (p *promises) doubt() {
	p.changes++
	p.changed = p.count > 0
}

// number returns an epoch's index in epochs plus 1; 0 for no epoch.
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

// uncompared returns answers that the server of an epoch may lack, whole batches from one on, and the index behind them.
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
		answers = append(answers, b.answers...)
	}
	return answers, to
}

// compared records that the server of an epoch has these batches. They are kept for a full period again.
func (p *promises) compared(from, to int, epoch string) {
	known := p.number(epoch)
	for i := from; i < min(to, len(p.batches)); i++ {
		p.batches[i].at, p.batches[i].epoch = p.now, known
	}
}

// remember appends the answers of a call in an epoch, as far as there is room.
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

// expire forgets old answers, unless they still have to be compared.
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

// forgetAll forgets every answer.
func (p *promises) forgetAll() {
	p.forget(len(p.batches))
	p.changed = false
}

// forget drops the batches before an index.
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
	if p.first > len(p.batches)/2 { // rarely, to move little
		p.batches, p.first = append(make([]batch, 0, 2*(len(p.batches)-p.first)), p.batches[p.first:]...), 0
	}
}
