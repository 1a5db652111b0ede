package threadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/reduce"
)

// renames selects a version of a graph. In the second version, every node has a new name.
type renames bool

const (
	oldNames renames = false
	newNames renames = true
)

func (r renames) name(old string) string {
	if r {
		return "new " + old
	}
	return old
}

func (r renames) was(old string) treadle.NodeOption {
	if r {
		return treadle.Was("older "+old, old)
	}
	return treadle.Was()
}

// renameGraph returns a graph whose second step contains a node that interrupts and a
// finished node that goes to others, while a deferred node and a join wait.
func renameGraph(t *testing.T, w *kitWorld, saver checkpoint.Saver, r renames) *kitGraph {
	t.Helper()
	b := treadle.New[kitState]("renames")
	for _, name := range []string{"x", "y", "to", "z", "end"} {
		treadle.AddNode(b, r.name(name), w.node(name), r.was(name))
	}
	treadle.AddNode(b, r.name("late"), w.node("late"), r.was("late"), treadle.Defer())
	treadle.AddNode(b, r.name("ask"), func(ctx context.Context, s kitState) (kitLog, error) {
		if _, err := treadle.Do(ctx, "effect", func(ctx context.Context) (int, error) { return 0, w.enter(ctx, "effect") }); err != nil {
			return kitLog{}, err
		}
		return w.asker("ask")(ctx, s)
	}, r.was("ask"))
	treadle.AddNode(b, r.name("route"), func(ctx context.Context, _ kitState) (treadle.Command[kitLog], error) {
		to, said := append(treadle.To(r.name("to")), treadle.Send(r.name("take"), "sent")...), kitSay("route")
		return treadle.Command[kitLog]{Update: &said, Goto: to}, w.enter(ctx, "route")
	}, r.was("route"))
	treadle.AddNode(b, r.name("take"), func(ctx context.Context, in string) (kitLog, error) {
		return kitSay("take=" + in), w.enter(ctx, "take")
	}, r.was("take"))
	b.Edge(treadle.Start, r.name("x"))
	b.Edge(treadle.Start, r.name("y"))
	b.Edge(r.name("x"), r.name("late"))
	b.Edge(r.name("y"), r.name("ask"))
	b.Edge(r.name("y"), r.name("route"))
	from := []any{r.name("x"), r.name("ask")}
	if r {
		slices.Reverse(from)
	}
	b.Join(from, r.name("z"))
	b.Edge(r.name("late"), r.name("end"))
	return kitCompile(t, b, saver)
}

var renameLog = []string{"x", "y", "ask=A", "route", "to", "z", "take=sent", "late", "end"}

