package promisemodel

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// exploration is a search, breadth first, that visits every state of a law once.
type exploration struct {
	law     *law
	mu      [64]sync.Mutex
	visited [64]map[uint64]node
	found   map[string][]step // the shortest sequence to each violation
	foundMu sync.Mutex
	states  int
	depth   int
	whole   bool
}

type node struct {
	parent uint64
	step   uint8 // of the law
}

type state struct {
	world world
	hash  uint64
}

// explore ends early at the limit, or at the first level with a violation if first is true.
func explore(l *law, limit time.Duration, first bool) *exploration {
	x := &exploration{law: l, found: map[string][]step{}}
	for i := range x.visited {
		x.visited[i] = map[uint64]node{}
	}
	l.steps = l.allSteps()
	l.withoutLimits()
	w, possible := l.replay(l.after)
	if !possible {
		panic("the first steps cannot happen")
	}
	w.renumber()
	level := []state{{w, w.hash()}}
	x.visit(level[0].hash, node{})
	deadline := time.Now().Add(limit)
	for len(level) > 0 {
		if first && len(x.found) > 0 {
			return x
		}
		x.depth++
		parts := make([][]state, runtime.GOMAXPROCS(0))
		var group sync.WaitGroup
		for i := range parts {
			group.Go(func() {
				for j := i; j < len(level); j += len(parts) {
					if j&255 == i && time.Now().After(deadline) {
						return
					}
					parts[i] = x.follow(&level[j], parts[i])
				}
			})
		}
		group.Wait()
		level = slices.Concat(parts...)
		if time.Now().After(deadline) {
			x.count()
			return x
		}
	}
	x.whole = true
	x.count()
	return x
}

func (x *exploration) count() {
	for _, part := range x.visited {
		x.states += len(part)
	}
}

// visit is true for the first visit.
func (x *exploration) visit(hash uint64, n node) bool {
	part := hash % 64
	x.mu[part].Lock()
	defer x.mu[part].Unlock()
	if _, known := x.visited[part][hash]; known {
		return false
	}
	x.visited[part][hash] = n
	return true
}

// follow adds the new states that follow a state.
func (x *exploration) follow(from *state, following []state) []state {
	for i, s := range x.law.steps {
		w := from.world
		if !w.do(s) || w == from.world || w.happened.overfull || !w.renumber() {
			continue
		}
		hash := w.hash()
		if !x.visit(hash, node{from.hash, uint8(i)}) {
			continue
		}
		if violation := judge(w); violation != "" {
			x.report(violation, hash)
			continue // what follows a violation is no news
		}
		following = append(following, state{w, hash})
	}
	return following
}

func (x *exploration) report(violation string, hash uint64) {
	x.foundMu.Lock()
	defer x.foundMu.Unlock()
	if _, known := x.found[violation]; known {
		return
	}
	var steps []step
	for {
		part := hash % 64
		x.mu[part].Lock()
		n := x.visited[part][hash]
		x.mu[part].Unlock()
		if n.parent == 0 {
			break
		}
		steps = append(steps, x.law.steps[n.step])
		hash = n.parent
	}
	slices.Reverse(steps)
	x.found[violation] = steps
}
