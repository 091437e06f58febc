package main

import (
	"slices"
	"time"
)

// waits are durations of single requests or users.
type waits []time.Duration

func (w waits) quantile(q float64) time.Duration {
	if len(w) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(w))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
