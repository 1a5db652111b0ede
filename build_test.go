package treadle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// draft is the state of the graphs that do not compile: one field without a reducer and
// one with a reducer.
type draft struct {
	Topic string              `json:"topic"`
	Log   reduce.List[string] `json:"log"`
	Count reduce.Sum[int]     `json:"count"`
	Notes reduce.Map[string, string]
}

type topicOnly struct{ Topic string }

func keepTopic(_ context.Context, in topicOnly) (topicOnly, error) { return in, nil }

// unbuilt compiles what build makes and returns Compile's error.
func unbuilt[S any](o *treadle.Options, build func(*treadle.Builder[S])) error {
	b := treadle.New[S]("g")
	build(b)
	_, err := b.Compile(o)
	return err
}

// onTopOfOne is like unbuilt, but for a draft graph with a node "a" that is valid except
// for what build adds.
func onTopOfOne(build func(*treadle.Builder[draft])) error {
	return unbuilt(nil, func(b *treadle.Builder[draft]) {
		treadle.AddNode(b, "a", keepTopic)
		b.Edge(treadle.Start, "a")
		build(b)
	})
}

type pointerReduced struct{ N int }

func (p *pointerReduced) Reduce(u pointerReduced) pointerReduced { return pointerReduced{p.N + u.N} }

type wronglyReduced struct{ N int }

func (w wronglyReduced) Reduce(a, b int) wronglyReduced { return wronglyReduced{w.N + a + b} }

type otherReduced struct{ N int }

func (o otherReduced) Reduce(u int) int { return o.N + u }

type badList []int

func (badList) Reduce(int) {}

type unstorable interface{ Secret() string }

type sealed struct{ n int } //nolint:unused // that nothing can use it is the case

type embedded struct {
	Topic string
}

