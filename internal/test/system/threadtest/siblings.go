package threadtest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Siblings is the suite for interrupted steps with several tasks: a finished task does
// not run again, whatever happens to the others.
var Siblings = Suite{
	{"StoredWhileOthersRun", concurrent, siblingsStored},
	{"StoredOnce", concurrent, siblingsStoredOnce},
	{"VoidIfStepCannotBeCommitted", concurrent, siblingsVoid},
	{"NotStoredIsNoFailure", concurrent, siblingsNotStored},
}

// siblingWatch is a saver that reports when results have been saved or have failed to
// save.
type siblingWatch struct {
	checkpoint.Saver
	fail error
	told chan int // number of results per call
}

func newSiblingWatch(s checkpoint.Saver) *siblingWatch {
	return &siblingWatch{Saver: s, told: make(chan int, 100)}
}

func (s *siblingWatch) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	err := s.fail
	if err == nil {
		err = s.Saver.PutWrites(ctx, at, fence, ws)
	}
	n := 0
	for _, w := range ws {
		if w.Kind == checkpoint.Done {
			n++
		}
	}
	s.told <- n
	return err
}

// siblingSends returns a graph whose node sends to three tasks, the last of which is
// slow.
func siblingSends(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
	t.Helper()
	type item struct{ Name string }
	b := treadle.New[kitState]("sends")
	worker := treadle.AddNode(b, "worker", func(ctx context.Context, i item) (kitLog, error) {
		return kitSay(i.Name), w.enter(ctx, i.Name)
	})
	treadle.AddNode(b, "spread", func(context.Context, kitState) (treadle.Goto, error) {
		var to treadle.Goto
		for _, name := range []string{"one", "two", "slow"} {
			to = append(to, treadle.Send(worker, item{name})...)
		}
		return to, nil
	}, treadle.Destinations("worker"))
	b.Edge(treadle.Start, "spread")
	return kitCompile(t, b, saver)
}

// siblingNest returns a graph with the nodes one and slow in a subgraph.
func siblingNest(opts ...treadle.NodeOption) kitBuild {
	return func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		t.Helper()
		b := treadle.New[kitState]("nest")
		treadle.AddGraph(b, "inner", kitPair("one", "slow")(t, w, nil), opts...)
		b.Edge(treadle.Start, "inner")
		return kitCompile(t, b, saver)
	}
}

// siblingsStored lets a run hang in one task of a step while another process continues
// the thread, as if the first had been killed.
func siblingsStored(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, c := range []struct {
		name  string
		build kitBuild
		opts  []treadle.RunOption
		quick []string
	}{
		{"Nodes", kitPair("one", "slow"), nil, []string{"one"}},
		{"Sends", siblingSends, nil, []string{"one", "two"}},
		{"OneAtATime", siblingSends, []treadle.RunOption{treadle.MaxConcurrency(1)}, []string{"one", "two"}},
		{"Nested", siblingNest(), nil, []string{"one"}},
		{"NestedPerThread", siblingNest(treadle.PerThread()), nil, []string{"one"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			watch, first := newSiblingWatch(open(t)), &kitWorld{}
			release, ended := make(chan struct{}), make(chan error)
			first.on("slow", func(context.Context) error { <-release; return nil })
			go func() {
				_, err := c.build(t, first, watch).Thread("t", c.opts...).Run(t.Context(), kitState{N: 1})
				ended <- err
			}()
			for n := 0; n < len(c.quick); {
				n += <-watch.told
			}

			second := &kitWorld{}
			thread := c.build(t, second, watch).Thread("t", c.opts...)
			log := append(c.quick, "slow")
			kitContinue(t, thread, log...)
			kitRan(t, second, "slow")
			kitStale(t, thread, watch)

			close(release)
			if err := <-ended; !errors.Is(err, checkpoint.ErrConflict) {
				t.Errorf("run that another has overtaken: %v, want %v", err, checkpoint.ErrConflict)
			}
			var got kitState
			if err := kitStateOf(t, thread).Read(&got); err != nil {
				t.Fatal(err)
			}
			kitWantLog(t, "after both", got, log)
		})
	}
}

// kitStale checks that no results are left on a root checkpoint whose step has been
// committed.
func kitStale(t *testing.T, thread *kitThread, saver checkpoint.Saver) {
	t.Helper()
	for cp, err := range saver.List(t.Context(), checkpoint.Query{Thread: thread.ID()}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range cp.Pending {
			if w.Kind == checkpoint.Done {
				t.Errorf("checkpoint %d still has the result of task %s", cp.Step, w.Task)
			}
		}
	}
}

