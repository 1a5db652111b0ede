package parity_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

type pickState struct {
	Pick []string            `json:"pick"`
	Log  reduce.List[string] `json:"log"`
}

type numbersState struct {
	Pick []int               `json:"pick"`
	Log  reduce.List[string] `json:"log"`
}

type number struct {
	N int `json:"n"`
}

func picked(_ context.Context, s pickState) (treadle.Goto, error) {
	if s.Pick == nil {
		return nil, nil
	}
	return treadle.To(treadle.Nodes(s.Pick)...), nil
}

// numbered appends "w<n>" for the n it was sent.
func numbered(_ context.Context, in number) (entries, error) {
	return logged(fmt.Sprintf("w%d", in.N)), nil
}

var edgeCases = map[string]build{
	"chain": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a", "b", "c")
		b.Sequence(start, "a", "b", "c", end)
	}),
	"diamond": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "top", "bottom", "left", "right")
		b.Sequence(start, "top", "left", "bottom", end)
		b.Sequence("top", "right", "bottom")
	}),
	"fan_out_order": logGraph(func(b *treadle.Builder[logState]) {
		for _, name := range []string{"zeta", "mid", "alpha"} {
			add(b, name)
			b.Edge(start, name)
		}
	}),
	"uneven_branches": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a", "b", "b2", "c", "d")
		b.Sequence(start, "a", "b", "b2", "d", end)
		b.Sequence("a", "c", "d")
	}),
	"parallel_last_value": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			V string `json:"v"`
		}
		b := treadle.New[state](graphName)
		for _, name := range []string{"a", "b"} {
			treadle.AddNode(b, name, func(context.Context, state) (state, error) { return state{name}, nil })
			b.Edge(start, name)
		}
		return b.Compile(o)
	},
	"join_all": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a", "b", "b2", "j")
		b.Edge(start, "a")
		b.Sequence(start, "b", "b2")
		b.Join([]any{"a", "b2"}, "j")
		b.Edge("j", end)
	}),
	"join_plus_edge": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a", "b2", "b", "c", "j")
		b.Sequence(start, "a", "b", "b2")
		b.Sequence("a", "c", "j", end)
		b.Join([]any{"b2", "c"}, "j")
	}),
	"join_loop": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Log    reduce.List[string] `json:"log"`
			Rounds int                 `json:"rounds"`
		}
		b := treadle.New[state](graphName)
		add(b, "top", "a", "b")
		type out struct {
			Log    reduce.List[string]
			Rounds int
		}
		treadle.AddNode(b, "j", func(_ context.Context, s state) (out, error) {
			return out{reduce.List[string]{"j"}, s.Rounds + 1}, nil
		})
		b.Sequence(start, "top", "a")
		b.Edge("top", "b")
		b.Join([]any{"a", "b"}, "j")
		treadle.AddBranch(b, "j", func(_ context.Context, s state) (treadle.Goto, error) {
			if s.Rounds < 2 {
				return treadle.To("top"), nil
			}
			return treadle.To(end), nil
		}, "top", end)
		return b.Compile(o)
	},
	"join_never_complete": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a", "b", "j")
		b.Edge(start, "a")
		b.Join([]any{"a", "b"}, "j")
	}),
	"cond_map": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Kind string              `json:"kind"`
			Log  reduce.List[string] `json:"log"`
		}
		b := treadle.New[state](graphName)
		add(b, "a", "node_x", "node_y")
		b.Edge(start, "a")
		treadle.AddBranch(b, "a", func(_ context.Context, s state) (treadle.Goto, error) {
			switch s.Kind {
			case "x", "y":
				return treadle.To("node_" + s.Kind), nil
			case "stop":
				return treadle.To(end), nil
			}
			return nil, fmt.Errorf("no node for %q", s.Kind)
		}, treadle.Label("node_x", "x"), treadle.Label("node_y", "y"), treadle.Label(end, "stop"))
		edges(b, [2]string{"node_x", end}, [2]string{"node_y", end})
		return b.Compile(o)
	},
	"cond_no_map": graphOf(func(b *treadle.Builder[pickState]) {
		add(b, "a", "b", "c")
		b.Edge(start, "a")
		treadle.AddBranch(b, "a", picked)
	}),
	"cond_list_map": graphOf(func(b *treadle.Builder[pickState]) {
		add(b, "a", "b", "c")
		b.Edge(start, "a")
		treadle.AddBranch(b, "a", picked, "b", "c", end)
	}),
	"cond_sends": graphOf(func(b *treadle.Builder[numbersState]) {
		add(b, "a")
		w := treadle.AddNode(b, "w", numbered)
		b.Edge(start, "a")
		treadle.AddBranch(b, "a", func(_ context.Context, s numbersState) (g treadle.Goto, err error) {
			for _, n := range s.Pick {
				g = append(g, treadle.Send(w, number{n})...)
			}
			return g, nil
		}, "w")
		b.Edge("w", end)
	}),
	"cond_mixed": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a", "b", "z")
		w := treadle.AddNode(b, "w", numbered)
		b.Edge(start, "a")
		treadle.AddBranch(b, "a", func(context.Context, logState) (treadle.Goto, error) {
			g := append(treadle.Send(w, number{1}), treadle.To("z")...)
			return append(append(g, treadle.Send(w, number{2})...), treadle.To("b")...), nil
		})
	}),
	"worked_trace": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			V reduce.List[string] `json:"v"`
		}
		type out struct{ V reduce.List[string] }
		b := treadle.New[state](graphName)
		says := func(name string) {
			treadle.AddNode(b, name, func(context.Context, state) (out, error) { return out{reduce.List[string]{name}}, nil })
		}
		says("a")
		says("b")
		says("j")
		m := treadle.AddNode(b, "m", func(_ context.Context, n int) (out, error) {
			return out{reduce.List[string]{fmt.Sprintf("m%d", n)}}, nil
		})
		says("z")
		edges(b, [2]string{start, "a"}, [2]string{start, "b"})
		b.Join([]any{"a", "b"}, "j")
		treadle.AddBranch(b, "j", func(context.Context, state) (treadle.Goto, error) {
			return append(append(treadle.Send(m, 1), treadle.Send(m, 2)...), treadle.To("z")...), nil
		})
		return b.Compile(o)
	},
	"cond_entry": graphOf(func(b *treadle.Builder[pickState]) {
		add(b, "b", "c")
		treadle.AddBranch(b, start, picked, "b", "c", end)
		edges(b, [2]string{"b", end}, [2]string{"c", end})
	}),
	"cond_two": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a", "b", "c", "d")
		b.Edge(start, "a")
		treadle.AddBranch(b, "a", to[logState](treadle.To("b")), "b", end)
		treadle.AddBranch(b, "a", to[logState](treadle.To("d")), "c", "d")
		edges(b, [2]string{"b", end}, [2]string{"c", end}, [2]string{"d", end})
	}),
	"cond_and_edge": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a", "b", "c")
		b.Sequence(start, "a", "b")
		treadle.AddBranch(b, "a", to[logState](treadle.To("c")), treadle.Label("c", "yes"))
	}),
	"cond_sees_own_writes": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			N   int                 `json:"n"`
			Log reduce.List[string] `json:"log"`
		}
		type both struct {
			N   int
			Log reduce.List[string]
		}
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "a", func(_ context.Context, s state) (both, error) { return both{s.N + 10, reduce.List[string]{"a"}}, nil })
		add(b, "b")
		seen := treadle.AddNode(b, "seen", func(_ context.Context, s state) (entries, error) {
			return logged(fmt.Sprintf("n=%d log=%s", s.N, strings.Join(s.Log, ","))), nil
		})
		edges(b, [2]string{start, "a"}, [2]string{start, "b"})
		treadle.AddBranch(b, "a", func(_ context.Context, s state) (treadle.Goto, error) { return treadle.Send(seen, s), nil }, "seen")
		return b.Compile(o)
	},
	"self_loop": graphOf(func(b *treadle.Builder[number]) {
		treadle.AddNode(b, "count", func(_ context.Context, s number) (number, error) { return number{s.N + 1}, nil })
		treadle.AddNode(b, "last", func(_ context.Context, s number) (number, error) { return number{s.N * 10}, nil })
		b.Edge(start, "count")
		treadle.AddBranch(b, "count", again("count", "last"), treadle.Label("count", "again"), treadle.Label("last", "done"))
		b.Edge("last", end)
	}),
	"unreachable_node": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a", "island")
		b.Sequence(start, "a", end)
	}),
	"compile_no_entry": logGraph(func(b *treadle.Builder[logState]) { add(b, "a") }),
	"compile_unknown_target": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a")
		b.Sequence(start, "a", "ghost")
	}),
	"compile_unknown_source": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a")
		b.Edge(start, "a")
		b.Edge("ghost", "a")
	}),
	"compile_unknown_branch_target": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a")
		b.Edge(start, "a")
		treadle.AddBranch(b, "a", to[logState](treadle.To("ghost")), treadle.Label("ghost", "x"))
	}),
	"compile_duplicate_node": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a", "a")
		b.Edge(start, "a")
	}),
	"compile_edge_from_end": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a")
		b.Edge(start, "a")
		b.Edge(end, "a")
	}),
	"compile_edge_to_start": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a")
		b.Edge(start, "a")
		b.Edge("a", start)
	}),
	"compile_reserved_character": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a:b")
		b.Edge(start, "a:b")
	}),
}

// again leads back until the number is 3, and then onward.
func again(back, onward string) func(context.Context, number) (treadle.Goto, error) {
	return func(_ context.Context, s number) (treadle.Goto, error) {
		if s.N < 3 {
			return treadle.To(back), nil
		}
		return treadle.To(onward), nil
	}
}
