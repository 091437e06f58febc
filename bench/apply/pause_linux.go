package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// pause sleeps with a precision of some ten microseconds. A signal may end it early.
func pause(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&t, nil)
}
