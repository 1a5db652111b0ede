package treadle_test

import (
	"context"
	"errors"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

var errDisk = errors.New("disk full")

// fullSaver cannot save the results of tasks.
type fullSaver struct{ *checkpoint.Memory }

func (fullSaver) PutWrites(context.Context, checkpoint.Key, uint64, []checkpoint.Write) error {
	return errDisk
}

func TestPropagateOutsideRun(t *testing.T) {
	if err := treadle.Propagate(t.Context(), nil); err != nil {
		t.Errorf("nil: %v", err)
	}
	if err := treadle.Propagate(t.Context(), errDisk); err != nil {
		t.Errorf("ordinary error: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := treadle.Propagate(ctx, errDisk); !errors.Is(err, errDisk) {
		t.Errorf("canceled context: %v", err)
	}
}

func TestPropagateInterrupt(t *testing.T) {
	hidden := errors.New("hidden")
	g := flow(t, "ask", checkpoint.NewMemory(), func(ctx context.Context, _ int) (string, error) {
		if err := treadle.Propagate(ctx, hidden); err != nil {
			t.Errorf("before the interrupt: %v", err)
		}
		answer, err := treadle.Interrupt[string](ctx, "well?")
		if err == nil {
			return answer, nil
		}
		if !treadle.IsPause(treadle.Propagate(ctx, err)) || !treadle.IsPause(treadle.Propagate(ctx, hidden)) {
			t.Errorf("interrupt: %v, hidden: %v", treadle.Propagate(ctx, err), treadle.Propagate(ctx, hidden))
		}
		return "", err
	})
	_, err := g.Thread("1").Run(t.Context(), 1)
	pausesOf(t, err)
}

func TestPropagateSaverFailure(t *testing.T) {
	hidden := errors.New("hidden")
	g := flow(t, "save", fullSaver{checkpoint.NewMemory()}, func(ctx context.Context, _ int) (string, error) {
		_, err := treadle.Do(ctx, "task", func(context.Context) (int, error) { return 1, nil })
		if !errors.Is(treadle.Propagate(ctx, err), errDisk) || !errors.Is(treadle.Propagate(ctx, hidden), errDisk) {
			t.Errorf("task failed with %v: got %v and, hidden, %v", err, treadle.Propagate(ctx, err), treadle.Propagate(ctx, hidden))
		}
		// The failure is recognized even without the run's context.
		if got := treadle.Propagate(context.Background(), err); !errors.Is(got, errDisk) {
			t.Errorf("without the run: %v", got)
		}
		return "handled", nil
	})
	if _, err := g.Thread("1").Run(t.Context(), 1); !errors.Is(err, errDisk) {
		t.Errorf("err = %v, want %v", err, errDisk)
	}
}
