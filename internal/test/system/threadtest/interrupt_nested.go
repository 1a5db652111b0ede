package threadtest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// askNest nests a graph in depth levels of parent graphs.
func askNest(b *treadle.Builder[askState], c *askTally, depth int) (*treadle.Graph[askState, askState], error) {
	g, err := b.Compile(nil)
	for i := range depth {
		if err != nil {
			return nil, err
		}
		up := treadle.New[askState](fmt.Sprintf("level%d", i))
		treadle.AddNode(up, "pre", askPlain(c, fmt.Sprintf("pre%d", i)))
		treadle.AddGraph(up, "in", g)
		b := up
		b.Edge(treadle.Start, "pre")
		b.Edge("pre", "in")
		g, err = b.Compile(nil)
	}
	return g, err
}

func interruptDeep(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		leaf := treadle.New[askState]("leaf")
		treadle.AddNode(leaf, "left", askNode(c, "left"))
		treadle.AddNode(leaf, "right", askNode(c, "right"))
		treadle.AddNode(leaf, "free", askPlain(c, "free"))
		treadle.AddNode(leaf, "last", askNode(c, "last"))
		for _, n := range []string{"left", "right", "free"} {
			leaf.Edge(treadle.Start, n)
		}
		leaf.Join([]any{"left", "right", "free"}, "last")
		inner, err := askNest(leaf, c, 2)
		if err != nil {
			return nil, err
		}
		root := treadle.New[askState]("root")
		treadle.AddGraph(root, "sub", inner)
		treadle.AddNode(root, "beside", askNode(c, "beside"))
		root.Edge(treadle.Start, "sub")
		root.Edge(treadle.Start, "beside")
		return root.Compile(&treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		ps := askedStrings(t, err, "beside?", "left?", "right?")
		rig.tally.want(t, "pre0", "pre1", "left", "right", "free", "beside")
		if len(ps[0].Namespace) != 0 || len(ps[1].Namespace) != 3 || !slices.Equal(ps[1].Namespace, ps[2].Namespace) {
			t.Errorf("namespaces %q, %q, %q", ps[0].Namespace, ps[1].Namespace, ps[2].Namespace)
		}
		// The state shows the subgraphs with their interrupts.
		snap := askNext(t, rig, "beside", "sub")
		askQuestions(t, snap.Pauses, "beside?", "left?", "right?")
		sub := snap.Tasks[1]
		for range 2 {
			if sub.Graph == nil || !slices.Equal(sub.Graph.Next, []string{"in"}) {
				t.Fatalf("state of %q is %+v", sub.Name, sub.Graph)
			}
			sub = sub.Graph.Tasks[0]
		}
		if sub.Graph == nil || !slices.Equal(sub.Graph.Next, []string{"left", "right"}) || !slices.Equal(sub.Graph.Namespace, ps[1].Namespace) {
			t.Fatalf("state of the leaf: %+v", sub.Graph)
		}
		askQuestions(t, sub.Graph.Pauses, "left?", "right?")

		// Finished nodes in the subgraphs do not run again, and answers can be given one
		// by one.
		_, err = rig.thread().Resume(t.Context(), treadle.Answers{ps[2].ID: "R"})
		ps = askedStrings(t, err, "beside?", "left?")
		rig.tally.want(t, "left", "right", "beside")
		_, err = rig.thread().Resume(t.Context(), treadle.Answers{ps[0].ID: "B"})
		askedStrings(t, err, "left?")
		rig.tally.want(t, "left", "beside")
		_, err = rig.thread().Resume(t.Context(), "L")
		askedStrings(t, err, "last?")
		rig.tally.want(t, "left", "last")
		out, err := rig.thread().Resume(t.Context(), "E")
		askEnded(t, out, err, "beside=B", "pre1", "pre0", "free", "left=L", "right=R", "last=E")
		rig.tally.want(t, "last")
	})
}

func interruptCalledGraph(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		inner := treadle.New[askState]("inner")
		treadle.AddNode(inner, "one", askNode(c, "one"))
		treadle.AddNode(inner, "two", askNode(c, "two"))
		inner.Edge(treadle.Start, "one")
		inner.Edge("one", "two")
		g, err := inner.Compile(nil)
		if err != nil {
			return nil, err
		}
		b := treadle.New[askState]("outer")
		treadle.AddNode(b, "call", func(ctx context.Context, _ askState) (askLog, error) {
			c.add("call")
			out, err := g.Run(ctx, askState{Log: reduce.List[string]{"in"}})
			if err != nil {
				return askLog{}, err
			}
			more, err := g.Run(ctx, askState{})
			return askLog{slices.Concat(out.Log, more.Log)}, err
		}, treadle.Uses(g))
		b.Edge(treadle.Start, "call")
		return b.Compile(&treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "one?")
		_, err = rig.thread().Resume(t.Context(), "1")
		askedStrings(t, err, "two?")
		rig.tally.want(t, "call", "one", "call", "one", "two")
		_, err = rig.thread().Resume(t.Context(), "2")
		askedStrings(t, err, "one?") // from the second run of the graph
		rig.tally.want(t, "call", "two", "one")
		_, err = rig.thread().Resume(t.Context(), "3")
		askedStrings(t, err, "two?")
		out, err := rig.thread().Resume(t.Context(), "4")
		askEnded(t, out, err, "in", "one=1", "two=2", "one=3", "two=4")
		rig.tally.want(t, "call", "one", "two", "call", "two")
	})
}
