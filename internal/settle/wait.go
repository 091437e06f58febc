package settle

import (
	"context"
	"time"
)

// Wait returns when d has passed, or with the cause when ctx has ended.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
