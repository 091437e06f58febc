package main

import (
	"runtime"
	"time"
)

// pace wakes each connection when its next request is due. The connections could sleep by themselves, but Go's timers may
// be a whole millisecond late on a machine that is idle: more than most answers take.
func (l load) pace(t schedule, senders []*sender) {
	runtime.GOMAXPROCS(runtime.NumCPU() + 1) // one for this, which mostly sleeps
	for turn := 0; ; turn++ {
		s := senders[turn%len(senders)]
		due := s.due(t, turn/len(senders))
		if !due.Before(t.until) {
			break
		}
		for time.Until(due) > 0 {
			pause(max(time.Until(due), leastPause))
		}
		s.awake()
	}
	for _, s := range senders {
		close(s.wake)
	}
}

// leastPause lets requests that are due within it go out together: waking for each would take a core of its own.
const leastPause = 100 * time.Microsecond

// awake does not wait: a connection that is busy looks at the clock before it sleeps.
func (s *sender) awake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// await returns when it is time.
func (s *sender) await(due time.Time) {
	for time.Until(due) > 0 {
		<-s.wake
	}
}
