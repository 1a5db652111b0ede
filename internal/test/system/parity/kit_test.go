package parity_test

import (
	"context"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// logState is the state most graphs use: one list, appended to.
type logState struct {
	Log reduce.List[string] `json:"log"`
}

// entries is what nodes write of it.
type entries struct{ Log reduce.List[string] }

// nothing is what a node returns that writes nothing.
type nothing struct{}

func logged(log ...string) entries { return entries{log} }

// writes returns a node that appends to the log.
func writes[S any](log ...string) func(context.Context, S) (entries, error) {
	return func(context.Context, S) (entries, error) { return logged(log...), nil }
}

// add adds nodes that append their own names to the log.
func add[S any](b *treadle.Builder[S], names ...string) {
	for _, name := range names {
		treadle.AddNode(b, name, writes[S](name))
	}
}

// edges adds an edge per pair.
func edges[S any](b *treadle.Builder[S], pairs ...[2]string) {
	for _, p := range pairs {
		b.Edge(p[0], p[1])
	}
}

// silent returns a node that writes nothing.
func silent[S any](context.Context, S) (nothing, error) { return nothing{}, nil }

// to returns a router with one answer.
func to[S any](g treadle.Goto) func(context.Context, S) (treadle.Goto, error) {
	return func(context.Context, S) (treadle.Goto, error) { return g, nil }
}

// goes returns a node that appends to the log and continues with g.
func goes[S any](entry string, g treadle.Goto) func(context.Context, S) (treadle.Command[entries], error) {
	return func(context.Context, S) (treadle.Command[entries], error) { return command(entry, g), nil }
}

func command(entry string, g treadle.Goto) treadle.Command[entries] {
	return treadle.Command[entries]{Update: new(logged(entry)), Goto: g}
}

// fails returns a node that raises an error.
func fails[S any](text string) func(context.Context, S) (entries, error) {
	return func(context.Context, S) (entries, error) { return entries{}, &raised{text: text} }
}

// logGraph builds graphs over logState.
func logGraph(fill func(b *treadle.Builder[logState])) build {
	return func(o *treadle.Options) (treadle.AnyGraph, error) {
		b := treadle.New[logState](graphName)
		fill(b)
		return b.Compile(o)
	}
}

// graphOf builds graphs over any state.
func graphOf[S any](fill func(b *treadle.Builder[S])) build {
	return func(o *treadle.Options) (treadle.AnyGraph, error) {
		b := treadle.New[S](graphName)
		fill(b)
		return b.Compile(o)
	}
}

// child compiles a graph that is part of another.
func child[S any](fill func(b *treadle.Builder[S])) *treadle.Graph[S, S] {
	b := treadle.New[S](graphName)
	fill(b)
	return treadle.Must(b.Compile(nil))
}

// chainOf returns a compiled chain of nodes that append their names to the log.
func chainOf(names ...string) *treadle.Graph[logState, logState] {
	return child(func(b *treadle.Builder[logState]) {
		add(b, names...)
		b.Sequence(treadle.Nodes(append([]string{start}, names...))...)
	})
}
