package treadle_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// A deferred node waits for the longest way.
//
// Parity: 28.
func TestDeferredNodeWaitsForLongestPath(t *testing.T) {
	build := func(opts ...treadle.NodeOption) *treadle.Graph[diary, diary] {
		b := treadle.New[diary]("uneven")
		for _, n := range []string{"a", "b1", "b2", "c"} {
			treadle.AddNode(b, n, does(n))
		}
		treadle.AddNode(b, "last", does("last"), opts...)
		b.Edge(treadle.Start, "a")
		b.Edge("a", "b1")
		b.Edge("b1", "b2")
		b.Edge("a", "c")
		b.Edge("b2", "last")
		b.Edge("c", "last")
		return weave(t, b, nil)
	}
	wantLog(t, build(), diary{}, "a", "b1", "c", "b2", "last", "last")
	wantLog(t, build(treadle.Defer()), diary{}, "a", "b1", "c", "b2", "last")
}

// With a join, a deferred node waits for both: the sources and the others.
//
// Parity: 28.
func TestDeferredNodeAfterJoin(t *testing.T) {
	for name, deferred := range map[string]bool{"plain": false, "deferred": true} {
		t.Run(name, func(t *testing.T) {
			var opts []treadle.NodeOption
			// The edge runs it a step after rewrite, the join once both have run.
			want := []string{"rewrite", "analyzer", "one", "qa", "two", "qa"}
			if deferred {
				opts = append(opts, treadle.Defer())
				want = []string{"rewrite", "analyzer", "one", "two", "qa"}
			}
			b := treadle.New[diary]("rag")
			for _, n := range []string{"rewrite", "analyzer", "one", "two"} {
				treadle.AddNode(b, n, does(n))
			}
			treadle.AddNode(b, "qa", does("qa"), opts...)
			b.Edge(treadle.Start, "rewrite")
			b.Edge("rewrite", "analyzer")
			b.Edge("rewrite", "one")
			b.Edge("analyzer", "two")
			b.Edge("rewrite", "qa")
			b.Join([]any{"one", "two"}, "qa")
			wantLog(t, weave(t, b, nil), diary{}, want...)
		})
	}
}

// A join that never completes keeps even a deferred node from running.
//
// Parity: 28.
func TestDeferredNodeAfterIncompleteJoin(t *testing.T) {
	b := treadle.New[diary]("incomplete")
	treadle.AddNode(b, "a", does("a"))
	treadle.AddNode(b, "b", does("b"))
	treadle.AddNode(b, "last", does("last"), treadle.Defer())
	b.Edge(treadle.Start, "a")
	treadle.AddBranch(b, "a", func(context.Context, diary) (treadle.Goto, error) { return treadle.To(treadle.End), nil }, "b", treadle.End)
	b.Join([]any{"a", "b"}, "last")
	wantLog(t, weave(t, b, nil), diary{}, "a")
}

// Work that a deferred node causes may arm it again.
//
// Parity: 28.
func TestDeferredNodeInLoop(t *testing.T) {
	b := treadle.New[diary]("loop")
	treadle.AddNode(b, "work", does("work"))
	treadle.AddNode(b, "collect", func(_ context.Context, s diary) (page, error) {
		return did(fmt.Sprint("collect ", len(s.Log))), nil
	}, treadle.Defer())
	b.Edge(treadle.Start, "work")
	b.Edge("work", "collect")
	treadle.AddBranch(b, "collect", func(_ context.Context, s diary) (treadle.Goto, error) {
		if len(s.Log) < 4 {
			return treadle.To("work"), nil
		}
		return treadle.To(treadle.End), nil
	}, "work", treadle.End)
	wantLog(t, weave(t, b, nil), diary{}, "work", "collect 1", "work", "collect 3")
}

// Deferred nodes are released together; a deferred node that another one leads to waits
// again.
//
// Parity: 28.
func TestSeveralDeferredNodes(t *testing.T) {
	b := treadle.New[diary]("several")
	treadle.AddNode(b, "a", does("a"))
	treadle.AddNode(b, "x", does("x"), treadle.Defer())
	treadle.AddNode(b, "y", does("y"), treadle.Defer())
	treadle.AddNode(b, "z", does("z"), treadle.Defer())
	treadle.AddNode(b, "after", does("after"))
	b.Edge(treadle.Start, "a")
	b.Edge(treadle.Start, "y")
	b.Edge("a", "x")
	b.Edge("x", "z")
	b.Edge("y", "after")
	wantLog(t, weave(t, b, nil), diary{}, "a", "x", "y", "after", "z")
}

