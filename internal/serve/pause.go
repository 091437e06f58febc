package serve

import (
	"math/rand/v2"
	"time"
)

// The pause after a failure doubles with each failure.
const (
	firstPause = 200 * time.Millisecond
	maxPause   = 5 * time.Second
	// maxUnchangedPause ends the pauses after runs that changed nothing. An entry that no run can settle then costs
	// little, and does not delay the next applicant much.
	maxUnchangedPause = time.Second
)

// A settlement refuses no more rows than this, since more mean a broken trigger or schema. Immediate runs are short, so
// they have to keep to it together: in each period, and in each process.
const (
	allowedRefusals = 100
	seatsPerRefusal = 100 // one more refused row for so many seats
	refusalPeriod   = time.Minute
)

// jitter is the share by which a wait is longer or shorter, so that replicas do not act at the same time.
const jitter = 0.1

// pause is the wait after failures in a row. Its zero value has seen no failure.
type pause struct{ last time.Duration }

func (p *pause) next(longest time.Duration) time.Duration {
	p.last = min(max(2*p.last, firstPause), longest)
	return jittered(p.last)
}

func (p *pause) reset() { p.last = 0 }

// reminderEvery is how often a failure that lasts is logged again.
const reminderEvery = time.Minute

// failure is a row of failed rounds. Its zero value has seen none.
type failure struct {
	pause  pause
	logged time.Time // zero: the last round did not fail
}

// next returns the wait after a failed round, and whether to log the error: the first one, and then one a minute.
func (f *failure) next(now time.Time) (wait time.Duration, log bool) {
	if log = f.logged.IsZero() || now.Sub(f.logged) >= reminderEvery; log {
		f.logged = now
	}
	return f.pause.next(maxPause), log
}

// end forgets the failures before a round that did not fail. It reports whether there were any.
func (f *failure) end() (failed bool) {
	failed = !f.logged.IsZero()
	*f = failure{}
	return failed
}

func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64()))
}
