// Package delay waits for a time or for the end of a context.
package delay

import (
	"context"
	"time"
)

// For waits for d and returns nil, or the context's cause if the context ends
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