// An uneven fan-out by Send finishes before a deferred node starts.
func TestDeferredNodeWaitsForSends(t *testing.T) {
	b := treadle.New[diary]("map reduce")
	var work treadle.Node[int]
	work = treadle.AddNode(b, "work", func(_ context.Context, n int) (told, error) {
		var next treadle.Goto
		if n > 1 {
			next = treadle.Send(work, n-1)
		}
		return told{did(fmt.Sprint("work ", n)).Log, next}, nil
	}, treadle.Destinations("work"), treadle.Additive())
	treadle.AddNode(b, "fan", func(context.Context, diary) (treadle.Goto, error) {
		return append(treadle.Send(work, 1), treadle.Send(work, 3)...), nil
	}, treadle.Destinations("work"))
	treadle.AddNode(b, "sum", func(_ context.Context, s diary) (page, error) { return did(fmt.Sprint("sum of ", len(s.Log))), nil }, treadle.Defer())
	b.Edge(treadle.Start, "fan")
	b.Edge("work", "sum")
	wantLog(t, weave(t, b, nil), diary{}, "work 1", "work 3", "work 2", "work 1", "sum of 4")
}

// A send to a deferred node does not wait, because each send has its own input.
func TestSendToDeferredNodeDoesNotWait(t *testing.T) {
	b := treadle.New[diary]("sent")
	last := treadle.AddNode(b, "last", func(_ context.Context, s diary) (page, error) { return did("last " + s.Topic), nil }, treadle.Defer())
	treadle.AddNode(b, "a", does("a"))
	treadle.AddNode(b, "b", does("b"))
	treadle.AddBranch(b, treadle.Start, func(context.Context, diary) (treadle.Goto, error) {
		return append(treadle.To("a"), treadle.Send(last, diary{Topic: "now"})...), nil
	}, "a", "last")
	b.Edge("a", "b")
	wantLog(t, weave(t, b, nil), diary{}, "a", "last now", "b")
}

// A waiting node is part of the checkpoint, and a new input gives it up.
func TestDeferredNodeOnThread(t *testing.T) {
	fail := true
	b := treadle.New[diary]("stored")
	treadle.AddNode(b, "a", does("a"))
	treadle.AddNode(b, "b", func(context.Context, diary) (page, error) {
		if fail {
			return page{}, passing{"boom"}
		}
		return did("b"), nil
	})
	treadle.AddNode(b, "last", does("last"), treadle.Defer())
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	b.Edge("a", "last")
	g := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	for _, id := range []string{"continued", "begun again"} {
		if _, err := g.Thread(id).Run(t.Context(), diary{}); err == nil {
			t.Fatal("the run did not fail")
		}
	}
	fail = false
	out, err := g.Thread("continued").Continue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "log", reduce.List[string]{"a", "b", "last"}, out.Log)
	if out, err = g.Thread("begun again").Run(t.Context(), diary{}); err != nil {
		t.Fatal(err)
	}
	same(t, "log", reduce.List[string]{"a", "a", "b", "last"}, out.Log)
}

// A deferred node in a subgraph waits for its own graph only.
func TestDeferredNodeInSubgraph(t *testing.T) {
	cb := treadle.New[diary]("child")
	treadle.AddNode(cb, "c1", does("c1"))
	treadle.AddNode(cb, "c2", does("c2"))
	treadle.AddNode(cb, "last", does("c last"), treadle.Defer())
	cb.Edge(treadle.Start, "c1")
	cb.Edge(treadle.Start, "last")
	cb.Edge("c1", "c2")
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", weave(t, cb, nil))
	treadle.AddNode(b, "after", does("after"))
	b.Edge(treadle.Start, "sub")
	b.Edge("sub", "after")
	wantLog(t, weave(t, b, nil), diary{}, "c1", "c2", "c last", "after")
}

// What a deferred node reports as its triggers, and when it starts.
//
// Parity: 28.
func TestDeferredNodeInDebugStream(t *testing.T) {
	b := treadle.New[diary]("debug")
	for _, n := range []string{"a", "b", "c"} {
		treadle.AddNode(b, n, does(n))
	}
	treadle.AddNode(b, "qa", does("qa"), treadle.Defer())
	b.Edge(treadle.Start, "a")
	b.Edge(treadle.Start, "b")
	b.Edge("a", "c")
	b.Edge("a", "qa")
	b.Join([]any{"b", "a"}, "qa")
	var got []string
	for ev, err := range weave(t, b, nil).Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeDebug)) {
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := ev.(treadle.TaskStarted); ok {
			got = append(got, fmt.Sprintf("%d %s %s", start.Step, start.Node, strings.Join(start.Triggers, " ")))
		}
	}
	same(t, "starts", []string{
		"1 a branch:to:a",
		"1 b branch:to:b",
		"2 c branch:to:c",
		"3 qa branch:to:qa join:b+a:qa",
	}, got)
}
