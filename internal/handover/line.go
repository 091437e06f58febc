package handover

import (
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/promise"
)

// line is the memory of one coupon. The mutex of the Memory guards it.
type line struct {
	used     time.Time      // when its last reply came
	epoch    string         // of the last server seen; empty: none was
	changed  time.Time      // when another server was last seen than before; zero: never
	restores int64          // as last seen in that epoch
	seen     coupon.Arrival // highest arrival that this process was told

	told      []told // in the order of the answers
	known     map[coupon.Answer]struct{}
	forgotten int // how many answers were forgotten from the front of told

	mark  promise.Mark // as last read
	marks []timedMark  // read less than keep ago, none of which lies behind the one before
	ripe  promise.Mark // the last that was read longer ago; no later one lies behind it

	changes   int  // how often todo was set
	todo      bool // the answers must be compared with the present server; until then none is forgotten
	again     bool // in the same epoch, because a restore has ended; also those handed over: MySQL may have lost them
	comparing bool // a goroutine compares them now

	handed     int       // answers with the place handed
	emptySince time.Time // since when nobody is handed over in the present epoch; zero: somebody is, or unknown
}

// told is an answer that a user got.
type told struct {
	coupon.Answer
	place place
}

// place is where the application of an answer is.
type place uint8

const (
	elsewhere place = iota // on a server before the present one, which was not asked yet
	standing               // on the present server
	handed                 // handed over in the present epoch
	done                   // in the journal, by a restore: it was handed over before
)

type timedMark struct {
	promise.Mark
	at time.Time // when it was read, by the clock of this process
}

func newLine() *line { return &line{known: map[coupon.Answer]struct{}{}} }

// unknownRestores is the number of ended restores when it is not known. It is below every number that a server tells.
const unknownRestores = -1

// learn takes over what a reply says of the server. Replies of one epoch may come in any order.
func (l *line) learn(epoch string, restores int64, now time.Time) {
	switch {
	case l.epoch == "":
	case l.epoch != epoch:
		l.todo, l.again = len(l.told) > 0, false
		l.changes, l.changed = l.changes+1, now
		l.handed, l.emptySince = 0, time.Time{}
		for i := range l.told {
			if l.told[i].place != done {
				l.told[i].place = elsewhere
			}
		}
	case restores > l.restores:
		l.again = len(l.told) > 0 && (l.again || !l.todo)
		l.todo = len(l.told) > 0
		l.changes++
	default:
		return
	}
	l.epoch, l.restores = epoch, restores
}

// remember keeps an answer of the present server once, unless the journal has had it for long enough. It reports
// whether the answer is new.
func (l *line) remember(a coupon.Answer) bool {
	l.seen = max(l.seen, a.Arrival)
	if l.ripe.Covers(l.epoch, a.Arrival) {
		return false
	}
	before := len(l.known)
	l.known[a] = struct{}{}
	if len(l.known) == before {
		return false
	}
	l.told = append(l.told, told{a, standing})
	return true
}

// comparison is a comparison of all answers with one server.
type comparison struct {
	epoch   string
	again   bool
	changes int
	at, end int // the next answer and the end, counted with those forgotten
}

func (l *line) beginComparison() comparison {
	return comparison{epoch: l.epoch, again: l.again, changes: l.changes, at: l.forgotten,
		end: l.forgotten + len(l.told)}
}

// next returns the next answers to compare, and their numbers.
func (l *line) next(c *comparison) (answers []coupon.Answer, numbers []int) {
	for c.at = max(c.at, l.forgotten); c.at < c.end && len(answers) < candidates.MaxAnswers; c.at++ {
		if t := l.told[c.at-l.forgotten]; t.place != done {
			answers, numbers = append(answers, t.Answer), append(numbers, c.at)
		}
	}
	return answers, numbers
}

// note notes what the server has said of answers: all stand there, but for those handed over, which are indexes of
// numbers.
func (l *line) note(numbers, handedOver []int) {
	places := make([]place, len(numbers))
	for i := range places {
		places[i] = standing
	}
	for _, i := range handedOver {
		places[i] = handed
	}
	for i, number := range numbers {
		if number < l.forgotten { // there was no room, or the coupon was forgotten
			continue
		}
		t := &l.told[number-l.forgotten]
		l.handed += count(places[i]) - count(t.place)
		t.place = places[i]
	}
	if len(handedOver) > 0 {
		l.emptySince = time.Time{}
	}
}

func count(p place) int {
	if p == handed {
		return 1
	}
	return 0
}

// noteMark notes how far the journal came. If it lies behind an earlier mark, MySQL has fallen back, or another server
// is copied: earlier marks count no more.
func (l *line) noteMark(mark promise.Mark, now time.Time, keep time.Duration) {
	if mark.Epoch != l.mark.Epoch || mark.UpTo < l.mark.UpTo {
		l.marks, l.ripe = nil, promise.Mark{}
	}
	l.mark = mark
	l.marks = append(l.marks, timedMark{mark, now})
	for len(l.marks) > 0 && now.Sub(l.marks[0].at) >= keep {
		l.ripe, l.marks = l.marks[0].Mark, l.marks[1:]
	}
}

// noteReturned notes whether somebody is handed over. Once nobody has been for long enough, a restore has dealt with
// all whom this process has handed over: the journal has them.
func (l *line) noteReturned(look coupon.Look, now time.Time, keep time.Duration) {
	switch {
	case look.Returned > 0 || l.todo || l.comparing:
		l.emptySince = time.Time{}
		return
	case l.emptySince.IsZero():
		l.emptySince = now
	}
	if l.handed == 0 || now.Sub(l.emptySince) < keep {
		return
	}
	for i := range l.told {
		if l.told[i].place == handed {
			l.told[i].place = done
		}
	}
	l.handed = 0
}

// forgettable returns how many of the oldest answers the journal has had for long enough, most at most.
func (l *line) forgettable(most int) (n int) {
	if l.todo || l.comparing {
		return 0
	}
	for n < min(most, len(l.told)) {
		t := l.told[n]
		if t.place != done && (t.place != standing || !l.ripe.Covers(l.epoch, t.Arrival)) {
			break
		}
		n++
	}
	return n
}

// drop removes the first n answers.
func (l *line) drop(n int) {
	l.forgotten += n
	if n == len(l.told) {
		l.told, l.known, l.handed = nil, map[coupon.Answer]struct{}{}, 0 // a map does not shrink
		return
	}
	for _, t := range l.told[:n] {
		delete(l.known, t.Answer)
		l.handed -= count(t.place)
	}
	if l.told = l.told[n:]; cap(l.told) > 4*len(l.told) {
		l.told = append(make([]told, 0, 2*len(l.told)), l.told...)
	}
}
