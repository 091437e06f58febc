package main

import (
	"runtime"
	"time"

	"github.com/jajeong/jajeong/bench/pace"
)

// pace wakes each connection when its next request is due. Timers of Go may be a millisecond late on an idle machine, which
// is longer than most answers take.
func (l load) pace(t schedule, senders []*sender) {
	runtime.GOMAXPROCS(runtime.NumCPU() + 1) // one more for this goroutine, which mostly sleeps
	for turn := 0; ; turn++ {
		s := senders[turn%len(senders)]
		due := s.due(t, turn/len(senders))
		if !due.Before(t.until) {
			break
		}
		for time.Until(due) > 0 {
			pace.Pause(max(time.Until(due), minPause))
		}
		s.awake()
	}
	for _, s := range senders {
		close(s.wake)
	}
}

// minPause groups the requests that are due within it. A wake-up for each would use a whole core.
const minPause = 100 * time.Microsecond

// awake does not block. A busy connection checks the clock before it sleeps.
func (s *sender) awake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// await returns when a request is due.
func (s *sender) await(due time.Time) {
	for time.Until(due) > 0 {
		<-s.wake
	}
}
