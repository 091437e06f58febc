package load

import (
	"syscall"
	"time"
)

// pause sleeps with a precision of some ten microseconds. A signal may end it early. Timers of Go may be a millisecond
// late on an idle machine.
func pause(d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&t, nil)
}
