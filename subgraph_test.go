package treadle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// diary is the state of most tests of subgraphs, failures, and streams: the nodes that
// ran, in order.
type diary struct {
	Topic string              `json:"topic"`
	Log   reduce.List[string] `json:"log"`
}

// page contains the writes of a diary node.
type page struct{ Log reduce.List[string] }

func did(what ...string) page { return page{what} }

// does returns a node that only records that it ran.
func does(what string) func(context.Context, diary) (page, error) {
	return func(context.Context, diary) (page, error) { return did(what), nil }
}

// chain builds a graph of the named nodes, one after the other; each says its
// name.
func chain(name string, nodes ...string) *treadle.Builder[diary] {
	b := treadle.New[diary](name)
	for _, n := range nodes {
		treadle.AddNode(b, n, does(n))
	}
	b.Edge(treadle.Start, nodes[0])
	b.Sequence(treadle.Nodes(nodes)...)
	return b
}

func weave[S any](t *testing.T, b *treadle.Builder[S], o *treadle.Options) *treadle.Graph[S, S] {
	t.Helper()
	g, err := b.Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// same compares a result with the expected value.
func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// wantLog runs a graph and compares the diary it leaves.
func wantLog(t *testing.T, g *treadle.Graph[diary, diary], in diary, want ...string) {
	t.Helper()
	out, err := g.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "log", want, []string(out.Log))
}

// nodesOf returns the namespace's nodes, without their task IDs.
func nodesOf(namespace []string) string {
	parts := slices.Clone(namespace)
	for i, p := range parts {
		parts[i], _, _ = strings.Cut(p, ":")
	}
	return strings.Join(parts, "/")
}

// An accumulating field goes down once and comes up as the updates of the
// child's nodes, so that nothing is in it twice.
//
// Parity: 36.
func TestSubgraphPassesUpdates(t *testing.T) {
	child := weave(t, chain("child", "c1", "c2"), nil)
	b := treadle.New[diary]("parent")
	treadle.AddNode(b, "before", does("before"))
	treadle.AddGraph(b, "sub", child)
	treadle.AddNode(b, "after", does("after"))
	b.Edge(treadle.Start, "before")
	b.Sequence("before", "sub", "after")
	wantLog(t, weave(t, b, nil), diary{Log: reduce.List[string]{"in"}}, "in", "before", "c1", "c2", "after")
}

// The graphs share Log only. What else the child has stays in the child, what
// else the parent has is not touched.
//
// Parity: 36.
func TestSubgraphSharesFieldsByName(t *testing.T) {
	type inner struct {
		Log    reduce.List[string] `json:"log"`
		Secret string              `json:"secret"`
	}
	type hide struct {
		Secret string
		Log    reduce.List[string]
	}
	cb := treadle.New[inner]("child")
	treadle.AddNode(cb, "c", func(_ context.Context, s inner) (hide, error) {
		return hide{"s3cret", reduce.List[string]{fmt.Sprintf("c saw %d", len(s.Log))}}, nil
	})
	cb.Edge(treadle.Start, "c")
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", weave(t, cb, nil))
	b.Edge(treadle.Start, "sub")
	g := weave(t, b, nil)
	for ev, err := range g.Stream(t.Context(), diary{Topic: "owls", Log: reduce.List[string]{"in"}}, treadle.Modes(treadle.ModeUpdates, treadle.ModeValues)) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev := ev.(type) {
		case treadle.Updated:
			same(t, "update", `{"log":["c saw 1"]}`, ev.Update.String())
		case treadle.Finished[diary]:
			same(t, "output", diary{"owls", reduce.List[string]{"in", "c saw 1"}}, ev.Output)
		}
	}
}

// A last-value field comes up only if a node of the child wrote it: two
// children of one step may both inherit it.
func TestSubgraphKeepsReadOnlyFields(t *testing.T) {
	child := weave(t, chain("child", "c"), nil)
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "one", child)
	treadle.AddGraph(b, "two", child)
	b.Edge(treadle.Start, "one")
	b.Edge(treadle.Start, "two")
	wantLog(t, weave(t, b, nil), diary{Topic: "owls"}, "c", "c")
}

// An overwrite in the child is an overwrite in the parent.
func TestSubgraphPassesOverwrite(t *testing.T) {
	type reset struct {
		Log treadle.Overwrite[reduce.List[string]]
	}
	cb := treadle.New[diary]("child")
	treadle.AddNode(cb, "c", func(context.Context, diary) (reset, error) {
		return reset{treadle.Overwrite[reduce.List[string]]{Value: reduce.List[string]{"fresh"}}}, nil
	})
	cb.Edge(treadle.Start, "c")
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", weave(t, cb, nil))
	treadle.AddNode(b, "after", does("after"))
	b.Edge(treadle.Start, "sub")
	b.Edge("sub", "after")
	wantLog(t, weave(t, b, nil), diary{Log: reduce.List[string]{"in"}}, "fresh", "after")
}

