package serve

import (
	"math/rand/v2"
	"time"
)

// The pause after a failure doubles with each failure.
const (
	firstPause = 200 * time.Millisecond
	maxPause   = 5 * time.Second
)

// jitter is the share by which a wait is longer or shorter, so that replicas do not act at the same time.
const jitter = 0.1

// pause is the wait after failures in a row. Its zero value has seen no failure.
type pause struct{ last time.Duration }

func (p *pause) next() time.Duration {
	p.last = min(max(2*p.last, firstPause), maxPause)
	return jittered(p.last)
}

func (p *pause) reset() { p.last = 0 }

func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64()))
}
