//go:build !linux

package load

import "time"

// pause sleeps.
func pause(d time.Duration) { time.Sleep(d) }