// The subgraph's input and output types determine which fields are shared.
//
// Parity: 36.
func TestSubgraphSchemasFilterBothWays(t *testing.T) {
	type ask struct{ Topic string }
	type answer struct{ Log reduce.List[string] }
	cb := treadle.New[diary]("child")
	treadle.AddNode(cb, "c", func(_ context.Context, s diary) (diaryWrite, error) {
		return diaryWrite{"changed", reduce.List[string]{fmt.Sprintf("%s, %d before", s.Topic, len(s.Log))}}, nil
	})
	cb.Edge(treadle.Start, "c")
	child, err := treadle.Compile[ask, answer](cb, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", child)
	b.Edge(treadle.Start, "sub")
	out, err := weave(t, b, nil).Run(t.Context(), diary{"owls", reduce.List[string]{"in"}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "output", diary{"owls", reduce.List[string]{"in", "owls, 0 before"}}, out)
}

// diaryWrite writes every field of a diary.
type diaryWrite struct {
	Topic string
	Log   reduce.List[string]
}

// Compile rejects a subgraph whose accumulating field has another type than the parent's,
// and a subgraph without shared fields.
func TestUnmappableSubgraphFailsCompile(t *testing.T) {
	type other struct{ Unrelated int }
	type clash struct{ Topic int }
	build := func(child func(b *treadle.Builder[diary])) error {
		b := treadle.New[diary]("parent")
		child(b)
		b.Edge(treadle.Start, "sub")
		_, err := b.Compile(nil)
		return err
	}
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"nothing shared": {build(func(b *treadle.Builder[diary]) {
			cb := treadle.New[other]("child")
			treadle.AddNode(cb, "c", func(context.Context, other) (other, error) { return other{}, nil })
			cb.Edge(treadle.Start, "c")
			treadle.AddGraph(b, "sub", weave(t, cb, nil))
		}), `graph "parent": node "sub": graph "child" shares no field with "parent": call it in a node function that converts the fields`},
		"another type": {build(func(b *treadle.Builder[diary]) {
			cb := treadle.New[clash]("child")
			treadle.AddNode(cb, "c", func(context.Context, clash) (clash, error) { return clash{}, nil })
			cb.Edge(treadle.Start, "c")
			treadle.AddGraph(b, "sub", weave(t, cb, nil))
		}), `graph "parent": node "sub": field Topic: is string here and int in graph "child"`},
		"no graph": {build(func(b *treadle.Builder[diary]) {
			treadle.AddGraph[diary, diary, diary](b, "sub", nil)
		}), `graph "parent": node "sub": graph is nil or was not created by Compile`},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
				t.Errorf("got %v, want %s", tt.err, tt.want)
			}
			if _, ok := errors.AsType[*treadle.BuildError](tt.err); !ok {
				t.Errorf("%v is not a BuildError", tt.err)
			}
		})
	}
}