func migrateNodeNames(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	start := func(t *testing.T, opts ...treadle.RunOption) (w *kitWorld, graph func(renames) *kitGraph) {
		t.Helper()
		w, saver := &kitWorld{}, open(t)
		graph = func(r renames) *kitGraph { return renameGraph(t, w, saver, r) }
		_, err := graph(oldNames).Thread("t", opts...).Run(t.Context(), kitState{})
		kitAsked(t, err, "ask?")
		kitRan(t, w, "ask", "effect", "route", "x", "y")
		return w, graph
	}
	t.Run("Interrupted", func(t *testing.T) {
		w, graph := start(t)
		thread := graph(newNames).Thread("t")
		if snap := kitStateOf(t, thread); !slices.Equal(snap.Next, []string{"ask"}) || len(snap.Pauses) != 1 {
			t.Errorf("next %q, pauses %v; want the saved name and one pause", snap.Next, snap.Pauses)
		}
		_, err := thread.Continue(t.Context())
		kitAsked(t, err, "ask?")
		kitRan(t, w, "ask")
		kitResume(t, thread, "A", renameLog...)
		kitRan(t, w, "ask", "end", "late", "take", "to", "z")
		var next []string
		for _, s := range kitHistory(t, thread) {
			next = append(next, strings.Join(s.Next, "+"))
			for _, task := range s.Tasks {
				if task.Name != treadle.Start && len(task.Result.Names()) == 0 {
					t.Errorf("step %d: task %q has no result", s.Step, task.Name)
				}
			}
		}
		if want := []string{"", "new end", "new late", "new take+new to+new z", "ask+route", "x+y", "__start__"}; !slices.Equal(next, want) {
			t.Errorf("history: next %q, want %q", next, want)
		}
	})
	t.Run("Scheduled", func(t *testing.T) {
		w, graph := start(t)
		if _, err := graph(oldNames).Thread("t", treadle.After("ask")).Resume(t.Context(), "A"); !treadle.IsPause(err) {
			t.Fatalf("run ended with %v, want a breakpoint", err)
		}
		w.ran()
		kitContinue(t, graph(newNames).Thread("t"), renameLog...)
		kitRan(t, w, "end", "late", "take", "to", "z")
	})
	t.Run("Breakpoints", func(t *testing.T) {
		for _, name := range []string{"ask", "new ask"} {
			_, graph := start(t)
			_, err := graph(newNames).Thread("t", treadle.After(name)).Resume(t.Context(), "A")
			if stop, ok := errors.AsType[*treadle.InterruptError](err); !ok || !slices.Equal(stop.After, []string{"new ask"}) {
				t.Errorf("run ended with %v, want a breakpoint after %q", err, name)
			}
		}
	})
	t.Run("Failed", func(t *testing.T) {
		w, graph := start(t)
		w.fail("to", errKit)
		if _, err := graph(oldNames).With(treadle.MaxConcurrency(1)).Thread("t").Resume(t.Context(), "A"); !errors.Is(err, errKit) {
			t.Fatalf("run failed with %v", err)
		}
		w.ran()
		w.fail("to", nil)
		kitContinue(t, graph(newNames).Thread("t"), renameLog...)
		if ran := w.ran(); !slices.Contains(ran, "to") {
			t.Errorf("%q ran", ran)
		}
	})
	t.Run("Fork", func(t *testing.T) {
		w, graph := start(t)
		thread := graph(newNames).Thread("t")
		at := kitAt(t, kitHistory(t, thread), "ask", "route").ID
		kitResume(t, thread, "A", renameLog...)
		w.ran()
		_, err := thread.At(at).Continue(t.Context())
		kitAsked(t, err, "ask?")
		kitRan(t, w, "ask", "effect", "route")
		kitResume(t, thread, "A", renameLog...)
	})
	for _, as := range []string{"ask", "new ask"} {
		t.Run("Update as "+as, func(t *testing.T) {
			w, graph := start(t)
			thread := graph(newNames).Thread("t")
			kitUpdate(t, thread, kitSay("edit"), treadle.AsNode(as))
			history := kitHistory(t, thread)
			if tasks := history[1].Tasks; tasks[0].Name != "ask" || len(tasks[0].Result.Names()) == 0 {
				t.Errorf("edited task: %+v", tasks[0])
			}
			kitContinue(t, thread, "x", "y", "route", "edit", "to", "z", "take=sent", "late", "end")
			kitRan(t, w, "end", "late", "take", "to", "z")
		})
	}
	t.Run("Update as the last node", func(t *testing.T) {
		_, graph := start(t)
		kitResume(t, graph(oldNames).Thread("t"), "A", renameLog...)
		kitUpdate(t, graph(newNames).Thread("t"), kitSay("edit"))
	})
	t.Run("Durability", func(t *testing.T) {
		for _, d := range []treadle.Durability{treadle.Async, treadle.Exit} {
			_, graph := start(t, d)
			kitResume(t, graph(newNames).With(d).Thread("t"), "A", renameLog...)
		}
	})
}

