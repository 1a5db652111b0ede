package threadtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Rollback is the suite for deleting runs as if they had never happened.
var Rollback = Suite{
	{"TheQuestionIsAskedAgain", concurrent, rollbackAsks},
	{"TheNextRunStartsBeforeIt", sequential, rollbackState},
	{"ACopyStays", sequential, rollbackCopy},
}

type rollbackThread = treadle.Thread[askState, askState]

// rollbackGraph returns a graph with two interrupts in one node, in the root graph or two
// graphs down.
func rollbackGraph(t *testing.T, saver checkpoint.Saver, deep bool, d treadle.Durability) func(run string) *rollbackThread {
	t.Helper()
	g := treadle.New[askState]("asks")
	treadle.AddNode(g, "ask", func(ctx context.Context, _ askState) (askLog, error) {
		first, err := treadle.Interrupt[string](ctx, "first?")
		if err != nil {
			return askLog{}, err
		}
		second, err := treadle.Interrupt[string](ctx, "second?")
		return askSay(first + " " + second), err
	})
	g.Edge(treadle.Start, "ask")
	if !deep {
		graph := treadle.Must(g.Compile(&treadle.Options{Saver: saver}))
		return func(run string) *rollbackThread {
			return graph.With(treadle.RunID(run), d).Thread("thread")
		}
	}
	inner := treadle.Must(g.Compile(nil))
	for _, name := range []string{"middle", "outer"} {
		around := treadle.New[askState](name)
		treadle.AddGraph(around, "graph", inner)
		around.Edge(treadle.Start, "graph")
		inner = treadle.Must(around.Compile(&treadle.Options{Saver: map[string]checkpoint.Saver{"outer": saver}[name]}))
	}
	return func(run string) *rollbackThread { return inner.With(treadle.RunID(run), d).Thread("thread") }
}

func rollback(t *testing.T, saver checkpoint.Saver, thread string, runs ...string) {
	t.Helper()
	if _, err := saver.(checkpoint.RunDeleter).DeleteRuns(t.Context(), thread, runs); err != nil {
		t.Fatal(err)
	}
}

func rollbackAsks(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, deep := range []bool{false, true} {
		for name, d := range map[string]treadle.Durability{"sync": treadle.Sync, "async": treadle.Async, "exit": treadle.Exit} {
			t.Run(fmt.Sprint(name, " nested ", deep), func(t *testing.T) {
				saver := open(t)
				as := rollbackGraph(t, saver, deep, d)
				asks := func(err error, want string) {
					t.Helper()
					var e *treadle.InterruptError
					if !errors.As(err, &e) || len(e.Pauses) != 1 || string(e.Pauses[0].Value) != `"`+want+`"` {
						t.Fatalf("run ended with %v, want the question %s", err, want)
					}
				}
				waits := func(want string) {
					t.Helper()
					snap, err := as("").State(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if len(snap.Pauses) != 1 || string(snap.Pauses[0].Value) != `"`+want+`"` {
						t.Errorf("thread waits for %v, want %s", snap.Pauses, want)
					}
				}
				_, err := as("one").Run(t.Context(), askState{})
				asks(err, "first?")
				_, err = as("two").Resume(t.Context(), "a")
				asks(err, "second?")
				rollback(t, saver, "thread", "two")
				waits("first?")
				_, err = as("three").Resume(t.Context(), "b")
				asks(err, "second?")
				for _, run := range []string{"four", "five"} {
					out, err := as(run).Resume(t.Context(), run)
					if err != nil || len(out.Log) != 1 || out.Log[0] != "b "+run {
						t.Errorf("%s: %v, %v", run, out.Log, err)
					}
					if run == "four" {
						rollback(t, saver, "thread", run)
						waits("second?")
					}
				}
				rollback(t, saver, "thread", "three", "five")
				waits("first?")
			})
		}
	}
}

// rollbackState checks that the state of a thread cached in the process does not include
// a deleted run.
func rollbackState(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	b := treadle.New[askState]("log")
	treadle.AddNode(b, "n", func(_ context.Context, s askState) (askLog, error) { return askSay(s.Note), nil })
	b.Edge(treadle.Start, "n")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: saver}))
	run := func(name string, want ...string) {
		t.Helper()
		out, err := g.With(treadle.RunID(name)).Thread("thread").Run(t.Context(), askState{Note: name})
		if err != nil || fmt.Sprint(out.Log) != fmt.Sprint(want) {
			t.Errorf("%s: %v, %v; want %v", name, out.Log, err, want)
		}
	}
	run("one", "one")
	run("two", "one", "two")
	rollback(t, saver, "thread", "two")
	run("three", "one", "three")
	rollback(t, saver, "thread", "one", "three")
	run("four", "four")
}

func rollbackCopy(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	as := rollbackGraph(t, saver, true, treadle.Sync)
	if _, err := as("one").Run(t.Context(), askState{}); err == nil {
		t.Fatal("nothing was asked")
	}
	if _, err := as("two").Resume(t.Context(), "a"); err == nil {
		t.Fatal("nothing more was asked")
	}
	if err := saver.(checkpoint.Copier).CopyThread(t.Context(), "thread", "copy"); err != nil {
		t.Fatal(err)
	}
	rollback(t, saver, "copy", "one", "two")
	out, err := as("three").Resume(t.Context(), "b")
	if err != nil || fmt.Sprint(out.Log) != "[a b]" {
		t.Errorf("original: %v, %v", out.Log, err)
	}
}
