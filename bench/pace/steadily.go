package pace

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/jajeong/jajeong/bench/line"
)

const (
	// minPause groups the requests that are due within it. A wake-up for each would use a whole core.
	minPause = 100 * time.Microsecond
	// longestStall is the time for which due requests can wait for a connection.
	longestStall = time.Minute
)

// Steadily calls ask for n = 0, 1, … at a steady rate until ctx ends, over so many connections. Answers do not change when a
// request is due: a stall shows in every request that was due during it.
func Steadily(ctx context.Context, rate float64, connections int, open func() *line.Line, ask func(l *line.Line, n int, due time.Time)) {
	type request struct {
		n   int
		due time.Time
	}
	waiting := make(chan request, int(rate*longestStall.Seconds()))
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			l := open()
			defer l.Close()
			for r := range waiting {
				ask(l, r.n, r.due)
			}
		})
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := time.Now()
	for sent := 0; ctx.Err() == nil; sent++ {
		due := began.Add(time.Duration(float64(sent) / rate * float64(time.Second)))
		for time.Until(due) > 0 {
			Pause(max(time.Until(due), minPause))
		}
		waiting <- request{sent, due}
	}
	close(waiting)
	all.Wait()
}