// Parity: 22.
func TestGraphCalledForEachElement(t *testing.T) {
	type number struct{ N int }
	ib := treadle.New[number]("inner")
	treadle.AddNode(ib, "add", func(_ context.Context, s number) (number, error) { return number{s.N + 1}, nil })
	ib.Edge(treadle.Start, "add")
	inner := weave(t, ib, nil)

	type numbers struct {
		In  []int
		Out reduce.List[int]
	}
	type collected struct{ Out reduce.List[int] }
	b := treadle.New[numbers]("outer")
	treadle.AddNode(b, "each", func(ctx context.Context, s numbers) (collected, error) {
		ins := make([]number, len(s.In))
		for i, n := range s.In {
			ins[i].N = n * 10
		}
		outs, err := inner.RunAll(ctx, ins)
		var c collected
		for _, o := range outs {
			c.Out = append(c.Out, o.N)
		}
		return c, err
	}, treadle.Uses(inner))
	treadle.AddNode(b, "sum", func(_ context.Context, s numbers) (collected, error) {
		sum := 0
		for _, n := range s.Out {
			sum += n
		}
		return collected{reduce.List[int]{sum}}, nil
	})
	b.Edge(treadle.Start, "each")
	b.Edge("each", "sum")
	out, err := weave(t, b, nil).Run(t.Context(), numbers{In: []int{2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "out", reduce.List[int]{21, 31, 52}, out.Out)
}

// The second and later graphs that a task runs have a number in their
// namespace.
//
// Parity: 79, 80.
func TestGraphsInNodeHaveSeparateNamespaces(t *testing.T) {
	double := weave(t, chain("double", "d"), nil)
	triple := weave(t, chain("triple", "t"), nil)
	b := treadle.New[diary]("parent")
	treadle.AddNode(b, "both", func(ctx context.Context, s diary) (page, error) {
		var all page
		for _, g := range []*treadle.Graph[diary, diary]{double, triple, double} {
			out, err := g.Run(ctx, diary{Topic: s.Topic})
			if err != nil {
				return all, err
			}
			all.Log = append(all.Log, out.Log...)
		}
		return all, nil
	}, treadle.Uses(double, triple))
	b.Edge(treadle.Start, "both")
	g := weave(t, b, nil)
	type seen struct{ Namespace, Node, Graph, Update string }
	var got []seen
	task := ""
	for ev, err := range g.Stream(t.Context(), diary{}, treadle.Subgraphs()) {
		if err != nil {
			t.Fatal(err)
		}
		if up, ok := ev.(treadle.Updated); ok {
			at := up.Where()
			if len(at.Namespace) > 0 {
				_, task, _ = strings.Cut(at.Namespace[0], ":")
			} else {
				same(t, "the namespace holds the task", at.TaskID, task)
			}
			got = append(got, seen{nodesOf(at.Namespace), at.Node, at.Graph, up.Update.String()})
		}
	}
	same(t, "updates", []seen{
		{"both", "d", "double", `{"log":["d"]}`},
		{"both/1", "t", "triple", `{"log":["t"]}`},
		{"both/2", "d", "double", `{"log":["d"]}`},
		{"", "both", "parent", `{"log":["d","t","d"]}`},
	}, got)
}

func TestNestedGraphsAreListedByPath(t *testing.T) {
	leaf := weave(t, chain("leaf", "l"), nil)
	mb := treadle.New[diary]("middle")
	treadle.AddGraph(mb, "leaf", leaf)
	mb.Edge(treadle.Start, "leaf")
	middle := weave(t, mb, nil)
	b := treadle.New[diary]("top")
	treadle.AddGraph(b, "mid", middle)
	treadle.AddNode(b, "calls", does("calls"), treadle.Uses(leaf))
	treadle.AddNode(b, "plain", does("plain"))
	b.Edge(treadle.Start, "mid")
	b.Sequence("mid", "calls", "plain")
	g := weave(t, b, nil)
	var got []string
	for path, inner := range g.Subgraphs() {
		got = append(got, path+" "+inner.Name())
	}
	same(t, "subgraphs", []string{"mid middle", "mid/leaf leaf", "calls leaf"}, got)
	for path := range g.Subgraphs() {
		same(t, "the first one", "mid", path)
		break
	}
}

// Each graph of a run counts its own steps, up to its own limit or the run's.
func TestSubgraphStepLimit(t *testing.T) {
	spin := func(limit int) *treadle.Graph[diary, diary] {
		b := treadle.New[diary]("spin")
		treadle.AddNode(b, "turn", does("turn"))
		b.Edge(treadle.Start, "turn")
		treadle.AddBranch(b, "turn", func(_ context.Context, s diary) (treadle.Goto, error) {
			if len(s.Log) < 4 {
				return treadle.To("turn"), nil
			}
			return treadle.To(treadle.End), nil
		}, "turn", treadle.End)
		return weave(t, b, &treadle.Options{StepLimit: limit})
	}
	nest := func(child *treadle.Graph[diary, diary]) *treadle.Graph[diary, diary] {
		b := treadle.New[diary]("parent")
		treadle.AddGraph(b, "sub", child)
		b.Edge(treadle.Start, "sub")
		return weave(t, b, nil)
	}
	// Four turns and finding that it is over; the parent's two are not counted.
	wantLog(t, nest(spin(0)).With(treadle.StepLimit(5)), diary{}, "turn", "turn", "turn", "turn")
	wantLog(t, nest(spin(5)).With(treadle.StepLimit(2)), diary{}, "turn", "turn", "turn", "turn")
	for name, g := range map[string]*treadle.Graph[diary, diary]{
		"its own":   nest(spin(2)),
		"the run's": nest(spin(0)).With(treadle.StepLimit(2)),
	} {
		_, err := g.Run(t.Context(), diary{})
		limit, ok := errors.AsType[*treadle.StepLimitError](err)
		if !ok {
			t.Fatalf("%s: got %v, want a StepLimitError", name, err)
		}
		same(t, name, treadle.StepLimitError{Graph: "spin", Limit: 2, Next: []string{"turn"}}, *limit)
	}
}

// A failure in a subgraph names its place at every level.
func TestSubgraphFailureNamesPath(t *testing.T) {
	boom := errors.New("boom")
	cb := treadle.New[diary]("child")
	treadle.AddNode(cb, "bad", func(context.Context, diary) (page, error) { return page{}, boom })
	cb.Edge(treadle.Start, "bad")
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", weave(t, cb, nil))
	b.Edge(treadle.Start, "sub")
	_, err := weave(t, b, nil).Run(t.Context(), diary{})
	if !errors.Is(err, boom) {
		t.Fatalf("got %v, want boom", err)
	}
	outer, _ := errors.AsType[*treadle.NodeError](err)
	inner, _ := errors.AsType[*treadle.NodeError](outer.Err)
	same(t, "outer", "parent sub ", outer.Graph+" "+outer.Node+" "+outer.Path)
	path, _, _ := strings.Cut(inner.Path, ":")
	same(t, "inner", "child bad sub", inner.Graph+" "+inner.Node+" "+path)
}

// A nested run shares the outer run's identity and settings; its own come on
// top.
func TestSubgraphInheritsRun(t *testing.T) {
	var infos []treadle.Info
	note := func(ctx context.Context, s diary) (page, error) {
		if c, ok := treadle.ContextFrom[string](ctx); !ok || c != "outer" {
			t.Errorf("context is %q, %v", c, ok)
		}
		infos = append(infos, treadle.InfoFrom(ctx))
		return page{}, nil
	}
	lb := treadle.New[diary]("leaf")
	treadle.AddNode(lb, "note", note, treadle.Tags("node"))
	lb.Edge(treadle.Start, "note")
	leaf := weave(t, lb, nil)
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", leaf)
	treadle.AddNode(b, "call", func(ctx context.Context, s diary) (page, error) {
		_, err := leaf.With(treadle.Tags("call"), treadle.Metadata(map[string]any{"b": 2})).Run(ctx, s)
		return page{}, err
	})
	b.Edge(treadle.Start, "sub")
	b.Edge("sub", "call")
	g := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	thread := g.Thread("t1", treadle.Context("outer"), treadle.RunID("run-1"), treadle.Tags("run"), treadle.Metadata(map[string]any{"a": 1}))
	if _, err := thread.Run(t.Context(), diary{}); err != nil {
		t.Fatal(err)
	}
	type facts struct {
		Graph, Node, Thread, RunID, Namespace string
		Tags                                  []string
		Metadata                              map[string]any
	}
	var got []facts
	for _, i := range infos {
		got = append(got, facts{i.Graph, i.Node, i.Thread, i.RunID, nodesOf(i.Namespace), i.Tags, i.Metadata})
	}
	same(t, "infos", []facts{
		{"leaf", "note", "t1", "run-1", "sub", []string{"run", "node"}, map[string]any{"a": 1}},
		{"leaf", "note", "t1", "run-1", "call", []string{"run", "call", "node"}, map[string]any{"a": 1, "b": 2}},
	}, got)
}

// A value given to the nested call itself wins over the outer run's.
func TestNestedCallContextValue(t *testing.T) {
	var got []string
	lb := treadle.New[diary]("leaf")
	treadle.AddNode(lb, "note", func(ctx context.Context, _ diary) (page, error) {
		c, _ := treadle.ContextFrom[string](ctx)
		got = append(got, c)
		return page{}, nil
	})
	lb.Edge(treadle.Start, "note")
	leaf := weave(t, lb, nil)
	b := treadle.New[diary]("parent")
	treadle.AddNode(b, "call", func(ctx context.Context, s diary) (page, error) {
		_, err := leaf.With(treadle.Context("inner")).Run(ctx, s)
		if err == nil {
			_, err = leaf.Run(ctx, s)
		}
		return page{}, err
	})
	b.Edge(treadle.Start, "call")
	if _, err := weave(t, b, nil).With(treadle.Context("outer")).Run(t.Context(), diary{}); err != nil {
		t.Fatal(err)
	}
	same(t, "context values", []string{"inner", "outer"}, got)
}

// A run on its own thread is independent, wherever it is started.
//
// Parity: 163.
func TestNestedRunOnThreadIsDetached(t *testing.T) {
	saver := checkpoint.NewMemory()
	child := weave(t, chain("child", "c"), &treadle.Options{Saver: saver})
	b := treadle.New[diary]("parent")
	treadle.AddNode(b, "call", func(ctx context.Context, s diary) (page, error) {
		_, err := child.Thread("memo").Run(ctx, diary{})
		return did("called"), err
	})
	b.Edge(treadle.Start, "call")
	g := weave(t, b, nil)
	for range 2 {
		wantLog(t, g, diary{}, "called")
	}
	snap, err := child.Thread("memo").State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the child's thread", `{"log":["c","c"]}`, snap.State.String())
	same(t, "step", 4, snap.Step)
	// Its events are its own too.
	nested := 0
	for ev, err := range g.Stream(t.Context(), diary{}, treadle.Subgraphs()) {
		if err != nil {
			t.Fatal(err)
		}
		nested += len(ev.Where().Namespace)
	}
	same(t, "events from inside", 0, nested)
}

// A graph that brings a saver into a parent without one is not saved, which is
// worth a warning.
func TestSubgraphSaverWarning(t *testing.T) {
	saver := checkpoint.NewMemory()
	child := weave(t, chain("child", "c"), &treadle.Options{Saver: saver})
	build := func(o *treadle.Options) *treadle.Graph[diary, diary] {
		b := treadle.New[diary]("parent")
		treadle.AddGraph(b, "sub", child)
		b.Edge(treadle.Start, "sub")
		return weave(t, b, o)
	}
	g := build(nil)
	wantLog(t, g, diary{}, "c")
	same(t, "warnings", []string{`graph "parent": node "sub": graph "child" has a saver, which a subgraph does not use, and "parent" has none: nothing is saved`}, g.Warnings())
	same(t, "no warnings", []string(nil), build(&treadle.Options{Saver: checkpoint.NewMemory()}).Warnings())
}

// handOff is the update of a command for the parent graph.
type handOff = treadle.Command[page]

// bubbling returns a graph whose node "away" sends a command to the parent graph.
func bubbling(t *testing.T, name string, o *treadle.Options, target string) *treadle.Graph[diary, diary] {
	t.Helper()
	b := treadle.New[diary](name)
	treadle.AddNode(b, "first", does(name+".first"))
	treadle.AddNode(b, "away", func(context.Context, diary) (handOff, error) {
		up := did(name + ".away")
		return handOff{Update: &up, Goto: treadle.To(target), Parent: true}, nil
	}, treadle.Handoff(target))
	treadle.AddNode(b, "never", does(name+".never"))
	b.Edge(treadle.Start, "first")
	b.Sequence("first", "away", "never")
	return weave(t, b, o)
}

// The subgraph ends with the command. Its earlier writes to its own fields stay private;
// the command updates the parent graph.
//
// Parity: 54, 98.
func TestParentCommandEndsSubgraph(t *testing.T) {
	for name, o := range map[string]*treadle.Options{
		"plain":        nil,
		"step timeout": {StepTimeout: 1e9},
		"saver":        {Saver: checkpoint.NewMemory()},
	} {
		t.Run(name, func(t *testing.T) {
			b := treadle.New[diary]("parent")
			treadle.AddGraph(b, "sub", bubbling(t, "child", o, "target"))
			treadle.AddNode(b, "target", does("target"))
			b.Edge(treadle.Start, "sub")
			wantLog(t, weave(t, b, o), diary{}, "child.away", "target")
		})
	}
}

// A command may update fields that the child has never heard of.
//
// Parity: 54.
func TestParentCommandUpdatesParentFields(t *testing.T) {
	type small struct {
		Log reduce.List[string] `json:"log"`
	}
	type name struct{ Topic string }
	cb := treadle.New[small]("child")
	treadle.AddNode(cb, "away", func(context.Context, small) (treadle.Command[name], error) {
		return treadle.Command[name]{Update: &name{"set by the child"}, Parent: true}, nil
	}, treadle.Handoff(treadle.End))
	cb.Edge(treadle.Start, "away")
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", weave(t, cb, nil))
	b.Edge(treadle.Start, "sub")
	saver := checkpoint.NewMemory()
	g := weave(t, b, &treadle.Options{Saver: saver})
	if _, err := g.Thread("t").Run(t.Context(), diary{}); err != nil {
		t.Fatal(err)
	}
	snap, err := g.Thread("t").State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "values", `{"topic":"set by the child","log":[]}`, snap.State.String())
}

// What a handoff updates is checked against the parent when the child is
// nested, and so is where it leads.
func TestHandoffIsCheckedAgainstParent(t *testing.T) {
	type wrong struct{ Nowhere string }
	cb := treadle.New[diary]("child")
	treadle.AddNode(cb, "away", func(context.Context, diary) (treadle.Command[wrong], error) {
		return treadle.Command[wrong]{Parent: true}, nil
	}, treadle.Handoff("gone"))
	cb.Edge(treadle.Start, "away")
	child := weave(t, cb, nil)
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", child)
	b.Edge(treadle.Start, "sub")
	_, err := b.Compile(nil)
	for _, want := range []string{
		`graph "parent": node "sub": node "away" of graph "child" hands off to "gone", which is not a node here`,
		`graph "parent": node "sub": field treadle_test.wrong.Nowhere: node "away" of graph "child" hands it off: unknown field; the state has log, topic`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A command goes one level up, not to the top.
//
// Parity: 99.
func TestParentCommandGoesUpOneLevel(t *testing.T) {
	mb := treadle.New[diary]("middle")
	treadle.AddGraph(mb, "leaf", bubbling(t, "leaf", nil, "next"))
	treadle.AddNode(mb, "next", does("middle.next"))
	mb.Edge(treadle.Start, "leaf")
	b := treadle.New[diary]("top")
	treadle.AddGraph(b, "middle", weave(t, mb, nil))
	treadle.AddNode(b, "next", does("top.next"))
	b.Edge(treadle.Start, "middle")
	b.Edge("middle", "next")
	wantLog(t, weave(t, b, nil), diary{Log: reduce.List[string]{"in"}}, "in", "leaf.away", "middle.next", "top.next")
}

// Parity: 87, 199.
func TestParentCommandThroughCalledGraph(t *testing.T) {
	leaf := bubbling(t, "leaf", nil, "target")
	b := treadle.New[diary]("parent")
	treadle.AddNode(b, "call", func(ctx context.Context, s diary) (page, error) {
		_, err := leaf.Run(ctx, diary{})
		if err == nil {
			t.Error("the graph's run ended well although its node commanded the parent")
		}
		return did("not written"), fmt.Errorf("leaf: %w", err)
	}, treadle.Uses(leaf), treadle.Destinations("target"))
	treadle.AddNode(b, "target", does("target"))
	b.Edge(treadle.Start, "call")
	wantLog(t, weave(t, b, nil), diary{}, "leaf.away", "target")
}

// Two graphs down, called in a function that a graph node runs.
//
// Parity: 176, 199.
func TestParentCommandFromCalledSubgraph(t *testing.T) {
	leaf := bubbling(t, "leaf", nil, "target")
	mb := treadle.New[diary]("middle")
	treadle.AddNode(mb, "call", func(ctx context.Context, s diary) (page, error) {
		if _, err := weave(t, chain("other", "o"), nil).Run(ctx, s); err != nil {
			return page{}, err
		}
		_, err := leaf.Run(ctx, diary{}) // the second graph of this task
		return page{}, err
	}, treadle.Destinations("target"))
	treadle.AddNode(mb, "target", does("middle.target"))
	mb.Edge(treadle.Start, "call")
	b := treadle.New[diary]("top")
	treadle.AddGraph(b, "middle", weave(t, mb, nil))
	b.Edge(treadle.Start, "middle")
	wantLog(t, weave(t, b, nil), diary{}, "leaf.away", "middle.target")
}

// A command for a missing parent graph fails.
//
// Parity: 100.
func TestParentCommandAtRootFails(t *testing.T) {
	_, err := bubbling(t, "alone", &treadle.Options{StepTimeout: 1e9}, "target").Run(t.Context(), diary{})
	if err == nil || !strings.Contains(err.Error(), `node "away" sent a command to the parent graph`) {
		t.Errorf("got %v", err)
	}
}

// A list may mix commands for this graph and the parent; the parent's wins.
func TestParentCommandInListDropsOthers(t *testing.T) {
	own, up := did("own"), did("up")
	cb := treadle.New[diary]("child")
	treadle.AddNode(cb, "mixed", func(context.Context, diary) ([]handOff, error) {
		return []handOff{{Update: &own}, {Update: &up, Parent: true}}, nil
	}, treadle.Handoff(treadle.End))
	cb.Edge(treadle.Start, "mixed")
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", weave(t, cb, nil))
	b.Edge(treadle.Start, "sub")
	wantLog(t, weave(t, b, nil), diary{}, "up")
}

// A command for the parent graph is not a failure: sibling tasks finish.
//
// Parity: 114.
func TestSiblingOfParentCommandFinishes(t *testing.T) {
	bubbled := make(chan struct{})
	finished := false
	cb := treadle.New[diary]("child")
	treadle.AddNode(cb, "away", func(context.Context, diary) (handOff, error) {
		defer close(bubbled)
		up := did("away")
		return handOff{Update: &up, Parent: true}, nil
	}, treadle.Handoff(treadle.End))
	treadle.AddNode(cb, "sibling", func(ctx context.Context, _ diary) (page, error) {
		<-bubbled
		finished = ctx.Err() == nil
		return did("sibling"), nil
	})
	cb.Edge(treadle.Start, "away")
	cb.Edge(treadle.Start, "sibling")
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", weave(t, cb, nil))
	b.Edge(treadle.Start, "sub")
	wantLog(t, weave(t, b, nil), diary{}, "away")
	if !finished {
		t.Error("the sibling was canceled")
	}
}

// The input of a send replaces the inherited fields.
func TestSendToSubgraph(t *testing.T) {
	cb := treadle.New[diary]("child")
	treadle.AddNode(cb, "c", func(_ context.Context, s diary) (page, error) {
		return did(s.Topic + " after " + strings.Join(s.Log, ",")), nil
	})
	cb.Edge(treadle.Start, "c")
	b := treadle.New[diary]("parent")
	sub := treadle.AddGraph(b, "sub", weave(t, cb, nil))
	treadle.AddNode(b, "fan", func(context.Context, diary) (treadle.Goto, error) {
		return append(treadle.Send(sub, diary{"one", reduce.List[string]{"x"}}), treadle.Send(sub, diary{Topic: "two"})...), nil
	}, treadle.Destinations("sub"))
	b.Edge(treadle.Start, "fan")
	wantLog(t, weave(t, b, nil), diary{Log: reduce.List[string]{"in"}}, "in", "one after x", "two after ")
}

// A one-channel graph nests in a one-channel graph.
func TestSubgraphWithRootState(t *testing.T) {
	type words = reduce.List[string]
	cb := treadle.New[words]("child")
	treadle.AddNode(cb, "add", func(_ context.Context, w words) (words, error) { return words{fmt.Sprint("saw ", len(w))}, nil })
	cb.Edge(treadle.Start, "add")
	b := treadle.New[words]("parent")
	treadle.AddGraph(b, "sub", weave(t, cb, nil))
	b.Edge(treadle.Start, "sub")
	out, err := weave(t, b, nil).Run(t.Context(), words{"in"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "words", words{"in", "saw 1"}, out)
}

// A dynamic graph shares fields by JSON name.
func TestSubgraphWithDynamicState(t *testing.T) {
	cb := treadle.New[treadle.Update]("child")
	treadle.AddField[reduce.List[string]](cb, "log")
	treadle.AddNode(cb, "c", func(_ context.Context, s treadle.Update) (treadle.Update, error) {
		return treadle.Update{"log": reduce.List[string]{fmt.Sprint("saw ", len(s["log"].(reduce.List[string])))}}, nil
	})
	cb.Edge(treadle.Start, "c")
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", weave(t, cb, nil))
	b.Edge(treadle.Start, "sub")
	wantLog(t, weave(t, b, nil), diary{Log: reduce.List[string]{"in"}}, "in", "saw 1")
}

// A subgraph's checkpoints have their own namespace, and streams report what the saver
// saved.
//
// Parity: 52.
func TestCheckpointEventsMatchSaver(t *testing.T) {
	saver := checkpoint.NewMemory()
	mb := treadle.New[diary]("middle")
	treadle.AddGraph(mb, "leaf", weave(t, chain("leaf", "l1", "l2"), nil))
	mb.Edge(treadle.Start, "leaf")
	b := treadle.New[diary]("top")
	treadle.AddNode(b, "before", does("before"))
	treadle.AddGraph(b, "middle", weave(t, mb, nil))
	b.Edge(treadle.Start, "before")
	b.Edge("before", "middle")
	g := weave(t, b, &treadle.Options{Saver: saver})
	byNamespace := map[string][]treadle.Snapshot{}
	var order []string
	for ev, err := range g.Thread("t").Stream(t.Context(), diary{}, treadle.Modes(treadle.ModeCheckpoints), treadle.Subgraphs()) {
		if err != nil {
			t.Fatal(err)
		}
		if cp, ok := ev.(treadle.Checkpointed); ok {
			ns := strings.Join(cp.Namespace, "|")
			if byNamespace[ns] == nil {
				order = append(order, nodesOf(cp.Namespace))
			}
			byNamespace[ns] = append(byNamespace[ns], cp.Snapshot)
		}
	}
	same(t, "namespaces", []string{"", "middle", "middle/leaf"}, order)
	for ns, events := range byNamespace {
		var stored []*checkpoint.Checkpoint
		for cp, err := range saver.List(t.Context(), checkpoint.Query{Thread: "t", Namespace: ns}) {
			if err != nil {
				t.Fatal(err)
			}
			stored = append(stored, cp)
		}
		slices.Reverse(stored)
		if len(stored) != len(events) {
			t.Fatalf("namespace %q: %d stored, %d reported", ns, len(stored), len(events))
		}
		for i, cp := range stored {
			type facts struct {
				ID, Parent checkpoint.ID
				Step       int
				Source     checkpoint.Source
			}
			e := events[i]
			same(t, "checkpoint", facts{cp.ID, cp.Parent, cp.Step, cp.Source}, facts{e.ID, e.Parent, e.Step, e.Source})
		}
	}
}

// A subgraph that runs again, in a loop or in the next turn, starts from scratch.
//
// Parity: 160.
func TestSubgraphStartsFromScratch(t *testing.T) {
	type inner struct {
		Log   reduce.List[string] `json:"log"`
		Calls reduce.Sum[int]     `json:"calls"`
	}
	type counted struct {
		Log   reduce.List[string]
		Calls reduce.Sum[int]
	}
	cb := treadle.New[inner]("child")
	treadle.AddNode(cb, "c", func(_ context.Context, s inner) (counted, error) {
		return counted{reduce.List[string]{fmt.Sprint("c", s.Calls)}, reduce.SumOf(1)}, nil
	})
	cb.Edge(treadle.Start, "c")
	b := treadle.New[diary]("parent")
	treadle.AddGraph(b, "sub", weave(t, cb, nil))
	b.Edge(treadle.Start, "sub")
	treadle.AddBranch(b, "sub", func(_ context.Context, s diary) (treadle.Goto, error) {
		if len(s.Log)%3 != 0 {
			return treadle.To("sub"), nil
		}
		return treadle.To(treadle.End), nil
	}, "sub", treadle.End)
	thread := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()}).Thread("t")
	if _, err := thread.Run(t.Context(), diary{}); err != nil {
		t.Fatal(err)
	}
	out, err := thread.Run(t.Context(), diary{Log: reduce.List[string]{"in"}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "log", reduce.List[string]{"c0", "c0", "c0", "in", "c0", "c0"}, out.Log)
}

type nestedState struct {
	N   int
	Log reduce.List[string]
}

type nestedLog struct{ Log reduce.List[string] }

// flaky returns a graph of two nodes; the second fails the first time.
func flaky(t *testing.T) *treadle.Graph[nestedState, nestedState] {
	t.Helper()
	failed := false
	b := treadle.New[nestedState]("child")
	treadle.AddNode(b, "one", func(context.Context, nestedState) (nestedLog, error) {
		return nestedLog{reduce.List[string]{"one"}}, nil
	})
	treadle.AddNode(b, "two", func(context.Context, nestedState) (nestedLog, error) {
		if !failed {
			failed = true
			return nestedLog{}, errOnce
		}
		return nestedLog{reduce.List[string]{"two"}}, nil
	})
	b.Edge(treadle.Start, "one")
	b.Edge("one", "two")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var errOnce = errors.New("only once")

// around returns a graph with a saver whose only node is g.
func around(t *testing.T, g *treadle.Graph[nestedState, nestedState], opts ...treadle.NodeOption) *treadle.Graph[nestedState, nestedState] {
	t.Helper()
	b := treadle.New[nestedState]("parent")
	treadle.AddGraph(b, "child", g, opts...)
	b.Edge(treadle.Start, "child")
	out, err := b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The second attempt stores its checkpoints where the first one did.
func TestThreadContinuesAfterSubgraphFailure(t *testing.T) {
	thread := around(t, flaky(t)).Thread("t")
	if _, err := thread.Run(t.Context(), nestedState{N: 1}); !errors.Is(err, errOnce) {
		t.Fatalf("the first run: %v, want %v", err, errOnce)
	}
	out, err := thread.Continue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(nestedState{N: 1, Log: reduce.List[string]{"one", "two"}}, out); diff != "" {
		t.Error(diff)
	}
}

func TestNestedGraphIsRetriedOnThread(t *testing.T) {
	retry := treadle.Retry(treadle.RetryPolicy{Initial: 1, NoJitter: true, On: func(err error) bool { return errors.Is(err, errOnce) }})
	out, err := around(t, flaky(t), retry).Thread("t").Run(t.Context(), nestedState{N: 1})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(nestedState{N: 1, Log: reduce.List[string]{"one", "two"}}, out); diff != "" {
		t.Error(diff)
	}
}

func TestSubgraphCacheKeyIsInheritedState(t *testing.T) {
	calls := 0
	b := treadle.New[nestedState]("child")
	treadle.AddNode(b, "ten", func(_ context.Context, s nestedState) (struct{ N int }, error) {
		calls++
		return struct{ N int }{10 * s.N}, nil
	})
	b.Edge(treadle.Start, "ten")
	child, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	g := around(t, child, treadle.Cache(0))
	for _, n := range []int{1, 2, 1} {
		out, err := g.Run(t.Context(), nestedState{N: n})
		if err != nil || out.N != 10*n {
			t.Errorf("of %d the result is %d, %v; want %d", n, out.N, err, 10*n)
		}
	}
	if calls != 2 {
		t.Errorf("the graph ran %d times, want twice: the third input is a repetition", calls)
	}
}

func TestSubgraphHandlerGetsInheritedState(t *testing.T) {
	var given nestedState
	g := around(t, flaky(t), treadle.OnError(func(_ context.Context, in nestedState, failure *treadle.NodeError) (nestedLog, error) {
		given = in
		return nestedLog{reduce.List[string]{"handled " + failure.Node}}, nil
	}))
	out, err := g.Run(t.Context(), nestedState{N: 7})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(nestedState{N: 7}, given); diff != "" {
		t.Errorf("the handler's input: %s", diff)
	}
	if diff := cmp.Diff(nestedState{N: 7, Log: reduce.List[string]{"handled child"}}, out); diff != "" {
		t.Error(diff)
	}
}
