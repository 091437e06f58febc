package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// pause sleeps to some ten microseconds. A signal may end it early.
func pause(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&t, nil)
}
