//go:build !linux

// Package pace paces the requests of a benchmark.
package pace

import "time"

// Pause sleeps.
func Pause(d time.Duration) { time.Sleep(d) }
