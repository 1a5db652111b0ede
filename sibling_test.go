package treadle_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// A task that ends because a sibling fails has not failed: it has no error in the
// snapshot or the streams, and it runs again when the thread continues.
func TestCanceledSiblingIsNotFailed(t *testing.T) {
	boom := errors.New("boom")
	for _, kind := range []string{"running", "not started", "subgraph", "task", "retried"} {
		t.Run(kind, func(t *testing.T) {
			broken, started := true, make(chan struct{})
			hangs := func(ctx context.Context) (string, error) {
				if !broken {
					return "done", nil
				}
				close(started)
				<-ctx.Done()
				return "", ctx.Err()
			}
			b := treadle.New[diary]("siblings")
			treadle.AddNode(b, "bad", func(context.Context, diary) (page, error) {
				if !broken {
					return page{}, nil
				}
				if kind != "not started" {
					<-started
				}
				return page{}, boom
			})
			node := func(ctx context.Context, _ diary) (page, error) {
				if kind == "task" {
					_, err := treadle.NewTask("inner", func(ctx context.Context, _ int) (string, error) { return hangs(ctx) }).Run(ctx, 0)
					return page{}, err
				}
				_, err := hangs(ctx)
				return page{}, err
			}
			switch kind {
			case "subgraph":
				inner := treadle.New[diary]("inner")
				treadle.AddNode(inner, "node", node)
				inner.Edge(treadle.Start, "node")
				treadle.AddGraph(b, "slow", treadle.Must(inner.Compile(nil)))
			case "retried":
				treadle.AddNode(b, "slow", node, treadle.Retry(treadle.RetryPolicy{Initial: 1, Attempts: 3, On: func(error) bool { return true }}))
			default:
				treadle.AddNode(b, "slow", node)
			}
			b.Edge(treadle.Start, "bad")
			b.Edge(treadle.Start, "slow")
			var opts []treadle.RunOption
			if kind == "not started" {
				opts = append(opts, treadle.MaxConcurrency(1))
			}
			th := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1", opts...)
			var failed []string
			var last error
			for ev, err := range th.Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeTasks, treadle.ModeEvents), treadle.Subgraphs()) {
				switch ev := ev.(type) {
				case treadle.TaskFinished:
					if ev.Err != nil {
						failed = append(failed, "task "+ev.Node)
					}
				case treadle.Lifecycle:
					if ev.Err != nil {
						failed = append(failed, ev.Event+" "+ev.Name)
					}
				}
				last = err
			}
			if !errors.Is(last, boom) {
				t.Errorf("got %v, want the failure", last)
			}
			if want := []string{"on_chain_error bad", "task bad", "on_chain_error siblings"}; !slices.Equal(failed, want) {
				t.Errorf("stream reports failures of %q, want %q", failed, want)
			}
			snap, err := th.State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range snap.Tasks {
				if (task.Error != "") != (task.Name == "bad") {
					t.Errorf("snapshot: %s has error %q", task.Name, task.Error)
				}
				if task.Graph != nil && slices.ContainsFunc(task.Graph.Tasks, func(in treadle.TaskState) bool { return in.Error != "" }) {
					t.Errorf("snapshot: subgraph has a failed task: %+v", task.Graph.Tasks)
				}
			}
			broken = false
			if _, err := th.Continue(t.Context()); err != nil {
				t.Errorf("continued: %v", err)
			}
		})
	}
}

// A sibling that waits for an answer keeps its interrupt when another one fails before
// it starts again.
func TestFailureKeepsInterruptsOfSiblings(t *testing.T) {
	b := treadle.New[diary]("answers")
	w := treadle.AddNode(b, "w", func(ctx context.Context, n int) (page, error) {
		a, err := treadle.Interrupt[string](ctx, n)
		if a == "bad" {
			err = errors.New("bad answer")
		}
		return did(a), err
	})
	treadle.AddBranch(b, treadle.Start, func(context.Context, diary) (treadle.Goto, error) {
		return slices.Concat(treadle.Send(w, 0), treadle.Send(w, 1), treadle.Send(w, 2)), nil
	}, "w")
	th := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1", treadle.MaxConcurrency(1))
	_, err := th.Run(t.Context(), diary{})
	ps := pausesOf(t, err)
	if _, err := th.Resume(t.Context(), treadle.Answers{ps[1].ID: "bad"}); treadle.IsPause(err) {
		t.Fatalf("got %v, want the failure", err)
	}
	snap, err := th.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, task := range snap.Tasks {
		if failed := i == 1; failed != (task.Error != "") || failed != (len(task.Pauses) == 0) {
			t.Errorf("task %d: error %q, pauses %v", i, task.Error, task.Pauses)
		}
	}
}

// A task that returns a cancellation error although its context was not canceled has
// failed, even in a step of several tasks.
func TestCanceledErrorIsFailure(t *testing.T) {
	b := treadle.New[diary]("own")
	treadle.AddNode(b, "bad", func(context.Context, diary) (page, error) { return page{}, context.Canceled })
	treadle.AddNode(b, "good", func(context.Context, diary) (page, error) { return page{}, nil })
	b.Edge(treadle.Start, "bad")
	b.Edge(treadle.Start, "good")
	th := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")
	if _, err := th.Run(t.Context(), diary{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	snap, err := th.State(t.Context())
	if err != nil || !slices.ContainsFunc(snap.Tasks, func(s treadle.TaskState) bool { return s.Name == "bad" && s.Error != "" }) {
		t.Errorf("snapshot %+v, %v: want the failure", snap.Tasks, err)
	}
}
