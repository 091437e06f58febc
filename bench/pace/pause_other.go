//go:build !linux

// Package pace sleeps between the requests of a benchmark.
package pace

import "time"

// Pause sleeps.
func Pause(d time.Duration) { time.Sleep(d) }
