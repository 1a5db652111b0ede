package pregel

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type contextKey struct{}

// From the end of the run's context on, a waiting saver has PutTimeout, whether it uses
// Done or Err.
func TestSaverTimeIsLimitedAfterRun(t *testing.T) {
	for name, ended := range map[string]func(context.Context) <-chan struct{}{
		"by Done": func(ctx context.Context) <-chan struct{} { return ctx.Done() },
		"by a context made of it": func(ctx context.Context) <-chan struct{} {
			inner, cancel := context.WithCancel(ctx)
			t.Cleanup(cancel)
			return inner.Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.WithValue(t.Context(), contextKey{}, "value"))
				r := &Run{ctx: ctx, set: &Settings{PutTimeout: time.Minute}}
				c := newSaverContext(r)
				if c.Err() != nil || c.Value(contextKey{}) != "value" || context.Cause(c) != nil {
					t.Errorf("it starts with %v, %v, %v", c.Err(), c.Value(contextKey{}), context.Cause(c))
				}
				done := ended(c)
				cancel()
				begun := time.Now()
				if c.Err() != nil {
					t.Errorf("it ends with the run: %v", c.Err())
				}
				<-done
				if took := time.Since(begun); took != time.Minute || !errors.Is(context.Cause(c), errStalled) || c.Value(contextKey{}) != "value" {
					t.Errorf("it ended after %v with %v, want %v and %v", took, context.Cause(c), time.Minute, errStalled)
				}
				c.release()
			})
		})
	}
}

// A context that ended before its first use reports that later, and leaks nothing.
func TestSaverContextEndsWithRun(t *testing.T) {
	for _, asked := range []bool{false, true} {
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), contextKey{}, "value"))
		defer cancel()
		c := newSaverContext(&Run{ctx: ctx, set: &Settings{}})
		if asked {
			c.Done()
		}
		c.release()
		select {
		case <-c.Done():
		default:
			t.Errorf("asked before: %v; it has not ended", asked)
		}
		if !errors.Is(c.Err(), context.Canceled) || !errors.Is(context.Cause(c), context.Canceled) || c.Value(contextKey{}) != "value" {
			t.Errorf("asked before: %v; it ended with %v, %v, %v", asked, c.Err(), context.Cause(c), c.Value(contextKey{}))
		}
	}
}