// Every problem of a graph has a text that names the place and the remedy.
//
// Parity: 1, 53.
func TestCompileNamesProblem(t *testing.T) {
	saved := &treadle.Options{Saver: checkpoint.NewMemory()}
	type state = draft
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		// Nodes.
		{"nil function", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode[state, topicOnly, topicOnly](b, "n", nil)
			b.Edge("a", "n")
		}), `graph "g": node "n": nil function`},
		{"nil graph", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddGraph[state, state, state](b, "n", nil)
			b.Edge("a", "n")
		}), `graph "g": node "n": graph is nil or was not created by Compile`},
		{"duplicate name", onTopOfOne(func(b *treadle.Builder[state]) { treadle.AddNode(b, "a", keepTopic) }),
			`graph "g": node "a": added twice`},
		{"empty name", onTopOfOne(func(b *treadle.Builder[state]) { treadle.AddNode(b, "", keepTopic) }),
			`graph "g": node 2: missing name`},
		{"start as a name", onTopOfOne(func(b *treadle.Builder[state]) { treadle.AddNode(b, treadle.Start, keepTopic) }),
			`graph "g": node "__start__": names starting with __ are reserved`},
		{"end as a name", onTopOfOne(func(b *treadle.Builder[state]) { treadle.AddNode(b, treadle.End, keepTopic) }),
			`graph "g": node "__end__": names starting with __ are reserved`},
		{"reserved name", onTopOfOne(func(b *treadle.Builder[state]) { treadle.AddNode(b, "__mine", keepTopic) }),
			`graph "g": node "__mine": names starting with __ are reserved`},
		{"name with a bar", onTopOfOne(func(b *treadle.Builder[state]) { treadle.AddNode(b, "a|b", keepTopic) }),
			`graph "g": node "a|b": name must not contain | or :, which separate the parts of a namespace`},
		{"name with a colon", onTopOfOne(func(b *treadle.Builder[state]) { treadle.AddNode(b, "a:b", keepTopic) }),
			`graph "g": node "a:b": name must not contain | or :, which separate the parts of a namespace`},
		{"previous name of another node", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "n", keepTopic, treadle.Was("a"))
			b.Edge("a", "n")
		}), `graph "g": node "n": Was: "a" is a node of this graph: list only names that no node has`},
		{"previous name of two nodes", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "m", keepTopic, treadle.Was("old"))
			treadle.AddNode(b, "n", keepTopic, treadle.Was("old"))
			b.Sequence("a", "m", "n")
		}), `graph "g": node "n": Was: "old" listed twice`},
		{"empty previous name", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "n", keepTopic, treadle.Was(""))
			b.Edge("a", "n")
		}), `graph "g": node "n": Was: "": missing name`},
		{"edge to a previous name", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "n", keepTopic, treadle.Was("old"))
			b.Edge("a", "n")
			b.Edge("a", "old")
		}), `graph "g": edge a → old: unknown node "old"; the graph has a, n`},
		{"no nodes", unbuilt(nil, func(*treadle.Builder[state]) {}), `graph "g": no nodes: add one with AddNode`},

		// Edges.
		{"edge from the end", onTopOfOne(func(b *treadle.Builder[state]) { b.Edge(treadle.End, "a") }),
			`graph "g": edge __end__ → a: nothing can follow __end__`},
		{"edge into the start", onTopOfOne(func(b *treadle.Builder[state]) { b.Edge("a", treadle.Start) }),
			`graph "g": edge a → __start__: __start__ cannot be a target`},
		{"edge from an unknown node", onTopOfOne(func(b *treadle.Builder[state]) { b.Edge("b", "a") }),
			`graph "g": edge b → a: unknown node "b"; the graph has a`},
		{"edge to an unknown node", onTopOfOne(func(b *treadle.Builder[state]) { b.Edge("a", "b") }),
			`graph "g": edge a → b: unknown node "b"; the graph has a`},
		{"edge to no name", onTopOfOne(func(b *treadle.Builder[state]) { b.Edge("a", "") }),
			`graph "g": edge a → : target has no name`},
		{"edge to a number", onTopOfOne(func(b *treadle.Builder[state]) { b.Edge("a", 7) }),
			`graph "g": edge a → int, want a node or its name: unknown node "int, want a node or its name"; the graph has a`},
		{"edge to nothing", onTopOfOne(func(b *treadle.Builder[state]) { b.Edge("a", nil) }),
			`graph "g": edge a → <nil>, want a node or its name: unknown node "<nil>, want a node or its name"; the graph has a`},
		{"edge added twice", onTopOfOne(func(b *treadle.Builder[state]) { b.Edge(treadle.Start, "a") }),
			`graph "g": edge __start__ → a: added twice`},
		{"unreachable node", onTopOfOne(func(b *treadle.Builder[state]) { treadle.AddNode(b, "b", keepTopic) }),
			`graph "g": node "b": unreachable: add an edge, a branch, or a destination`},
		{"no entry", unbuilt(nil, func(b *treadle.Builder[state]) { treadle.AddNode(b, "a", keepTopic) }),
			`graph "g": no entry: add an edge or a branch from treadle.Start`},
		{"unknown destination", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "b", func(context.Context, state) (treadle.Goto, error) { return nil, nil }, treadle.Destinations("c"))
			b.Edge("a", "b")
		}), `graph "g": destination of "b": unknown node "c"; the graph has a, b`},

		// Joins and sequences.
		{"join without sources", onTopOfOne(func(b *treadle.Builder[state]) { b.Join(nil, "a") }),
			`graph "g": join → a: no sources`},
		{"join on itself", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "b", keepTopic)
			b.Edge("a", "b")
			b.Join([]any{"a", "b"}, "b")
		}), `graph "g": join a+b → b: "b" would wait for itself`},
		{"join names a source twice", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "b", keepTopic)
			b.Edge("a", "b")
			b.Join([]any{"a", "a"}, "b")
		}), `graph "g": join a+a → b: duplicate source "a"`},
		{"join with an unknown source", onTopOfOne(func(b *treadle.Builder[state]) { b.Join([]any{"x"}, "a") }),
			`graph "g": join x → a: unknown node "x"; the graph has a`},
		{"join with an unknown target", onTopOfOne(func(b *treadle.Builder[state]) { b.Join([]any{"a"}, "x") }),
			`graph "g": join a → x: unknown node "x"; the graph has a`},
		{"join from the start", onTopOfOne(func(b *treadle.Builder[state]) { b.Join([]any{treadle.Start}, "a") }),
			`graph "g": join __start__ → a: __start__ cannot be a source of a join`},
		{"join into the start", onTopOfOne(func(b *treadle.Builder[state]) { b.Join([]any{"a"}, treadle.Start) }),
			`graph "g": join a → __start__: __start__ cannot be a target`},
		{"empty sequence", onTopOfOne(func(b *treadle.Builder[state]) { b.Sequence() }),
			`graph "g": sequence: no nodes: pass at least one`},
		{"sequence with a node twice", onTopOfOne(func(b *treadle.Builder[state]) { b.Sequence("a", "a") }),
			`graph "g": sequence: duplicate node "a"`},
		{"sequence without an entry", unbuilt(nil, func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "a", keepTopic)
			treadle.AddNode(b, "b", keepTopic)
			b.Sequence("a", "b")
		}), `graph "g": no entry: add an edge or a branch from treadle.Start`},

		// Branches.
		{"nil branch", onTopOfOne(func(b *treadle.Builder[state]) { treadle.AddBranch[state, state](b, "a", nil) }),
			`graph "g": node "a": nil branch function`},
		{"branch to an unknown node with a label", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddBranch(b, "a", func(context.Context, state) (treadle.Goto, error) { return nil, nil }, treadle.Label("x", "yes"))
		}), `graph "g": branch from a: unknown node "x"; the graph has a`},
		{"edge with a label", onTopOfOne(func(b *treadle.Builder[state]) { b.Edge("a", treadle.Label(treadle.End, "yes")) }),
			`graph "g": edge a → __end__ with a label, which only destinations may have: unknown node "__end__ with a label, which only destinations may have"; the graph has a`},
		{"branch from an unknown node", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddBranch(b, "x", func(context.Context, state) (treadle.Goto, error) { return nil, nil }, "a")
		}), `graph "g": branch from x: unknown node "x"; the graph has a`},
		{"branch from the end", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddBranch(b, treadle.End, func(context.Context, state) (treadle.Goto, error) { return nil, nil }, "a")
		}), `graph "g": branch from __end__: nothing can follow __end__`},
		{"branch to the start", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddBranch(b, "a", func(context.Context, state) (treadle.Goto, error) { return nil, nil }, treadle.Start)
		}), `graph "g": branch from a: __start__ cannot be a target`},
		{"branch that reads a misspelled field", onTopOfOne(func(b *treadle.Builder[state]) {
			type read struct{ Topc string }
			treadle.AddBranch(b, "a", func(context.Context, read) (treadle.Goto, error) { return nil, nil }, treadle.End)
		}), `graph "g": node "a": field treadle_test.read.Topc: read by a branch, but not in the state and never written: misspelled?`},
		{"branch that reads a number", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddBranch(b, "a", func(context.Context, int) (treadle.Goto, error) { return nil, nil }, treadle.End)
		}), `graph "g": node "a": int cannot be read from a state of type treadle_test.draft`},

		// What nodes read and write.
		{"whole state with an accumulating field", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "n", func(_ context.Context, s state) (state, error) { return s, nil })
			b.Edge("a", "n")
		}), `graph "g": node "n": returns the whole state, but log accumulates and would be added to itself: return a struct of just the fields it writes`},
		{"result that is not an update", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "n", func(context.Context, state) (string, error) { return "", nil })
			b.Edge("a", "n")
		}), `graph "g": node "n": string is not an update: want a struct of the fields to write, or treadle.Update`},
		{"result of any type", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "n", func(context.Context, state) (any, error) { return nil, nil })
			b.Edge("a", "n")
		}), `graph "g": node "n": returns the interface interface {}: return a struct of the fields it writes, so that they can be checked`},
		{"written with another type", onTopOfOne(func(b *treadle.Builder[state]) {
			type out struct{ Topic int }
			treadle.AddNode(b, "n", func(context.Context, state) (out, error) { return out{}, nil })
			b.Edge("a", "n")
		}), `graph "g": node "n": field treadle_test.out.Topic: is int, but updates of this field are string`},
		{"overwritten with another type", onTopOfOne(func(b *treadle.Builder[state]) {
			type out struct{ Log treadle.Overwrite[[]string] }
			treadle.AddNode(b, "n", func(context.Context, state) (out, error) { return out{}, nil })
			b.Edge("a", "n")
		}), `graph "g": node "n": field treadle_test.out.Log: overwrites with []string, but the field is reduce.List[string]`},
		{"read with another type", onTopOfOne(func(b *treadle.Builder[state]) {
			type in struct{ Topic int }
			treadle.AddNode(b, "n", func(context.Context, in) (topicOnly, error) { return topicOnly{}, nil })
			b.Edge("a", "n")
		}), `graph "g": node "n": field treadle_test.in.Topic: is int here and string in the state`},
		{"two gotos", onTopOfOne(func(b *treadle.Builder[state]) {
			type out struct{ One, Two treadle.Goto }
			treadle.AddNode(b, "n", func(context.Context, state) (out, error) { return out{}, nil }, treadle.Destinations("a"))
			b.Edge("a", "n")
		}), `graph "g": node "n": field treadle_test.out.Two: a second field of type Goto`},
		{"private field that nothing reads", onTopOfOne(func(b *treadle.Builder[state]) {
			type out struct{ Topci string }
			treadle.AddNode(b, "n", func(context.Context, state) (out, error) { return out{}, nil })
			b.Edge("a", "n")
		}), `graph "g": node "n": field Topci: not in the state and never read: misspelled?`},
		{"private field that nothing writes", onTopOfOne(func(b *treadle.Builder[state]) {
			type in struct{ Topci string }
			treadle.AddNode(b, "n", func(context.Context, in) (topicOnly, error) { return topicOnly{}, nil })
			b.Edge("a", "n")
		}), `graph "g": node "n": field treadle_test.in.Topci: not in the state and never written: misspelled?`},
		{"input of a Send after an edge", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "n", func(context.Context, int) (topicOnly, error) { return topicOnly{}, nil })
			b.Edge("a", "n")
		}), `graph "g": node "n": takes int, which only Send can supply, but an edge leads to it: take the state or a struct of its fields`},
		{"pointer to the state", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "n", func(context.Context, *state) (topicOnly, error) { return topicOnly{}, nil })
			b.Edge("a", "n")
		}), `graph "g": node "n": takes *treadle_test.draft, which only Send can supply, but an edge leads to it: take the state or a struct of its fields`},
		{"another json tag", onTopOfOne(func(b *treadle.Builder[state]) {
			type in struct {
				Topic string `json:"subject"`
			}
			treadle.AddNode(b, "n", func(context.Context, in) (topicOnly, error) { return topicOnly{}, nil })
			b.Edge("a", "n")
		}), `graph "g": node "n": field treadle_test.in.Topic: JSON name "subject" differs from the state's "topic": remove the tag`},
		{"another json tag on a write", onTopOfOne(func(b *treadle.Builder[state]) {
			type out struct {
				Topic string `json:"subject"`
			}
			treadle.AddNode(b, "n", func(context.Context, state) (out, error) { return out{}, nil })
			b.Edge("a", "n")
		}), `graph "g": node "n": field treadle_test.out.Topic: JSON name "subject" differs from the state's "topic": remove the tag`},
		{"unexported field of a write", onTopOfOne(func(b *treadle.Builder[state]) {
			type out struct{ topic string }
			treadle.AddNode(b, "n", func(context.Context, state) (out, error) { return out{topic: ""}, nil })
			b.Edge("a", "n")
		}), `graph "g": node "n": treadle_test.out.topic is unexported, so the graph cannot pass it between nodes: export or remove it`},

		// Options of nodes.
		{"handler with another input", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "n", keepTopic, treadle.OnError(func(context.Context, state, *treadle.NodeError) (topicOnly, error) { return topicOnly{}, nil }))
			b.Edge("a", "n")
		}), `graph "g": node "n": error handler takes treadle_test.draft, but the node takes treadle_test.topicOnly`},
		{"nil handler", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "n", keepTopic, treadle.OnError[topicOnly, topicOnly](nil))
			b.Edge("a", "n")
		}), `graph "g": node "n": nil error handler`},
		{"cache key of another input", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "n", keepTopic, treadle.CacheBy(0, func(s state) string { return s.Topic }))
			b.Edge("a", "n")
		}), `graph "g": node "n": cache key function takes treadle_test.draft, but the node takes treadle_test.topicOnly`},
		{"nil cache key", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "n", keepTopic, treadle.CacheBy[topicOnly](0, nil))
			b.Edge("a", "n")
		}), `graph "g": node "n": nil cache key function`},
		{"timeout of zero", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "n", keepTopic, treadle.Timeout(0))
			b.Edge("a", "n")
		}), `graph "g": node "n": timeout must be positive`},
		{"negative retry", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "n", keepTopic, treadle.Retry(treadle.RetryPolicy{}, treadle.RetryPolicy{Attempts: -1}))
			b.Edge("a", "n")
		}), `graph "g": node "n": retry policy 2: negative value`},

		// The state.
		{"reducer with a pointer receiver", unbuilt(nil, func(b *treadle.Builder[struct{ Total pointerReduced }]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field struct { Total treadle_test.pointerReduced }.Total: method Reduce has a pointer receiver: use a value receiver, so that it cannot modify shared state`},
		{"reducer of three", unbuilt(nil, func(b *treadle.Builder[struct{ Total wronglyReduced }]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field struct { Total treadle_test.wronglyReduced }.Total: method Reduce(treadle_test.wronglyReduced, int, int) treadle_test.wronglyReduced is not a reducer: want Reduce(U) treadle_test.wronglyReduced or Reduce(U) (treadle_test.wronglyReduced, error)`},
		{"reducer to another type", unbuilt(nil, func(b *treadle.Builder[struct{ Total otherReduced }]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field struct { Total treadle_test.otherReduced }.Total: method Reduce(treadle_test.otherReduced, int) int is not a reducer: want Reduce(U) treadle_test.otherReduced or Reduce(U) (treadle_test.otherReduced, error)`},
		{"reducer of a single-value state", unbuilt(nil, func(b *treadle.Builder[badList]) {
			treadle.AddNode(b, "a", func(context.Context, badList) (badList, error) { return nil, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field treadle_test.badList: method Reduce(treadle_test.badList, int) is not a reducer: want Reduce(U) treadle_test.badList or Reduce(U) (treadle_test.badList, error)`},
		{"duplicate JSON name", unbuilt(nil, func(b *treadle.Builder[struct {
			X string
			B string `json:"X"`
		}]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field struct { X string; B string "json:\"X\"" }.B: fields X and B have the same JSON name "X"`},
		{"unexported field", unbuilt(nil, func(b *treadle.Builder[sealed]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": treadle_test.sealed.n is unexported, so the graph cannot pass it between nodes: export or remove it`},
		{"field without a JSON name", unbuilt(nil, func(b *treadle.Builder[struct {
			A string `json:"-"`
		}]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": struct { A string "json:\"-\"" }.A has json:"-", but a field without a name cannot be saved: give it a name and tag it treadle:"untracked"`},
		{"embedded pointer", unbuilt(nil, func(b *treadle.Builder[struct{ *embedded }]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": struct { *treadle_test.embedded }.embedded is an embedded pointer: embed the struct itself`},
		{"embedded field of the same name", unbuilt(nil, func(b *treadle.Builder[struct {
			embedded
			Topic string
		}]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": struct { treadle_test.embedded; Topic string }.Topic and struct { treadle_test.embedded; Topic string }.embedded.Topic have the same name`},
		{"unknown tag", unbuilt(nil, func(b *treadle.Builder[struct {
			A string `treadle:"transient"`
		}]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field struct { A string "treadle:\"transient\"" }.A: unknown tag treadle:"transient": want ephemeral, untracked, or was=old`},
		{"unknown tag of a field that nodes use", unbuilt(nil, func(b *treadle.Builder[struct {
			A string `json:"a" treadle:"transient"`
		}]) {
			type renamed struct {
				A string `json:"a"`
			}
			treadle.AddNode(b, "a", func(_ context.Context, in struct{ A string }) (renamed, error) { return renamed(in), nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field struct { A string "json:\"a\" treadle:\"transient\"" }.A: unknown tag treadle:"transient": want ephemeral, untracked, or was=old`},
		{"unknown tag of a Send input", onTopOfOne(func(b *treadle.Builder[draft]) {
			treadle.AddNode(b, "n", func(context.Context, struct {
				A string `treadle:"is=B"`
			}) (struct{}, error) {
				return struct{}{}, nil
			})
			treadle.AddBranch(b, "a", func(context.Context, struct{}) (treadle.Goto, error) { return nil, nil }, "n")
		}), `graph "g": node "n": field struct { A string "treadle:\"is=B\"" }.A: unknown tag treadle:"is=B": want ephemeral, untracked, or was=old`},
		{"previous name of another field", unbuilt(nil, func(b *treadle.Builder[struct {
			A string `json:"a"`
			B string `json:"b" treadle:"was=a"`
		}]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field b: was=a: the state still has a field a`},
		{"previous name of two fields", unbuilt(nil, func(b *treadle.Builder[struct {
			A string `json:"a" treadle:"was=x"`
			B string `json:"b" treadle:"was=x"`
		}]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field b: was=x: already a previous name of a`},
		{"previous name of another field of a Send input", onTopOfOne(func(b *treadle.Builder[draft]) {
			treadle.AddNode(b, "n", func(context.Context, struct {
				A string
				B string `treadle:"was=A"`
			}) (struct{}, error) {
				return struct{}{}, nil
			})
			treadle.AddBranch(b, "a", func(context.Context, struct{}) (treadle.Goto, error) { return nil, nil }, "n")
		}), `graph "g": node "n": field struct { A string; B string "treadle:\"was=A\"" }.B: was=A: the input still has a field A`},
		{"ephemeral list", unbuilt(nil, func(b *treadle.Builder[struct {
			A reduce.List[int] `treadle:"ephemeral"`
		}]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field struct { A reduce.List[int] "treadle:\"ephemeral\"" }.A: ephemeral field cannot accumulate: it is cleared after every step`},
		{"reducer for an unknown field", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.Reduce(b, "total", func(a, b int) int { return a + b })
		}), `graph "g": field total: Reduce: unknown field; the state has Notes, count, log, topic`},
		{"reducer of another type", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.Reduce(b, "topic", func(a, b int) int { return a + b })
		}), `graph "g": field topic: Reduce: function reduces int, but the field is string`},
		{"second reducer", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.Reduce(b, "log", func(a, b reduce.List[string]) reduce.List[string] { return b })
		}), `graph "g": field log: Reduce: reduce.List[string] already has a Reduce method`},
		{"nil reducer", onTopOfOne(func(b *treadle.Builder[state]) {
			treadle.Reduce[state, string, string](b, "topic", nil)
		}), `graph "g": field topic: Reduce: nil function`},

		// What a saver cannot keep.
		{"channel", unbuilt(saved, func(b *treadle.Builder[struct{ C chan int }]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field C: C is a chan int, which cannot be saved: tag it treadle:"untracked" to keep it out of checkpoints`},
		{"function inside", unbuilt(saved, func(b *treadle.Builder[struct {
			Plan []struct{ Do func() } `json:"plan"`
		}]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field plan: plan[].Do is a func(), which cannot be saved: tag it treadle:"untracked" to keep it out of checkpoints`},
		{"interface", unbuilt(saved, func(b *treadle.Builder[struct{ I unstorable }]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field I: I is the interface treadle_test.unstorable, which cannot be decoded: use a concrete type: tag it treadle:"untracked" to keep it out of checkpoints`},
		{"unexported fields only", unbuilt(saved, func(b *treadle.Builder[struct{ S sealed }]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field S: S is a treadle_test.sealed, which has only unexported fields: nothing would be saved: tag it treadle:"untracked" to keep it out of checkpoints`},
		{"map with keys that JSON lacks", unbuilt(saved, func(b *treadle.Builder[struct{ M map[[2]int]string }]) {
			treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field M: M is a map[[2]int]string, whose keys JSON cannot represent: tag it treadle:"untracked" to keep it out of checkpoints`},

		// A dynamic state.
		{"field without a name", unbuilt(nil, func(b *treadle.Builder[treadle.Update]) {
			treadle.AddField[string](b, "")
			treadle.AddNode(b, "a", func(context.Context, treadle.Update) (treadle.Update, error) { return nil, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": AddField: missing name`},
		{"field added twice", unbuilt(nil, func(b *treadle.Builder[treadle.Update]) {
			treadle.AddField[string](b, "topic")
			treadle.AddField[int](b, "topic")
			treadle.AddNode(b, "a", func(context.Context, treadle.Update) (treadle.Update, error) { return nil, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field topic: added twice`},
		{"invalid initial values", unbuilt(nil, func(b *treadle.Builder[treadle.Update]) {
			treadle.AddField[string](b, "topic")
			b.Initial(treadle.Update{"topic": 1, "tpoic": "owls"})
			treadle.AddNode(b, "a", func(context.Context, treadle.Update) (treadle.Update, error) { return nil, nil })
			b.Edge(treadle.Start, "a")
		}), `graph "g": field topic: Initial: int is not a string` + "\n" +
			`graph "g": field tpoic: Initial: unknown field; the state has topic`},

		// Options of the graph.
		{"negative step limit", unbuilt(&treadle.Options{StepLimit: -1}, func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "a", keepTopic)
			b.Edge(treadle.Start, "a")
		}), `graph "g": invalid Options.StepLimit -1: want 1 or more, or 0 for 25`},
		{"negative concurrency", unbuilt(&treadle.Options{MaxConcurrency: -2}, func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "a", keepTopic)
			b.Edge(treadle.Start, "a")
		}), `graph "g": invalid Options.MaxConcurrency -2: want 1 or more, or 0 for no limit`},
		{"negative step timeout", unbuilt(&treadle.Options{StepTimeout: -time.Second}, func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "a", keepTopic)
			b.Edge(treadle.Start, "a")
		}), `graph "g": invalid Options.StepTimeout -1s: want more than 0, or 0 for none`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.err == nil {
				t.Fatal("it compiles")
			}
			if diff := cmp.Diff(test.want, test.err.Error()); diff != "" {
				t.Errorf("the error is not the expected one (-want +got):\n%s", diff)
			}
			if _, ok := errors.AsType[*treadle.BuildError](test.err); !ok {
				t.Errorf("%T holds no *BuildError", test.err)
			}
		})
	}
}

// The graph's own name goes into namespaces and caches, so it has the rules of
// a node's.
func TestCompileRejectsInvalidGraphNames(t *testing.T) {
	for name, want := range map[string]string{
		"":         `graph "": invalid graph name: missing name`,
		"__mine":   `graph "__mine": invalid graph name: names starting with __ are reserved`,
		"a|b":      `graph "a|b": invalid graph name: name must not contain | or :, which separate the parts of a namespace`,
		"a:b":      `graph "a:b": invalid graph name: name must not contain | or :, which separate the parts of a namespace`,
		"research": "",
	} {
		b := treadle.New[draft](name)
		treadle.AddNode(b, "a", keepTopic)
		b.Edge(treadle.Start, "a")
		got := ""
		if _, err := b.Compile(nil); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("graph %q: the error is %q, want %q", name, got, want)
		}
	}
}

// Output and input types are checked like what nodes read and write.
func TestCompileChecksInputAndOutputTypes(t *testing.T) {
	build := func() *treadle.Builder[draft] {
		b := treadle.New[draft]("g")
		treadle.AddNode(b, "a", keepTopic)
		b.Edge(treadle.Start, "a")
		return b
	}
	type answer struct{ Anwser string }
	_, err := treadle.Compile[draft, answer](build(), nil)
	if want := `graph "g": field treadle_test.answer.Anwser: output field is never written`; err == nil || err.Error() != want {
		t.Errorf("the error of the output is %v, want %s", err, want)
	}
	type ask struct{ Topic int }
	_, err = treadle.Compile[ask, draft](build(), nil)
	if want := `graph "g": field treadle_test.ask.Topic: is int, but updates of this field are string`; err == nil || err.Error() != want {
		t.Errorf("the error of the input is %v, want %s", err, want)
	}
}

// One Compile reports everything, so that a graph is not fixed error by error.
//
// Parity: 1.
func TestCompileReportsAllProblemsAtOnce(t *testing.T) {
	type misspelled struct{ Topci string }
	err := unbuilt(&treadle.Options{MaxConcurrency: -1}, func(b *treadle.Builder[draft]) {
		treadle.AddNode(b, "a", keepTopic)
		treadle.AddNode(b, "a", keepTopic)
		treadle.AddNode[draft, topicOnly, topicOnly](b, "b", nil)
		treadle.AddNode(b, "c", func(context.Context, draft) (misspelled, error) { return misspelled{}, nil })
		b.Edge(treadle.Start, "a")
		b.Edge("a", "x")
		b.Edge("a", "c")
		b.Sequence()
	})
	want := []string{
		`graph "g": sequence: no nodes: pass at least one`,
		`graph "g": invalid Options.MaxConcurrency -1: want 1 or more, or 0 for no limit`,
		`graph "g": node "a": added twice`,
		`graph "g": node "b": nil function`,
		`graph "g": edge a → x: unknown node "x"; the graph has a, b, c`,
		`graph "g": node "b": unreachable: add an edge, a branch, or a destination`,
		`graph "g": node "c": field Topci: not in the state and never read: misspelled?`,
	}
	if err == nil {
		t.Fatal("it compiles")
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("the problems differ (-want +got):\n%s", diff)
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%T is not a list of errors", err)
	}
	for _, e := range joined.Unwrap() {
		if p, ok := errors.AsType[*treadle.BuildError](e); !ok || p.Graph != "g" {
			t.Errorf("%v is not a BuildError of graph g", e)
		}
	}
}

func TestInvalidOptionsHaveFixedOrder(t *testing.T) {
	var saver *checkpoint.Memory
	var cache *checkpoint.MemoryCache
	want := []string{
		`graph "g": invalid Options.StepLimit -1: want 1 or more, or 0 for 25`,
		`graph "g": invalid Options.MaxConcurrency -2: want 1 or more, or 0 for no limit`,
		`graph "g": invalid Options.StepTimeout -3ns: want more than 0, or 0 for none`,
		`graph "g": invalid Options.PutTimeout -4ns: want more than 0, or 0 for the default`,
		`graph "g": saver is a nil *checkpoint.Memory: omit the option instead`,
		`graph "g": cache is a nil *checkpoint.MemoryCache: omit the option instead`,
	}
	for range 20 {
		err := unbuilt(&treadle.Options{
			StepLimit:      -1,
			MaxConcurrency: -2,
			StepTimeout:    -3,
			PutTimeout:     -4,
			Saver:          saver,
			Cache:          cache,
		}, func(b *treadle.Builder[draft]) {
			treadle.AddNode(b, "a", keepTopic)
			b.Edge(treadle.Start, "a")
		})
		if err == nil {
			t.Fatal("it compiles")
		}
		if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
			t.Fatalf("the problems differ (-want +got):\n%s", diff)
		}
	}
}

// A problem names its node and its field, for editors and tests.
func TestBuildErrorHasNodeAndField(t *testing.T) {
	type in struct{ Topic int }
	err := onTopOfOne(func(b *treadle.Builder[draft]) {
		treadle.AddNode(b, "n", func(context.Context, in) (topicOnly, error) { return topicOnly{}, nil })
		b.Edge("a", "n")
	})
	p, ok := errors.AsType[*treadle.BuildError](err)
	if !ok {
		t.Fatalf("%v is not a BuildError", err)
	}
	want := treadle.BuildError{Graph: "g", Node: "n", Field: "treadle_test.in.Topic", Msg: "is int here and string in the state"}
	if *p != want {
		t.Errorf("the problem is %+v, want %+v", *p, want)
	}
}

// A goto from a node that has a static edge runs both. That is allowed, and
// more often an oversight than not.
func TestGotoWithStaticEdgeWarns(t *testing.T) {
	build := func(opts ...treadle.NodeOption) *treadle.Builder[draft] {
		b := treadle.New[draft]("g")
		treadle.AddNode(b, "a", func(context.Context, draft) (treadle.Goto, error) { return nil, nil }, opts...)
		treadle.AddNode(b, "b", keepTopic)
		b.Edge(treadle.Start, "a")
		b.Edge("a", "b")
		return b
	}
	want := `graph "g": node "a": returns a goto and has a static edge, and both run: add treadle.Additive() if this is intended`
	g, err := build().Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{want}, g.Warnings()); diff != "" {
		t.Errorf("the warnings differ (-want +got):\n%s", diff)
	}
	_, err = build().Compile(&treadle.Options{Strict: true})
	if p, ok := errors.AsType[*treadle.BuildError](err); !ok || p.Error() != want {
		t.Errorf("a strict Compile gives %v, want the warning as a BuildError", err)
	}
	g, err = build(treadle.Additive()).Compile(&treadle.Options{Strict: true})
	if err != nil || g.Warnings() != nil {
		t.Errorf("Additive: got error %v and warnings %v, want none", err, g.Warnings())
	}
}

// A builder may be compiled again, with other options and other types, and
// compiling changes nothing in it.
func TestBuilderCompilesTwice(t *testing.T) {
	b := treadle.New[draft]("g")
	treadle.AddNode(b, "a", func(_ context.Context, in topicOnly) (topicOnly, error) { return topicOnly{in.Topic + "!"}, nil })
	b.Edge(treadle.Start, "a")
	if _, err := b.Compile(&treadle.Options{StepLimit: -1}); err == nil {
		t.Error("a step limit of -1 compiles")
	}
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatalf("the problems of the first Compile are still there: %v", err)
	}
	narrow, err := treadle.Compile[topicOnly, topicOnly](b, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.Run(t.Context(), draft{Topic: "owls"})
	if err != nil || out.Topic != "owls!" {
		t.Errorf("the wide graph gives %v, %v", out, err)
	}
	short, err := narrow.Run(t.Context(), topicOnly{"cats"})
	if err != nil || short != (topicOnly{"cats!"}) {
		t.Errorf("the narrow graph gives %v, %v", short, err)
	}
}

func TestMustPanicsWithProblems(t *testing.T) {
	defer func() {
		err, _ := recover().(error)
		if want := "treadle.Must\ngraph \"g\": no nodes: add one with AddNode"; err == nil || err.Error() != want {
			t.Errorf("Must panics with %v, want %s", err, want)
		}
	}()
	treadle.Must(treadle.New[draft]("g").Compile(nil))
}

// A node that only branches reach may take a type that only Send supplies. Reaching it
// without a Send is a run error. Parity has no row for it, because LangGraph does not
// check the types of inputs.
func TestSendOnlyNodeReachedWithoutSend(t *testing.T) {
	b := treadle.New[draft]("g")
	treadle.AddNode(b, "a", keepTopic)
	treadle.AddNode(b, "n", func(context.Context, int) (topicOnly, error) { return topicOnly{}, nil })
	b.Edge(treadle.Start, "a")
	treadle.AddBranch(b, "a", func(context.Context, draft) (treadle.Goto, error) { return treadle.To("n"), nil }, "n")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.Run(t.Context(), draft{})
	if want := `graph "g": node "n" (step 2): goto "n": takes int, which only Send can supply, but was reached without a Send`; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
	if e, ok := errors.AsType[*treadle.GotoError](err); !ok || e.To != "n" || e.Graph != "g" {
		t.Errorf("%v is not a GotoError to n", err)
	}
}

// Graphs may be generated, so compiling takes linear time.
func TestTenThousandNodesCompileQuickly(t *testing.T) {
	const n = 10_000
	for _, test := range []struct {
		name string
		wire func(*treadle.Builder[draft], []string)
	}{
		{"chain", func(b *treadle.Builder[draft], names []string) { b.Sequence(treadle.Nodes(names)...) }},
		{"star", func(b *treadle.Builder[draft], names []string) {
			for _, name := range names[1 : n-1] {
				b.Edge(names[0], name)
			}
			b.Join(treadle.Nodes(names[1:n-1]), names[n-1])
		}},
		{"branches that go anywhere", func(b *treadle.Builder[draft], names []string) {
			for _, name := range names {
				treadle.AddBranch(b, name, func(context.Context, draft) (treadle.Goto, error) { return treadle.To(treadle.End), nil })
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := treadle.New[draft]("g")
			names := make([]string, n)
			for i := range names {
				names[i] = fmt.Sprintf("n%05d", i)
				treadle.AddNode(b, names[i], keepTopic)
			}
			b.Edge(treadle.Start, names[0])
			test.wire(b, names)
			began := time.Now()
			_, err := b.Compile(nil)
			took := time.Since(began)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d nodes took %v", n, took)
			if took > 30*time.Second {
				t.Errorf("compiling took %v; without the race detector it should be under a second", took)
			}
		})
	}
}

// A node created outside a graph may be part of several graphs.
func TestNodeSharedByGraphs(t *testing.T) {
	node := treadle.NewNode("upper", func(_ context.Context, in topicOnly) (topicOnly, error) {
		return topicOnly{strings.ToUpper(in.Topic)}, nil
	}, treadle.Tags("shared"))
	for _, name := range []string{"one", "two"} {
		b := treadle.New[draft](name)
		b.Add(node)
		b.Edge(treadle.Start, "upper")
		out, err := ready(t, b, nil).Run(t.Context(), draft{Topic: name})
		if err != nil || out.Topic != strings.ToUpper(name) {
			t.Errorf("graph %s: %+v, %v", name, out, err)
		}
	}
	err := onTopOfOne(func(b *treadle.Builder[draft]) {
		b.Add(treadle.NewNode[topicOnly, topicOnly]("b", nil))
		b.Edge("a", "b")
	})
	wantText(t, err, `graph "g": node "b": nil function`)
}

// An option that has no effect where it is used is reported, because its author relies on
// it.
func TestMisplacedOptionsAreReported(t *testing.T) {
	handler := treadle.OnError(func(context.Context, int, *treadle.NodeError) (int, error) { return 0, nil })
	for name, opt := range map[string]treadle.NodeOption{"OnError": handler, "Defer": treadle.Defer(), "PerThread": treadle.PerThread(), "Was": treadle.Was("old")} {
		task := treadle.NewTask("task", func(context.Context, int) (int, error) { return 1, nil }, opt)
		g := treadle.Must(treadle.NewWorkflow("w", func(ctx context.Context, n int) (int, error) { return task.Run(ctx, n) }, nil))
		if _, err := g.Run(t.Context(), 0); err == nil || !strings.Contains(err.Error(), name+" has no effect on a task") {
			t.Errorf("a task with %s: %v", name, err)
		}
	}
	type state struct {
		N int `json:"n"`
	}
	graph := func(opts []treadle.NodeOption, defaults ...treadle.NodeOption) error {
		b := treadle.New[state]("g")
		b.Defaults(defaults...)
		treadle.AddNode(b, "node", func(context.Context, state) (state, error) { return state{}, nil }, opts...)
		b.Edge(treadle.Start, "node")
		_, err := b.Compile(nil)
		return err
	}
	if err := graph(nil, treadle.Defer(), treadle.Tags("a")); err == nil || !strings.Contains(err.Error(), "Defaults: Defer has no effect") || !strings.Contains(err.Error(), "Defaults: Tags has no effect") {
		t.Errorf("defaults: %v", err)
	}
	if err := graph([]treadle.NodeOption{treadle.HeartbeatOnly()}); err == nil || !strings.Contains(err.Error(), "HeartbeatOnly has no effect without IdleTimeout") {
		t.Errorf("a node with HeartbeatOnly alone: %v", err)
	}
	if err := graph([]treadle.NodeOption{treadle.HeartbeatOnly(), treadle.Timeout(time.Minute)}, treadle.IdleTimeout(time.Second)); err != nil {
		t.Errorf("a node whose idle timeout is a default: %v", err)
	}
	for name, opt := range map[string]treadle.NodeOption{"PerThread": treadle.PerThread(), "NoCheckpoints": treadle.NoCheckpoints()} {
		if err := graph([]treadle.NodeOption{opt}); err == nil || !strings.Contains(err.Error(), name+" has no effect on a function") {
			t.Errorf("a function with %s: %v", name, err)
		}
	}
}