// siblingsStoredOnce checks that results saved while the step ran are not saved again
// when a task fails.
func siblingsStoredOnce(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	watch, w := newSiblingWatch(open(t)), &kitWorld{}
	w.on("slow", func(context.Context) error {
		if n := <-watch.told; n != 1 {
			t.Errorf("%d results were stored while the step ran, want 1", n)
		}
		return errKit
	})
	g := kitPair("one", "slow")(t, w, watch)
	if _, err := g.Thread("t").Run(t.Context(), kitState{}); !errors.Is(err, errKit) {
		t.Fatal(err)
	}
	if n := <-watch.told; n != 0 {
		t.Errorf("%d results were stored with the failure, want none", n)
	}
	w.fail("slow", nil)
	w.ran()
	kitContinue(t, g.Thread("t"), "one", "slow")
	kitRan(t, w, "slow")
}

// siblingsVoid checks that results are not kept if their step cannot be committed: with
// them, the step would fail forever, even after the node is fixed.
func siblingsVoid(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	t.Run("StoredAhead", func(t *testing.T) {
		watch, w := newSiblingWatch(open(t)), &kitWorld{}
		w.on("slow", func(context.Context) error { <-watch.told; return nil })
		siblingsVoidIn(t, watch, w, "one", "slow")
	})
	t.Run("KeptAfterFailure", func(t *testing.T) {
		watch, w := newSiblingWatch(open(t)), &kitWorld{}
		w.on("slow", func(context.Context) error { <-watch.told; return errKit })
		if _, err := siblingsLost(t, watch, w, "nowhere").Thread("t").Run(t.Context(), kitState{}); !errors.Is(err, errKit) {
			t.Fatal(err)
		}
		kitRan(t, w, "one", "slow")
		w.fail("slow", nil)
		siblingsVoidIn(t, watch, w, "slow")
	})
}

// siblingsLost returns a graph of two nodes where slow goes to a node that may not exist.
func siblingsLost(t *testing.T, saver checkpoint.Saver, w *kitWorld, to string) *kitGraph {
	t.Helper()
	b := treadle.New[kitState]("lost")
	treadle.AddNode(b, "one", w.node("one"))
	treadle.AddNode(b, "slow", func(ctx context.Context, _ kitState) (treadle.Command[kitLog], error) {
		log := kitSay("slow")
		return treadle.Command[kitLog]{Update: &log, Goto: treadle.To(to)}, w.enter(ctx, "slow")
	})
	b.Edge(treadle.Start, "one")
	b.Edge(treadle.Start, "slow")
	return kitCompile(t, b, saver)
}

// siblingsVoidIn runs or continues a thread to a step that cannot be committed, in which
// the given nodes run, and checks that all of them run again once the cause is fixed.
func siblingsVoidIn(t *testing.T, saver checkpoint.Saver, w *kitWorld, run ...string) {
	t.Helper()
	thread := siblingsLost(t, saver, w, "nowhere").Thread("t")
	_, err := thread.Continue(t.Context())
	if errors.Is(err, treadle.ErrNothingToContinue) {
		_, err = thread.Run(t.Context(), kitState{})
	}
	if wrong, ok := errors.AsType[*treadle.GotoError](err); !ok || wrong.To != "nowhere" {
		t.Fatalf("run ended with %v, want a goto to nowhere", err)
	}
	kitRan(t, w, run...)
	snap := kitStateOf(t, thread)
	if diff := cmp.Diff([]string{"one", "slow"}, snap.Next); diff != "" {
		t.Errorf("next (-want +got):\n%s", diff)
	}
	for _, task := range snap.Tasks {
		if len(task.Result.Names()) > 0 {
			t.Errorf("task %s shows a result that is void: %s", task.Name, task.Result)
		}
	}
	w.on("slow", nil)
	kitContinue(t, siblingsLost(t, saver, w, treadle.End).Thread("t"), "one", "slow")
	kitRan(t, w, "one", "slow")
}

// siblingsNotStored checks that a result that could not be saved early is saved at the
// end of the step, and that a warning is logged.
func siblingsNotStored(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	watch, w := newSiblingWatch(open(t)), &kitWorld{}
	watch.fail = errKit
	w.on("slow", func(context.Context) error { <-watch.told; return nil })
	var out bytes.Buffer
	b := treadle.New[kitState]("pair")
	for _, name := range []string{"one", "slow"} {
		treadle.AddNode(b, name, w.node(name))
		b.Edge(treadle.Start, name)
	}
	g, err := b.Compile(&treadle.Options{Saver: watch, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	kitRun(t, g.Thread("t"), kitState{}, "one", "slow")
	kitRan(t, w, "one", "slow")
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, errKit.Error()) || !strings.Contains(got, "thread=t") {
		t.Errorf("log says %q, want one warning that names the thread and the error", got)
	}
}
