package threadtest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// stateOfAnotherGraph checks that a thread belongs to the graph that started it, and that
// no other graph continues it.
func stateOfAnotherGraph(t *testing.T, open opener) {
	build := func(t *testing.T, saver checkpoint.Saver, name string, was ...string) *treadle.Graph[askState, askState] {
		t.Helper()
		b := treadle.New[askState](name)
		treadle.AddNode(b, "ask", askNode(&askTally{}, "ask"))
		b.Edge(treadle.Start, "ask")
		g, err := b.Compile(&treadle.Options{Saver: saver, Was: was})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	refused := func(t *testing.T, what string, err error, names ...string) {
		t.Helper()
		for _, word := range append(names, "Options.Was") {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Fatalf("%s: %v, want the word %q in it", what, err, word)
			}
		}
	}
	saver := open(t)
	old := build(t, saver, "old").Thread("t")
	_, err := old.Run(t.Context(), askState{})
	askedStrings(t, err, "ask?")
	head, err := old.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other := build(t, saver, "new").Thread("t")
	both := []string{`graph "new"`, `graph "old"`, `thread "t"`}
	askUnchanged(t, saver, "another graph", func() {
		_, err := other.Run(t.Context(), askState{})
		refused(t, "Run", err, both...)
		_, err = other.Continue(t.Context())
		refused(t, "Continue", err, both...)
		_, err = other.Resume(t.Context(), "x")
		refused(t, "Resume", err, both...)
		_, err = other.Update(t.Context(), askNote{"x"}, treadle.AsNode("ask"))
		refused(t, "Update", err, both...)
		_, err = other.Update(t.Context(), nil, treadle.AsNode(treadle.CopyNode))
		refused(t, "a copy", err, both...)
		_, err = other.At(head.Parent).Continue(t.Context())
		refused(t, "At", err, both...)
		for _, d := range []treadle.Durability{treadle.Async, treadle.Exit} {
			_, err = build(t, saver, "new").With(d).Thread("t").Continue(t.Context())
			refused(t, fmt.Sprint("durability ", d), err, both...)
		}
		// Reading is allowed.
		snap, err := other.State(t.Context())
		if err != nil || snap.ID != head.ID {
			t.Errorf("state: %+v, %v", snap, err)
		}
	})
	if c, ok := saver.(checkpoint.Copier); ok {
		if err := c.CopyThread(t.Context(), "t", "copy"); err != nil {
			t.Fatal(err)
		}
		_, err = build(t, saver, "new").Thread("copy").Continue(t.Context())
		refused(t, "a copy of the thread", err, `graph "old"`)
		if err := saver.DeleteThread(t.Context(), "copy"); err != nil {
			t.Fatal(err)
		}
	}
	// A renamed graph continues the thread, which then belongs to it.
	renamed := build(t, saver, "new", "older", "old").Thread("t")
	out, err := renamed.Resume(t.Context(), "A")
	askEnded(t, out, err, "ask=A")
	_, err = old.Run(t.Context(), askState{})
	refused(t, "the old one", err, `graph "old"`, `graph "new"`)
	_, err = other.Run(t.Context(), askState{})
	askedStrings(t, err, "ask?")
}

// stateOfNoGraph checks that any graph can continue a checkpoint without a name, as
// earlier versions wrote it.
func stateOfNoGraph(t *testing.T, open opener) {
	saver := open(t)
	unnamed, err := askChain(asking("ask"))(namelessSaver{saver}, &askTally{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = unnamed.Thread("t").Run(t.Context(), askState{})
	askedStrings(t, err, "ask?")
	b := treadle.New[askState]("another")
	treadle.AddNode(b, "ask", askNode(&askTally{}, "ask"))
	b.Edge(treadle.Start, "ask")
	later, err := b.Compile(&treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	out, err := later.Thread("t").Resume(t.Context(), "A")
	askEnded(t, out, err, "ask=A")
}

// namelessSaver saves control data without the graph's name, as earlier versions did.
type namelessSaver struct{ checkpoint.Saver }

func (s namelessSaver) Put(ctx context.Context, p *checkpoint.Put) error {
	p.Control = []byte(strings.ReplaceAll(string(p.Control), `"graph":"asks"`, `"unknown":0`))
	return s.Saver.Put(ctx, p)
}

// nestingOfAnotherGraph checks that a subgraph's state belongs to that graph: a node that
// runs a different graph in its place, because it was changed or runs several in another
// order, gets an error.
func nestingOfAnotherGraph(t *testing.T, open opener) {
	leaf := func(name string, was ...string) *treadle.Graph[askState, askState] {
		b := treadle.New[askState](name)
		treadle.AddNode(b, "ask", askNode(&askTally{}, "ask"))
		b.Edge(treadle.Start, "ask")
		g, err := b.Compile(&treadle.Options{Was: was})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for name, add := range map[string]func(*treadle.Builder[askState], *treadle.Graph[askState, askState]){
		"Node": func(b *treadle.Builder[askState], g *treadle.Graph[askState, askState]) {
			treadle.AddGraph(b, "sub", g)
		},
		"PerThread": func(b *treadle.Builder[askState], g *treadle.Graph[askState, askState]) {
			treadle.AddGraph(b, "sub", g, treadle.PerThread())
		},
		"Called": func(b *treadle.Builder[askState], g *treadle.Graph[askState, askState]) {
			treadle.AddNode(b, "sub", func(ctx context.Context, _ askState) (askLog, error) {
				out, err := g.Run(ctx, askState{})
				return askLog{out.Log}, err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			saver := open(t)
			on := func(g *treadle.Graph[askState, askState]) *treadle.Thread[askState, askState] {
				outer, err := askOuter(&treadle.Options{Saver: saver}, func(b *treadle.Builder[askState]) { add(b, g) })
				if err != nil {
					t.Fatal(err)
				}
				return outer.Thread("t")
			}
			_, err := on(leaf("first")).Run(t.Context(), askState{})
			askedStrings(t, err, "ask?")
			_, err = on(leaf("second")).Continue(t.Context())
			if err == nil || !strings.Contains(err.Error(), `belongs to graph "first"`) || !strings.Contains(err.Error(), `graph "second"`) {
				t.Fatalf("another graph in the node: %v", err)
			}
			out, err := on(leaf("second", "first")).Resume(t.Context(), "A")
			askEnded(t, out, err, "ask=A")
		})
	}
}
