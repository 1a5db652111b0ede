package threadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
)

// Abandoned is the suite for new input on a thread with unfinished work: the abandoned
// work is reported as an event and recorded in the metadata.
var Abandoned = Suite{
	{"WhatIsLeft", concurrent, abandonedLeft},
	{"Nothing", sequential, abandonedNothing},
	{"ByEdit", sequential, abandonedByEdit},
	{"InNestedGraph", concurrent, abandonedNested},
	{"OnTheWire", sequential, abandonedWire},
}

// abandonedLine describes an abandoned task: whether it has an ID, and its number of
// interrupts.
func abandonedLine(name, id string, questions int) string {
	return fmt.Sprintf("%s id %v questions %d", name, id != "", questions)
}

// abandonedIn describes the abandoned tasks recorded in a checkpoint's metadata.
func abandonedIn(t *testing.T, s *treadle.Snapshot) (lines, ids []string) {
	t.Helper()
	raw, err := json.Marshal(s.Metadata["__abandoned__"])
	if err != nil {
		t.Fatal(err)
	}
	var tasks []struct {
		ID, Name   string
		Interrupts []string
	}
	if err := json.Unmarshal(raw, &tasks); err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		lines = append(lines, abandonedLine(task.Name, task.ID, len(task.Interrupts)))
		ids = append(ids, task.ID)
		ids = append(ids, task.Interrupts...)
	}
	return lines, ids
}

// abandonedOf describes the abandoned tasks reported by an event.
func abandonedOf(ev treadle.Abandoned) (lines, ids []string) {
	for _, task := range ev.Tasks {
		lines = append(lines, abandonedLine(task.Name, task.ID, len(task.Pauses)))
		ids = append(ids, task.ID)
		for _, p := range task.Pauses {
			ids = append(ids, p.ID)
		}
	}
	return lines, ids
}

// abandonedRun runs the thread with a new input and returns the events, including those
// of subgraphs, that report abandoned work.
func abandonedRun(t *testing.T, thread *kitThread) (events []treadle.Abandoned, before int) {
	t.Helper()
	stop := false
	for ev, err := range thread.Stream(t.Context(), kitState{N: 7}, treadle.Modes(treadle.ModeUpdates, treadle.ModeCheckpoints), treadle.Subgraphs()) {
		if err != nil {
			if _, asked := errors.AsType[*treadle.InterruptError](err); !asked {
				t.Fatal(err)
			}
			continue
		}
		if a, ok := ev.(treadle.Abandoned); ok {
			events = append(events, a)
			stop = true
		} else if !stop {
			before++
		}
	}
	return events, before
}

// abandonedGraph returns a graph with a node that sends to two interrupting nodes, next
// to a node that fails on demand, and a deferred node.
func abandonedGraph(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
	t.Helper()
	type item struct{ Name string }
	b := treadle.New[kitState]("left")
	worker := treadle.AddNode(b, "worker", func(ctx context.Context, i item) (kitLog, error) {
		if _, err := treadle.Interrupt[string](ctx, i.Name+"?"); err != nil {
			return kitLog{}, err
		}
		return kitSay(i.Name), nil
	})
	treadle.AddNode(b, "spread", func(context.Context, kitState) (treadle.Goto, error) {
		return append(treadle.Send(worker, item{"x"}), treadle.Send(worker, item{"y"})...), nil
	}, treadle.Destinations("worker"))
	treadle.AddNode(b, "after", w.node("after"))
	treadle.AddNode(b, "first", w.node("first"))
	treadle.AddNode(b, "last", w.node("last"), treadle.Defer())
	b.Edge(treadle.Start, "first")
	b.Edge("first", "spread")
	b.Edge("first", "after")
	b.Edge("first", "last")
	b.Edge("spread", "last")
	return kitCompile(t, b, saver)
}

