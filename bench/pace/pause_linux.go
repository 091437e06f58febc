// Package pace paces the requests of a benchmark.
package pace

import (
	"time"

	"golang.org/x/sys/unix"
)

// Pause sleeps with a precision of some ten microseconds. A signal may end it early. Timers of Go may be a millisecond late
// on an idle machine.
func Pause(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&t, nil)
}