// migrateSubgraphNames checks that a subgraph continues after its node was renamed, and
// nodes inside.
func migrateSubgraphNames(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	type counted struct {
		N   int
		Log reduce.List[string]
	}
	for name, opts := range map[string][]treadle.NodeOption{"PerTask": nil, "PerThread": {treadle.PerThread()}} {
		t.Run(name, func(t *testing.T) {
			saver, w := open(t), &kitWorld{}
			thread := func(r renames) *treadle.Thread[kitLog, kitLog] {
				inner := treadle.New[kitState]("inner")
				treadle.AddNode(inner, r.name("first"), w.node("first"), r.was("first"))
				treadle.AddNode(inner, r.name("ask"), func(ctx context.Context, s kitState) (counted, error) {
					_, err := treadle.Interrupt[string](ctx, "ask?")
					return counted{N: s.N + 1, Log: kitSay(fmt.Sprint(s.N + 1)).Log}, err
				}, r.was("ask"))
				inner.Sequence(treadle.Start, r.name("first"), r.name("ask"))
				b := treadle.New[kitLog]("outer")
				treadle.AddGraph(b, r.name("sub"), kitCompile(t, inner, nil), append(slices.Clone(opts), r.was("sub"))...)
				b.Edge(treadle.Start, r.name("sub"))
				g, err := b.Compile(&treadle.Options{Saver: saver})
				if err != nil {
					t.Fatal(err)
				}
				return g.Thread("t")
			}
			_, err := thread(oldNames).Run(t.Context(), kitLog{})
			kitAsked(t, err, "ask?")
			for _, r := range []renames{newNames, newNames} {
				snap := kitStateOf(t, thread(r))
				if len(snap.Tasks) != 1 || snap.Tasks[0].Graph == nil || len(snap.Pauses) != 1 {
					t.Errorf("tasks %+v, want one with the state of the subgraph", snap.Tasks)
				}
				if _, err := thread(r).Resume(t.Context(), "A"); err != nil {
					t.Fatal(err)
				}
				_, err = thread(r).Run(t.Context(), kitLog{})
				kitAsked(t, err, "ask?")
			}
			out, err := thread(newNames).Resume(t.Context(), "A")
			want := []string{"first", "1", "first", "1", "first", "1"}
			if name == "PerThread" {
				want = []string{"first", "1", "first", "2", "first", "3"}
			}
			if err != nil || !slices.Equal(out.Log, want) {
				t.Errorf("log %q, %v; want %q", out.Log, err, want)
			}
		})
	}
}

// migrateWorkflowName checks that a renamed workflow continues at each of its waits, with
// its recorded results.
func migrateWorkflowName(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	const nap = 100 * time.Millisecond
	saver := open(t)
	var did, tasks atomic.Int32
	task := treadle.NewTask("task", func(_ context.Context, n int) (int, error) { tasks.Add(1); return n + 1, nil })
	thread := func(name string, was ...string) *treadle.Thread[string, reduce.List[string]] {
		g, err := treadle.NewWorkflow(name, func(ctx context.Context, in string) (reduce.List[string], error) {
			log, _ := treadle.PreviousFrom[reduce.List[string]](ctx)
			if _, err := treadle.Do(ctx, "do", func(context.Context) (int32, error) { return did.Add(1), nil }); err != nil {
				return nil, err
			}
			if _, err := task.Run(ctx, 1); err != nil {
				return nil, err
			}
			said, err := treadle.Interrupt[string](ctx, in+"?")
			if err != nil {
				return nil, err
			}
			sent, err := treadle.WaitFor[string](ctx, "signal", nil)
			if err != nil {
				return nil, err
			}
			if err := treadle.Sleep(ctx, nap); err != nil {
				return nil, err
			}
			return append(slices.Clip(log), in, said, sent), nil
		}, &treadle.Options{Saver: saver, Was: was})
		if err != nil {
			t.Fatal(err)
		}
		return g.Thread("t")
	}
	waits := func(what string, err error) {
		t.Helper()
		if !treadle.IsPause(err) {
			t.Fatalf("%s ended with %v, want a pause", what, err)
		}
	}
	_, err := thread("a").Run(t.Context(), "one")
	waits("Run", err)
	_, err = thread("b", "a").Resume(t.Context(), "A")
	waits("Resume", err)
	if err := thread("c", "b", "a").Signal(t.Context(), "signal", "S"); err != nil {
		t.Fatal(err)
	}
	last := thread("d", "c", "b", "a")
	out, err := last.Continue(t.Context())
	for i := 0; treadle.IsPause(err) && i < 100; i++ { // not if a slow database took longer than the nap to record it
		if err := delay.For(t.Context(), nap); err != nil {
			t.Fatal(err)
		}
		out, err = last.Continue(t.Context())
	}
	if want := []string{"one", "A", "S"}; err != nil || !slices.Equal(out, want) {
		t.Errorf("output %q, %v; want %q", out, err, want)
	}
	if did.Load() != 1 || tasks.Load() != 1 {
		t.Errorf("Do ran %d times and the task %d times, want once", did.Load(), tasks.Load())
	}
	// A fork from an old checkpoint runs the workflow again.
	old := kitAt(t, kitHistory(t, last), "a")
	_, err = last.At(old.ID).Continue(t.Context())
	waits("fork", err)
	if _, err := last.Resume(t.Context(), "B"); !treadle.IsPause(err) {
		t.Errorf("resuming the fork: %v", err)
	}
}