func abandonedLeft(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, c := range []struct {
		name  string
		build kitBuild
		start func(t *testing.T, w *kitWorld, thread kitHandle) error
		want  []string
	}{
		{"Question", kitChain("a", "ask?", "b"), func(t *testing.T, _ *kitWorld, thread kitHandle) error {
			_, err := thread().Run(t.Context(), kitState{})
			return err
		}, []string{"ask id true questions 1"}},
		{"Failure", kitPair("one", "two"), func(t *testing.T, w *kitWorld, thread kitHandle) error {
			w.fail("two", errKit)
			defer w.fail("two", nil)
			_, err := thread().Run(t.Context(), kitState{})
			return err
		}, []string{"one id true questions 0", "two id true questions 0"}},
		{"StepLimit", kitChain("a", "b", "c"), func(t *testing.T, _ *kitWorld, thread kitHandle) error {
			_, err := thread(treadle.StepLimit(1)).Run(t.Context(), kitState{})
			return err
		}, []string{"b id true questions 0"}},
		{"SendsAndDeferred", abandonedGraph, func(t *testing.T, _ *kitWorld, thread kitHandle) error {
			_, err := thread().Run(t.Context(), kitState{})
			return err
		}, []string{"worker id true questions 1", "worker id true questions 1", "last id false questions 0"}},
		{"Input", kitChain("a", "b"), func(t *testing.T, _ *kitWorld, thread kitHandle) error {
			_, err := thread().Update(t.Context(), kitN{3}, treadle.AsNode(treadle.InputNode))
			return errors.Join(err, errKit)
		}, []string{"__start__ id true questions 0"}},
	} {
		for _, d := range durabilities {
			t.Run(c.name+d.name, func(t *testing.T) {
				kitBothWays(t, open, c.build, func(t *testing.T, w *kitWorld, thread kitHandle) {
					handle := func(opts ...treadle.RunOption) *kitThread { return thread(append(opts, d.opt)...) }
					if err := c.start(t, w, handle); err == nil {
						t.Fatal("first run has nothing left to do")
					}
					abandonedCheck(t, handle(treadle.Metadata(map[string]any{"who": "me"})), d.opt == treadle.Exit, c.want)
				})
			})
		}
	}
}

// abandonedCheck runs a thread with a new input and checks that the previous run's
// unfinished work is reported in an event and in the metadata of one checkpoint,
// alongside the user's metadata.
func abandonedCheck(t *testing.T, thread *kitThread, exit bool, want []string) {
	t.Helper()
	was := kitStateOf(t, thread)
	had := kitHistory(t, thread)
	events, before := abandonedRun(t, thread)
	if len(events) != 1 || before != 0 {
		t.Fatalf("%d events, the first after %d others; want one, before all others", len(events), before)
	}
	got, ids := abandonedOf(events[0])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	for _, task := range was.Tasks {
		if !strings.Contains(strings.Join(ids, " "), task.ID) {
			t.Errorf("task %s %s is not in %q", task.Name, task.ID, ids)
		}
	}
	found := 0
	for _, s := range kitAppended(t, thread, had) {
		if s.Metadata["who"] != "me" {
			t.Errorf("checkpoint %d has the metadata %v", s.Step, s.Metadata)
		}
		if s.Metadata["__abandoned__"] == nil {
			continue
		}
		found++
		lines, stored := abandonedIn(t, s)
		if diff := cmp.Diff(want, lines) + cmp.Diff(ids, stored); diff != "" {
			t.Errorf("metadata (-want +got):\n%s", diff)
		}
		if !exit && (s.Source != checkpoint.Input || s.Step != events[0].Step || s.Parent != was.ID) {
			t.Errorf("it is in checkpoint %d of source %q with parent %s; the event says %d, and the parent was %s", s.Step, s.Source, s.Parent, events[0].Step, was.ID)
		}
	}
	if found != 1 {
		t.Errorf("%d checkpoints have it, want 1", found)
	}
}

// abandonedNothing checks that a finished thread, and a fork from an older checkpoint,
// abandon nothing.
func abandonedNothing(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "b"), func(t *testing.T, _ *kitWorld, thread kitHandle) {
		for range 2 {
			if events, _ := abandonedRun(t, thread()); len(events) > 0 {
				t.Errorf("%d events on a thread that is done", len(events))
			}
		}
		older := kitAt(t, kitHistory(t, thread()), "b")
		if events, _ := abandonedRun(t, thread().At(older.ID)); len(events) > 0 {
			t.Errorf("%d events on a branch", len(events))
		}
		for _, s := range kitHistory(t, thread()) {
			if s.Metadata != nil {
				t.Errorf("checkpoint %d has the metadata %v", s.Step, s.Metadata)
			}
		}
	})
}

