// Package sleep waits in a way that a request to stop can end.
package sleep

import (
	"context"
	"time"
)

// For returns nil after d. If ctx ends before that, it returns the cause.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
