package parity_test

import (
	"context"
	"fmt"
	"maps"

	"github.com/treadle-go/treadle"
)

// A scriptedGraph makes the graph of a script.
type scriptedGraph func(tr *trace, o *treadle.Options) (played, error)

// scripted are the graphs of the scripts, by the name of the fixture.
var scripted = func() map[string]scriptedGraph {
	all := map[string]scriptedGraph{}
	for _, suite := range []map[string]scriptedGraph{interruptScripts, breakScripts, travelScripts, lastingScripts, functionalScripts, sampleScripts} {
		maps.Copy(all, suite)
	}
	return all
}()

// playing wraps a compiled graph for the player.
func playing[In, Out any](g *treadle.Graph[In, Out], err error) (played, error) {
	return typedGraph[In, Out]{g: g}, err
}

// flowing wraps a workflow for the player.
func flowing[In, Out any](g *treadle.Graph[In, Out], err error) (played, error) {
	return typedGraph[In, Out]{g: g, flow: true}, err
}

// threadOf returns the graph of a script over any state.
func threadOf[S any](fill func(tr *trace, b *treadle.Builder[S])) scriptedGraph {
	return threadWith(fill, nil)
}

// threadWith is threadOf with more options.
func threadWith[S any](fill func(tr *trace, b *treadle.Builder[S]), more func(o *treadle.Options)) scriptedGraph {
	return func(tr *trace, o *treadle.Options) (played, error) {
		if more != nil {
			more(o)
		}
		b := treadle.New[S](graphName)
		fill(tr, b)
		return playing(b.Compile(o))
	}
}

// ask asks for anything, as the recorded graphs do.
func ask(ctx context.Context, question any) (any, error) {
	return treadle.Interrupt[any](ctx, question)
}

// A step is a node of a chain.
type step[S any] struct {
	name string
	add  func(b *treadle.Builder[S], name string)
}

func stepOf[S, Out any](name string, fn func(context.Context, S) (Out, error), opts ...treadle.NodeOption) step[S] {
	return step[S]{name, func(b *treadle.Builder[S], name string) { treadle.AddNode(b, name, fn, opts...) }}
}

// in adds steps to a builder as a chain.
func in[S any](b *treadle.Builder[S], steps ...step[S]) {
	names := []string{start}
	for _, s := range steps {
		s.add(b, s.name)
		names = append(names, s.name)
	}
	b.Sequence(treadle.Nodes(names)...)
}

// line returns a script's graph: a chain over the log.
func line(steps func(tr *trace) []step[logState]) scriptedGraph {
	return lineWith(steps, nil)
}

func lineWith(steps func(tr *trace) []step[logState], more func(o *treadle.Options)) scriptedGraph {
	return threadWith(func(tr *trace, b *treadle.Builder[logState]) { in(b, steps(tr)...) }, more)
}

// letters returns a chain of nodes that log their names.
func letters(names ...string) func(tr *trace) []step[logState] {
	return func(tr *trace) (steps []step[logState]) {
		for _, n := range names {
			steps = append(steps, tr.logs(n))
		}
		return steps
	}
}

// aAskB returns the chain a, ask, b.
func aAskB(tr *trace) []step[logState] {
	return []step[logState]{tr.logs("a"), tr.asks("ask"), tr.logs("b")}
}

// logs returns a node that appends its name to the log.
func (tr *trace) logs(name string) step[logState] {
	return stepOf(name, func(context.Context, logState) (entries, error) {
		tr.enter(name)
		tr.done(name)
		return logged(name), nil
	})
}

// asks returns a node that asks "name?" and appends "name:answer" to the log.
func (tr *trace) asks(name string) step[logState] {
	return stepOf(name, func(ctx context.Context, _ logState) (entries, error) {
		tr.enter(name)
		answer, err := ask(ctx, name+"?")
		tr.done(name)
		return logged(fmt.Sprintf("%s:%v", name, answer)), err
	})
}

// failsUntil returns a node that fails until the given attempt and appends its name
// to the log then. It waits until the other has done its part.
func (tr *trace) failsUntil(name string, attempt int, after ...string) step[logState] {
	tries := 0
	return stepOf(name, func(context.Context, logState) (entries, error) {
		tr.enter(name)
		for _, other := range after {
			tr.wait(other)
		}
		if tries++; tries < attempt {
			return entries{}, &raised{text: name + " failed"}
		}
		return logged(name), nil
	})
}

// pair returns a graph in which two nodes run at once and "end" joins them.
func pair(steps func(tr *trace) (first, second step[logState])) scriptedGraph {
	return pairWith(steps, nil)
}

func pairWith(steps func(tr *trace) (first, second step[logState]), more func(o *treadle.Options)) scriptedGraph {
	return threadWith(func(tr *trace, b *treadle.Builder[logState]) {
		first, second := steps(tr)
		for _, s := range []step[logState]{first, second, tr.logs("end")} {
			s.add(b, s.name)
		}
		b.Edge(start, first.name)
		b.Edge(start, second.name)
		b.Join([]any{first.name, second.name}, "end")
	}, more)
}

// textState is a state without reducers.
type textState struct {
	Text string `json:"text"`
}

// texts returns a node that appends its name to the text.
func (tr *trace) texts(name string) step[textState] {
	return stepOf(name, func(_ context.Context, s textState) (textState, error) {
		tr.enter(name)
		return textState{s.Text + " " + name}, nil
	})
}

// textAsks returns a node that asks "name?" and appends the answer to the text.
func (tr *trace) textAsks(name string) step[textState] {
	return stepOf(name, func(ctx context.Context, s textState) (textState, error) {
		tr.enter(name)
		answer, err := ask(ctx, name+"?")
		return textState{fmt.Sprintf("%s %s:%v", s.Text, name, answer)}, err
	})
}

// sub returns a subgraph node.
func sub(name string, g *treadle.Graph[textState, textState], opts ...treadle.NodeOption) step[textState] {
	return step[textState]{name, func(b *treadle.Builder[textState], name string) { treadle.AddGraph(b, name, g, opts...) }}
}

// nest returns a subgraph over the text.
func nest(steps ...step[textState]) *treadle.Graph[textState, textState] {
	return child(func(b *treadle.Builder[textState]) { in(b, steps...) })
}

// textLine returns a script's graph that is a chain over the text.
func textLine(steps func(tr *trace) []step[textState]) scriptedGraph {
	return threadOf(func(tr *trace, b *treadle.Builder[textState]) { in(b, steps(tr)...) })
}