// abandonedByEdit checks that an edit that is an input abandons work like a run, and that
// the run that uses the input then has nothing to abandon.
func abandonedByEdit(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "ask?"), func(t *testing.T, _ *kitWorld, thread kitHandle) {
		_, err := thread().Run(t.Context(), kitState{})
		kitAsked(t, err, "ask?")
		kitUpdate(t, thread(), kitN{2}, treadle.AsNode(treadle.InputNode))
		lines, _ := abandonedIn(t, kitStateOf(t, thread()))
		if diff := cmp.Diff([]string{"ask id true questions 1"}, lines); diff != "" {
			t.Errorf("metadata (-want +got):\n%s", diff)
		}
		_, err = thread().Continue(t.Context())
		kitAsked(t, err, "ask?")
		if meta := kitStateOf(t, thread()).Metadata; meta != nil {
			t.Errorf("next checkpoint has the metadata %v", meta)
		}
	})
}

// abandonedNested checks that a subgraph's unfinished work belongs to the task that runs
// it: the event comes from the parent graph and contains the subgraph's interrupts.
func abandonedNested(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for name, opts := range map[string][]treadle.NodeOption{"PerTask": nil, "PerThread": {treadle.PerThread()}} {
		t.Run(name, func(t *testing.T) {
			build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
				b := treadle.New[kitState]("outer")
				treadle.AddGraph(b, "inner", kitCompile(t, kitChainOf(w, "inner", "a", "ask?"), nil), opts...)
				b.Edge(treadle.Start, "inner")
				return kitCompile(t, b, saver)
			}
			kitBothWays(t, open, build, func(t *testing.T, _ *kitWorld, thread kitHandle) {
				_, err := thread().Run(t.Context(), kitState{})
				old := kitAsked(t, err, "ask?")
				events, _ := abandonedRun(t, thread())
				if len(events) != 1 || events[0].Graph != "outer" {
					t.Fatalf("events %v, want one of the outer graph", events)
				}
				lines, ids := abandonedOf(events[0])
				if diff := cmp.Diff([]string{"inner id true questions 1"}, lines); diff != "" || ids[1] != old[0].ID {
					t.Errorf("question: %s, want %s (-want +got):\n%s", ids[1], old[0].ID, diff)
				}
			})
		})
	}
}

// abandonedWire checks that callers with JSON get the event and the metadata. The event
// has no wire format, because LangGraph has no such event; the metadata has one.
func abandonedWire(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	g := kitChain("ask?")(t, &kitWorld{}, open(t))
	thread := dynamic.Open(g, "t")
	_, err := thread.RunJSON(t.Context(), json.RawMessage(`{"n":1}`))
	old := kitAsked(t, err, "ask?")
	var events int
	var checkpoints []string
	for ev, err := range thread.StreamJSON(t.Context(), json.RawMessage(`{"n":2}`), treadle.Modes(treadle.ModeUpdates, treadle.ModeCheckpoints)) {
		if err != nil {
			kitAsked(t, err, "ask?")
			continue
		}
		raw, err := dynamic.Wire{}.Encode(ev)
		if err != nil {
			t.Fatal(err)
		}
		switch ev := ev.(type) {
		case treadle.Abandoned:
			events++
			if raw != nil {
				t.Errorf("event: %s on the wire, want nothing", raw)
			}
		case treadle.Checkpointed:
			var cp struct{ Metadata map[string]json.RawMessage }
			if err := json.Unmarshal(raw, &cp); err != nil {
				t.Fatal(err)
			}
			task := ""
			if len(ev.Snapshot.Tasks) > 0 && cp.Metadata["__abandoned__"] != nil {
				var list []struct{ ID string }
				if err := json.Unmarshal(cp.Metadata["__abandoned__"], &list); err != nil {
					t.Fatal(err)
				}
				task = list[0].ID
			}
			checkpoints = append(checkpoints, strings.ReplaceAll(string(cp.Metadata["__abandoned__"]), task, ""))
		}
	}
	want := []string{`[{"id":"","name":"ask","interrupts":["` + old[0].ID + `"]}]`, ""}
	if diff := cmp.Diff(want, checkpoints); diff != "" || events != 1 {
		t.Errorf("%d events, want 1; metadata of checkpoints on the wire (-want +got):\n%s", events, diff)
	}
}
