package promisemodel

import (
	"math/rand/v2"
	"slices"
)

// walks go deeper than a search breadth first: random sequences of steps. Each state is judged.
type walks struct {
	law    *law
	length int
	found  map[string][]step
	judged map[uint64]bool
	steps  int
}

// walk follows random sequences of the law. A violation ends a sequence and is made shorter, and ends all if first is
// true.
func walk(l *law, seed uint64, sequences, length int, first bool) *walks {
	l.steps = l.allSteps()
	l.withoutLimits()
	r := &walks{law: l, length: length, found: map[string][]step{}, judged: map[uint64]bool{}}
	random := rand.New(rand.NewPCG(seed, 0))
	for range sequences {
		violation, sequence := r.once(random)
		if violation == "" {
			continue
		}
		if old, known := r.found[violation]; !known || len(sequence) < len(old)+4 {
			sequence = l.shorten(sequence, violation)
			if !known || len(sequence) < len(old) {
				r.found[violation] = sequence
			}
		}
		if first {
			return r
		}
	}
	return r
}

// once walks until a violation. Faults and acts of operators are as seldom as if there were few of them.
func (r *walks) once(random *rand.Rand) (violation string, sequence []step) {
	w := newWorld(r.law)
	for range 20 * r.length {
		if len(sequence) == r.length {
			break
		}
		s := r.law.steps[random.IntN(len(r.law.steps))]
		if s.action > firstAct && random.IntN(6) > 0 {
			continue
		}
		next := w
		if !next.do(s) || next == w {
			continue
		}
		if next.happened.overfull || !next.renumber() {
			break
		}
		w = next
		sequence = append(sequence, s)
		r.steps++
		hash := w.hash()
		if r.judged[hash] {
			continue
		}
		r.judged[hash] = true
		if violation = judge(w); violation != "" {
			return violation, sequence
		}
	}
	return "", nil
}

// replay is false if a step of the sequence cannot happen.
func (l *law) replay(sequence []step) (world, bool) {
	w := newWorld(l)
	for _, s := range sequence {
		if !w.do(s) || w.happened.overfull || !w.renumber() {
			return w, false
		}
	}
	return w, true
}

// shorten leaves out steps as long as the violation stays.
func (l *law) shorten(sequence []step, violation string) []step {
	for size := 4; size > 0; size-- {
		for i := 0; i+size <= len(sequence); {
			shorter := slices.Delete(slices.Clone(sequence), i, i+size)
			if w, ok := l.replay(shorter); ok && judge(w) == violation {
				sequence, size, i = shorter, 4, 0
				continue
			}
			i++
		}
	}
	return sequence
}
