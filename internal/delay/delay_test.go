package delay_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle/internal/delay"
)

func TestForWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := delay.For(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got != time.Hour {
			t.Errorf("waited %v, want an hour", got)
		}
	})
}

func TestForEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		time.AfterFunc(time.Minute, func() { cancel(cause) })
		start := time.Now()
		if err := delay.For(ctx, time.Hour); !errors.Is(err, cause) {
			t.Errorf("error %v, want the cause", err)
		}
		if got := time.Since(start); got != time.Minute {
			t.Errorf("waited %v, want a minute", got)
		}
	})
}
