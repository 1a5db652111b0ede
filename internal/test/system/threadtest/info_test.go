package threadtest

import (
	"context"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// What a node has started may outlive it: it is told of the node's own step, not of
// those that the run has come to since.
func TestRunInfoDescribesTask(t *testing.T) {
	type state struct{ N int }
	var before treadle.Info
	next, after := make(chan struct{}), make(chan treadle.Info)
	b := treadle.New[state]("info")
	treadle.AddNode(b, "a", func(ctx context.Context, _ state) (state, error) {
		before = treadle.InfoFrom(ctx)
		go func() {
			<-next
			after <- treadle.InfoFrom(ctx)
		}()
		return state{1}, nil
	})
	treadle.AddNode(b, "b", func(ctx context.Context, _ state) (state, error) {
		if now := treadle.InfoFrom(ctx); now.CheckpointID == before.CheckpointID {
			t.Error("steps of a and b started from the same checkpoint")
		}
		close(next)
		if late := <-after; late.CheckpointID != before.CheckpointID || late.CheckpointID == "" || late.Step != before.Step {
			t.Errorf("a was at %q in step %d, but later sees %q and %d", before.CheckpointID, before.Step, late.CheckpointID, late.Step)
		}
		return state{2}, nil
	})
	b.Sequence(treadle.Start, "a", "b")
	g, err := b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Thread("1").Run(t.Context(), state{}); err != nil {
		t.Error(err)
	}
}
