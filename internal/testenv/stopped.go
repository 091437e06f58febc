package testenv

import "time"

// Stopped is a clock of a zap logger that stands still: to a sampler, all lines are of one second.
type Stopped struct{}

func (Stopped) Now() time.Time { return time.Unix(0, 0) }

func (Stopped) NewTicker(d time.Duration) *time.Ticker { return time.NewTicker(d) }
