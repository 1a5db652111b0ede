package threadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// retriedState is the state of a graph that a retried node runs.
type retriedState struct {
	X   int                 `json:"x"`
	Log reduce.List[string] `json:"log"`
}

type retriedLog struct{ Log reduce.List[string] }

var errBusy = errors.New("busy")

var retryAll = treadle.Retry(treadle.RetryPolicy{Initial: 1, NoJitter: true, On: func(err error) bool { return errors.Is(err, errBusy) }})

// retriedGraph returns a graph of two nodes that log the input; the second fails as long
// as fail returns true.
func retriedGraph(t *testing.T, fail func() bool) *treadle.Graph[retriedState, retriedState] {
	t.Helper()
	b := treadle.New[retriedState]("sub")
	treadle.AddNode(b, "pre", func(_ context.Context, s retriedState) (retriedLog, error) {
		return retriedLog{reduce.List[string]{fmt.Sprint("pre", s.X)}}, nil
	})
	treadle.AddNode(b, "work", func(_ context.Context, s retriedState) (retriedLog, error) {
		if fail() {
			return retriedLog{}, errBusy
		}
		return retriedLog{reduce.List[string]{fmt.Sprint("work", s.X)}}, nil
	})
	b.Sequence(treadle.Start, "pre", "work")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// nestingRetriedInput checks that a second attempt with a different subgraph input gets
// the result for that input, without any trace of the first attempt.
func nestingRetriedInput(t *testing.T, open opener) {
	type runs = func(ctx context.Context, in retriedState) (retriedState, error)
	ways := map[string]func(*testing.T, *treadle.Graph[retriedState, retriedState]) runs{
		"Graph": func(_ *testing.T, g *treadle.Graph[retriedState, retriedState]) runs { return g.Run },
		"PerThread": func(_ *testing.T, g *treadle.Graph[retriedState, retriedState]) runs {
			return g.With(treadle.PerThread()).Run
		},
		"NoCheckpoints": func(_ *testing.T, g *treadle.Graph[retriedState, retriedState]) runs {
			return g.With(treadle.NoCheckpoints()).Run
		},
		"Workflow": func(t *testing.T, g *treadle.Graph[retriedState, retriedState]) runs {
			w, err := treadle.NewWorkflow("flow", g.Run, nil)
			if err != nil {
				t.Fatal(err)
			}
			return w.Run
		},
		"Around": func(t *testing.T, g *treadle.Graph[retriedState, retriedState]) runs {
			b := treadle.New[retriedState]("around")
			treadle.AddGraph(b, "in", g)
			b.Edge(treadle.Start, "in")
			outer, err := b.Compile(nil)
			if err != nil {
				t.Fatal(err)
			}
			return outer.Run
		},
	}
	for name, way := range ways {
		for _, d := range []treadle.Durability{treadle.Sync, treadle.Async, treadle.Exit} {
			t.Run(fmt.Sprint(name, "/", d), func(t *testing.T) {
				tries := 0
				run := way(t, retriedGraph(t, func() bool { tries++; return tries == 1 }))
				b := treadle.New[retriedState]("outer")
				treadle.AddNode(b, "call", func(ctx context.Context, s retriedState) (retriedLog, error) {
					out, err := run(ctx, retriedState{X: s.X + 100*treadle.InfoFrom(ctx).Attempt})
					return retriedLog{out.Log}, err
				}, retryAll)
				b.Edge(treadle.Start, "call")
				g, err := b.Compile(&treadle.Options{Saver: open(t)})
				if err != nil {
					t.Fatal(err)
				}
				out, err := g.With(d).Thread("t").Run(t.Context(), retriedState{X: 1})
				if want := []string{"pre201", "work201"}; err != nil || !slices.Equal(out.Log, want) {
					t.Errorf("log %q, %v; want %q", out.Log, err, want)
				}
			})
		}
	}
}

// nestingRetriedSame checks that a second attempt with the same input continues where the
// first one failed, like a continued thread.
func nestingRetriedSame(t *testing.T, open opener) {
	tries, attempts := 0, 0
	sub := retriedGraph(t, func() bool { tries++; return tries <= 3 })
	b := treadle.New[retriedState]("outer")
	treadle.AddNode(b, "call", func(ctx context.Context, s retriedState) (retriedLog, error) {
		attempts++
		out, err := sub.Run(ctx, retriedState{X: 7, Log: reduce.List[string]{"in"}})
		return retriedLog{out.Log}, err
	}, retryAll)
	b.Edge(treadle.Start, "call")
	g, err := b.Compile(&treadle.Options{Saver: open(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Thread("t").Run(t.Context(), retriedState{}); !errors.Is(err, errBusy) {
		t.Fatal(err)
	}
	out, err := g.Thread("t").Continue(t.Context())
	if want := []string{"in", "pre7", "work7"}; err != nil || !slices.Equal(out.Log, want) {
		t.Errorf("log %q, %v; want %q", out.Log, err, want)
	}
	if attempts != 4 || tries != 4 {
		t.Errorf("%d attempts, of which %d came to the node that fails; want 4 of 4", attempts, tries)
	}
}

// nestingRetriedAsks checks that an answer finds the interrupt of a subgraph even if the
// node now calls the subgraph with a different input: only attempts of one run are
// compared. The same holds for a continued thread.
func nestingRetriedAsks(t *testing.T, open opener) {
	b := treadle.New[retriedState]("sub")
	treadle.AddNode(b, "ask", func(ctx context.Context, s retriedState) (retriedLog, error) {
		a, err := treadle.Interrupt[string](ctx, "go on?")
		return retriedLog{reduce.List[string]{fmt.Sprint(a, s.X)}}, err
	})
	b.Edge(treadle.Start, "ask")
	sub, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	o := treadle.New[retriedState]("outer")
	treadle.AddNode(o, "call", func(ctx context.Context, _ retriedState) (retriedLog, error) {
		n++
		out, err := sub.Run(ctx, retriedState{X: n})
		return retriedLog{out.Log}, err
	}, retryAll)
	o.Edge(treadle.Start, "call")
	g, err := o.Compile(&treadle.Options{Saver: open(t)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Thread("t").Run(t.Context(), retriedState{})
	askedStrings(t, err, "go on?")
	out, err := g.Thread("t").Resume(t.Context(), "yes")
	if want := []string{"yes1"}; err != nil || !slices.Equal(out.Log, want) {
		t.Errorf("log %q, %v; want %q", out.Log, err, want)
	}
}

// nestingPerThreadSends checks that two tasks of one step cannot share one state,
// regardless of which task is faster.
func nestingPerThreadSends(t *testing.T, open opener) {
	type job struct{ X int }
	leaf := func(t *testing.T) *treadle.Graph[retriedState, retriedState] {
		t.Helper()
		return retriedGraph(t, func() bool { return false })
	}
	sends := func(b *treadle.Builder[retriedState], node treadle.Node[retriedState], n int) {
		treadle.AddBranch(b, treadle.Start, func(context.Context, retriedState) (treadle.Goto, error) {
			to := treadle.Goto{}
			for i := range n {
				to = append(to, treadle.Send(node, retriedState{X: i})...)
			}
			return to, nil
		}, "sub")
	}
	compile := func(t *testing.T, b *treadle.Builder[retriedState]) *treadle.Thread[retriedState, retriedState] {
		t.Helper()
		g, err := b.Compile(&treadle.Options{Saver: open(t)})
		if err != nil {
			t.Fatal(err)
		}
		return g.Thread("t")
	}
	refused := func(t *testing.T, err error) {
		t.Helper()
		if err == nil || errors.Is(err, checkpoint.ErrConflict) || !strings.Contains(err.Error(), "treadle.PerThread") {
			t.Errorf("run ended with %v", err)
		}
	}
	t.Run("Node", func(t *testing.T) {
		for n := range 4 {
			b := treadle.New[retriedState]("outer")
			sends(b, treadle.AddGraph(b, "sub", leaf(t), treadle.PerThread()), n)
			th := compile(t, b)
			_, err := th.Run(t.Context(), retriedState{})
			if n < 2 {
				if err != nil {
					t.Errorf("%d sends: %v", n, err)
				}
				continue
			}
			refused(t, err)
			if e, ok := errors.AsType[*treadle.GotoError](err); !ok || e.To != "sub" {
				t.Errorf("%d sends: %v", n, err)
			}
			_, err = th.Continue(t.Context())
			refused(t, err)
		}
	})
	t.Run("Called", func(t *testing.T) {
		sub := leaf(t).With(treadle.PerThread())
		b := treadle.New[retriedState]("outer")
		sends(b, treadle.AddNode(b, "sub", func(ctx context.Context, s retriedState) (retriedLog, error) {
			out, err := sub.Run(ctx, s)
			return retriedLog{out.Log}, err
		}), 2)
		_, err := compile(t, b).Run(t.Context(), retriedState{})
		refused(t, err)
	})
	t.Run("Inside", func(t *testing.T) {
		in := treadle.New[retriedState]("in")
		treadle.AddGraph(in, "leaf", leaf(t), treadle.PerThread())
		in.Edge(treadle.Start, "leaf")
		g, err := in.Compile(nil)
		if err != nil {
			t.Fatal(err)
		}
		b := treadle.New[retriedState]("outer")
		sends(b, treadle.AddGraph(b, "sub", g), 2)
		_, err = compile(t, b).Run(t.Context(), retriedState{})
		refused(t, err)
	})
	t.Run("CalledByTasksInTurn", func(t *testing.T) {
		sub := leaf(t).With(treadle.PerThread())
		task := treadle.NewTask("task", func(ctx context.Context, in job) (int, error) {
			out, err := sub.Run(ctx, retriedState{X: in.X})
			return len(out.Log), err
		})
		b := treadle.New[retriedState]("outer")
		treadle.AddNode(b, "sub", func(ctx context.Context, _ retriedState) (retriedLog, error) {
			var log reduce.List[string]
			for i := range 3 {
				n, err := task.Run(ctx, job{i})
				if err != nil {
					return retriedLog{}, err
				}
				log = append(log, fmt.Sprint(n))
			}
			return retriedLog{log}, nil
		})
		b.Edge(treadle.Start, "sub")
		out, err := compile(t, b).Run(t.Context(), retriedState{})
		if want := []string{"2", "4", "6"}; err != nil || !slices.Equal(out.Log, want) {
			t.Errorf("log %q, %v; want %q", out.Log, err, want)
		}
	})
	t.Run("WithoutAThread", func(t *testing.T) {
		b := treadle.New[retriedState]("outer")
		sends(b, treadle.AddGraph(b, "sub", leaf(t), treadle.PerThread()), 2)
		g, err := b.Compile(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Run(t.Context(), retriedState{}); err != nil {
			t.Error(err)
		}
	})
}
