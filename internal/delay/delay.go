// Package delay waits for a duration or until a context is done.
package delay

import (
	"context"
	"time"
)

// For waits for d and returns nil, or returns the context's cause if the context is done
// first.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
