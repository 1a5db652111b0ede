package parity_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// unused is an input schema that shares nothing with any state.
type unused struct {
	Unused string `json:"unused"`
}

// closed returns a graph that takes nothing from its parent and hands up its log.
func closed(node string) *treadle.Graph[unused, logState] {
	b := treadle.New[logState](graphName)
	add(b, node)
	b.Edge(start, node)
	return treadle.Must(treadle.Compile[unused, logState](b, nil))
}

// calls returns a node that runs a graph for each entry and logs what it returned.
func calls(g *treadle.Graph[logState, logState], inputs ...string) func(context.Context, logState) (entries, error) {
	return func(ctx context.Context, _ logState) (entries, error) {
		var all []string
		for _, e := range inputs {
			out, err := g.Run(ctx, logState(logged(e)))
			if err != nil {
				return entries{}, err
			}
			all = append(all, strings.Join(out.Log, "+"))
		}
		return logged(all...), nil
	}
}

func called(inputs ...string) build {
	return logGraph(func(b *treadle.Builder[logState]) {
		inner := chainOf("c")
		treadle.AddNode(b, "caller", calls(inner, inputs...), treadle.Uses(inner))
		b.Edge(start, "caller")
	})
}

func emits(text, entry string) func(context.Context, logState) (entries, error) {
	return func(ctx context.Context, _ logState) (entries, error) {
		treadle.Emit(ctx, text)
		return logged(entry), nil
	}
}

var nestedCases = map[string]build{
	"sub_shared_keys": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			A int `json:"a"`
			B int `json:"b"`
		}
		b := treadle.New[state](graphName)
		treadle.AddGraph(b, "sub", child(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "inc", func(_ context.Context, s state) (struct{ A int }, error) { return struct{ A int }{s.A + 1}, nil })
			b.Edge(start, "inc")
		}))
		treadle.AddNode(b, "last", func(_ context.Context, s state) (struct{ B int }, error) { return struct{ B int }{s.A * 10}, nil })
		b.Sequence(start, "sub", "last")
		return b.Compile(o)
	},
	"sub_extra_keys": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type parent struct {
			Shared     string `json:"shared"`
			ParentOnly string `json:"parent_only"`
		}
		type inner struct {
			Shared    string `json:"shared"`
			ChildOnly string `json:"child_only"`
		}
		b := treadle.New[parent](graphName)
		treadle.AddGraph(b, "sub", child(func(b *treadle.Builder[inner]) {
			treadle.AddNode(b, "c1", func(context.Context, inner) (struct{ ChildOnly string }, error) {
				return struct{ ChildOnly string }{"c"}, nil
			})
			treadle.AddNode(b, "c2", func(_ context.Context, s inner) (struct{ Shared string }, error) {
				return struct{ Shared string }{s.Shared + s.ChildOnly}, nil
			})
			b.Sequence(start, "c1", "c2")
		}))
		b.Sequence(start, "sub", end)
		return b.Compile(o)
	},
	"sub_reducer_duplicates": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "p")
		treadle.AddGraph(b, "sub", chainOf("c"))
		b.Sequence(start, "p", "sub", end)
	}),
	"sub_output_schema": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type inner struct {
			Log   reduce.List[string] `json:"log"`
			Query string              `json:"query"`
		}
		type query struct{ Query string }
		c := treadle.New[inner](graphName)
		add(c, "c")
		c.Edge(start, "c")
		b := treadle.New[logState](graphName)
		add(b, "p")
		treadle.AddGraph(b, "sub", treadle.Must(treadle.Compile[query, logState](c, nil)))
		b.Sequence(start, "p", "sub", end)
		return b.Compile(o)
	},
	"sub_called_once":  called("x"),
	"sub_called_twice": called("x", "y", "z"),
	"sub_two_levels": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "t")
		treadle.AddGraph(b, "middle", child(func(b *treadle.Builder[logState]) {
			add(b, "m")
			treadle.AddGraph(b, "inner", chainOf("leaf"))
			b.Sequence(start, "m", "inner", end)
		}))
		b.Sequence(start, "t", "middle", end)
	}),
	"sub_parallel": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddGraph(b, "left", closed("l"))
		treadle.AddGraph(b, "right", closed("r"))
		add(b, "end")
		b.Sequence(start, "left", "end")
		b.Sequence(start, "right", "end")
	}),
	"sub_sent": logGraph(func(b *treadle.Builder[logState]) {
		sub := treadle.AddGraph(b, "sub", child(func(b *treadle.Builder[counted]) {
			treadle.AddNode(b, "c", func(_ context.Context, s counted) (entries, error) { return logged(fmt.Sprintf("c%d", s.N)), nil })
			b.Edge(start, "c")
		}))
		treadle.AddBranch(b, start, func(context.Context, logState) (g treadle.Goto, err error) {
			for n := 1; n <= 2; n++ {
				g = append(g, treadle.Send(sub, counted{reduce.List[string]{fmt.Sprint(n)}, n})...)
			}
			return g, nil
		}, "sub")
	}),
	"sub_in_loop": graphOf(func(b *treadle.Builder[number]) {
		treadle.AddGraph(b, "sub", child(func(b *treadle.Builder[number]) {
			treadle.AddNode(b, "inc", func(_ context.Context, s number) (number, error) { return number{s.N + 1}, nil })
			b.Edge(start, "inc")
		}))
		b.Edge(start, "sub")
		treadle.AddBranch(b, "sub", again("sub", end), treadle.Label("sub", "again"), treadle.Label(end, "done"))
	}),
	"sub_fails": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddGraph(b, "sub", child(func(b *treadle.Builder[logState]) {
			add(b, "ok")
			treadle.AddNode(b, "bad", fails[logState]("no luck"))
			b.Sequence(start, "ok", "bad")
		}))
		b.Edge(start, "sub")
	}),
	"sub_custom": logGraph(func(b *treadle.Builder[logState]) {
		inner := child(func(b *treadle.Builder[logState]) {
			treadle.AddNode(b, "c", emits("from the child", "c"))
			b.Edge(start, "c")
		})
		treadle.AddNode(b, "p", emits("from the parent", "p"))
		treadle.AddGraph(b, "sub", inner)
		treadle.AddNode(b, "caller", func(ctx context.Context, _ logState) (nothing, error) {
			treadle.Emit(ctx, "before")
			_, err := inner.Run(ctx, logState{})
			treadle.Emit(ctx, "after")
			return nothing{}, err
		}, treadle.Uses(inner))
		b.Sequence(start, "p", "sub", "caller", end)
	}),
	"sub_recursion_limit": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddGraph(b, "sub", chainOf("c1", "c2", "c3"))
		b.Edge(start, "sub")
	}),
}

// TestSubgraphOverwriteKeepsLaterWrites: all that a child hands up is
// one step of its parent, in which an overwrite has the last word; what the
// child appended after it must not be lost.
func TestSubgraphOverwriteKeepsLaterWrites(t *testing.T) {
	g := child(func(b *treadle.Builder[logState]) {
		add(b, "p")
		treadle.AddGraph(b, "sub", child(func(b *treadle.Builder[logState]) {
			add(b, "before")
			treadle.AddNode(b, "over", overwrites("over"))
			add(b, "after")
			b.Sequence(start, "before", "over", "after")
		}))
		b.Sequence(start, "p", "sub")
	})
	got, err := g.Run(t.Context(), logState{reduce.List[string]{"in"}})
	if err != nil {
		t.Fatal(err)
	}
	if d := gocmp.Diff(reduce.List[string]{"over", "after"}, got.Log); d != "" {
		t.Errorf("log (-want +got):\n%s", d)
	}
}
