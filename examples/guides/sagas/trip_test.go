package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// fake is an agency that records successful requests.
type fake struct {
	refuse string       // what it refuses to book
	fail   func() error // if not nil, called before each cancellation
	mu     sync.Mutex   // treadle.Wake runs the workflow in another goroutine
	done   []string
}

func (f *fake) record(request string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, request)
}

func (f *fake) Book(_ context.Context, what, _, _ string) (Booking, error) {
	if what == f.refuse {
		return Booking{Refused: "full"}, nil
	}
	f.record("book " + what)
	return Booking{ID: what}, nil
}

func (f *fake) Cancel(_ context.Context, id, _ string) error {
	if f.fail != nil {
		if err := f.fail(); err != nil {
			return err
		}
	}
	f.record("cancel " + id)
	return nil
}

func start(t *testing.T, f *fake) (*treadle.Graph[string, string], *treadle.Thread[string, string]) {
	t.Helper()
	g, err := newTrip(f, checkpoint.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	return g, g.Thread("1")
}

func (f *fake) check(t *testing.T, want ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.done, want) {
		t.Errorf("the agency did %q, want %q", f.done, want)
	}
}

func TestRefusalUndoesEarlierSteps(t *testing.T) {
	f := &fake{refuse: "hotel"}
	_, thread := start(t, f)
	result, err := thread.Run(t.Context(), "Rome")
	if err != nil || result != "canceled: full" {
		t.Errorf("result %q, %v", result, err)
	}
	f.check(t, "book flight", "cancel flight")
}

func TestMissingPaymentUndoesAll(t *testing.T) {
	f := &fake{}
	_, thread := start(t, f)
	if _, err := thread.Run(t.Context(), "Oslo"); !treadle.IsPause(err) {
		t.Fatalf("run ended with %v, want a pause", err)
	}
	f.check(t, "book flight", "book hotel") // a pause undoes nothing
	if err := thread.Signal(t.Context(), "payment", false); err != nil {
		t.Fatal(err)
	}
	if _, err := thread.Continue(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.check(t, "book flight", "book hotel", "cancel hotel", "cancel flight")
}

// Time passes at once in a synctest bubble.
func TestMissedDeadlineUndoesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		g, thread := start(t, f)
		ctx, stop := context.WithCancel(t.Context())
		woken := make(chan error)
		go func() { woken <- treadle.Wake(ctx, g) }()
		if _, err := thread.Run(t.Context(), "Oslo"); !treadle.IsPause(err) {
			t.Errorf("run ended with %v, want a pause", err)
		}
		time.Sleep(73 * time.Hour)
		f.check(t, "book flight", "book hotel", "cancel hotel", "cancel flight")
		snap, err := thread.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var result string
		if err := snap.Read(&result); err != nil || result != "canceled: not paid" {
			t.Errorf("result %q, %v", result, err)
		}
		stop()
		if err := <-woken; err != nil {
			t.Error(err)
		}
	})
}

// The process dies during the compensation. The next one finishes it, and books nothing again.
func TestCompensationSurvivesCrash(t *testing.T) {
	ctx, die := context.WithCancel(t.Context())
	f := &fake{refuse: "hotel", fail: func() error { die(); return ctx.Err() }}
	_, thread := start(t, f)
	if _, err := thread.Run(ctx, "Rome"); !errors.Is(err, context.Canceled) {
		t.Fatalf("run ended with %v, want cancellation", err)
	}
	f.check(t, "book flight")

	f.refuse, f.fail = "", nil // the hotel has rooms again, but its refusal is recorded
	result, err := thread.Continue(t.Context())
	if err != nil || result != "canceled: full" {
		t.Errorf("result %q, %v", result, err)
	}
	f.check(t, "book flight", "cancel flight")
}
