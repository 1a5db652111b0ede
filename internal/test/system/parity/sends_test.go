package parity_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

type jobState struct {
	Jobs  []int            `json:"jobs"`
	Done  reduce.List[int] `json:"done"`
	Total int              `json:"total"`
}

type doneOf struct{ Done reduce.List[int] }

// rootList is a state that is one appending list.
type rootList = reduce.List[string]

func says(name string) func(context.Context, rootList) (rootList, error) {
	return func(context.Context, rootList) (rootList, error) { return rootList{name}, nil }
}

// twoSenders builds the graph that two recordings share: nodes 1 and 1.1 send
// numbers to node 2. The nodes are added in the given order, which diagrams show.
func twoSenders[Out any](two func(context.Context, int) (Out, error), names ...string) build {
	return graphOf(func(b *treadle.Builder[rootList]) {
		var n2 treadle.Node[int]
		for _, name := range names {
			if name == "2" {
				n2 = treadle.AddNode(b, name, two)
			} else {
				treadle.AddNode(b, name, says(name))
			}
		}
		edges(b, [2]string{start, "1"}, [2]string{start, "1.1"})
		treadle.AddBranch(b, "1", to[rootList](append(append(treadle.Send(n2, 1), treadle.Send(n2, 2)...), treadle.To("3.1")...)))
		treadle.AddBranch(b, "1.1", to[rootList](append(treadle.Send(n2, 3), treadle.Send(n2, 4)...)))
		treadle.AddBranch(b, "2", to[rootList](treadle.To("3")))
	})
}

var sendCases = map[string]build{
	"map_reduce": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type job struct {
			N    int `json:"n"`
			Turn int `json:"turn"`
		}
		b := treadle.New[jobState](graphName)
		square := treadle.AddNode(b, "square", func(_ context.Context, j job) (doneOf, error) {
			return doneOf{reduce.List[int]{j.N * j.N}}, nil
		})
		treadle.AddNode(b, "sum", func(_ context.Context, s jobState) (struct{ Total int }, error) {
			total := 0
			for _, n := range s.Done {
				total += n
			}
			return struct{ Total int }{total}, nil
		})
		treadle.AddBranch(b, start, func(_ context.Context, s jobState) (g treadle.Goto, err error) {
			g = treadle.Goto{} // nothing to send is nowhere to go, not an oversight
			for i, n := range s.Jobs {
				g = append(g, treadle.Send(square, job{n, len(s.Jobs) - i})...)
			}
			return g, nil
		}, "square")
		b.Sequence("square", "sum", end)
		return b.Compile(o)
	},
	"send_cascade": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type at struct {
			Path string `json:"path"`
		}
		b := treadle.New[logState](graphName)
		add(b, "top")
		var leaf treadle.Node[at]
		mid := treadle.AddNode(b, "mid", func(_ context.Context, in at) (treadle.Command[entries], error) {
			return command("mid "+in.Path, append(treadle.Send(leaf, at{in.Path + ".1"}), treadle.Send(leaf, at{in.Path + ".2"})...)), nil
		})
		leaf = treadle.AddNode(b, "leaf", func(_ context.Context, in at) (entries, error) { return logged("leaf " + in.Path), nil })
		b.Edge(start, "top")
		treadle.AddBranch(b, "top", to[logState](append(treadle.Send(mid, at{"1"}), treadle.Send(mid, at{"2"})...)), "mid")
		return b.Compile(o)
	},
	"cond_edge_after_send": graphOf(func(b *treadle.Builder[rootList]) {
		treadle.AddNode(b, "1", says("1"))
		two := treadle.AddNode(b, "2", says("2"))
		treadle.AddNode(b, "3", says("3"))
		b.Edge(start, "1")
		treadle.AddBranch(b, "1", func(_ context.Context, s rootList) (treadle.Goto, error) {
			return append(treadle.To("2"), treadle.Send(two, s)...), nil
		})
		treadle.AddBranch(b, "2", to[rootList](treadle.To("3")))
	}),
	"concurrent_sends": twoSenders(func(_ context.Context, n int) (rootList, error) {
		return rootList{fmt.Sprintf("2|%d", n)}, nil
	}, "1", "1.1", "2", "3", "3.1"),
	"send_sequences": twoSenders(func(_ context.Context, n int) ([]treadle.Command[rootList], error) {
		own := treadle.Command[rootList]{Update: &rootList{fmt.Sprintf("2|%d", n)}}
		if n < 3 {
			return []treadle.Command[rootList]{{Goto: treadle.Send("2", n+2)}, own}, nil
		}
		return []treadle.Command[rootList]{own}, nil
	}, "1", "1.1", "3", "3.1", "2"),
	"send_and_edge": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Log reduce.List[string] `json:"log,omitzero"` // absent from what is sent
			Tag string              `json:"tag"`
		}
		type both struct {
			Log reduce.List[string]
			Tag string
		}
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "a", func(context.Context, state) (both, error) { return both{reduce.List[string]{"a"}, "state"}, nil })
		w := treadle.AddNode(b, "w", func(_ context.Context, s state) (entries, error) { return logged("w " + s.Tag), nil })
		b.Sequence(start, "a", "w")
		treadle.AddBranch(b, "a", to[state](treadle.Send(w, state{Tag: "sent"})), "w")
		return b.Compile(o)
	},
	"send_twenty": graphOf(func(b *treadle.Builder[jobState]) {
		treadle.AddNode(b, "plan", silent[jobState])
		work := treadle.AddNode(b, "work", func(_ context.Context, in number) (doneOf, error) { return doneOf{reduce.List[int]{in.N}}, nil })
		b.Edge(start, "plan")
		treadle.AddBranch(b, "plan", func(_ context.Context, s jobState) (g treadle.Goto, err error) {
			for _, n := range s.Jobs {
				g = append(g, treadle.Send(work, number{n})...)
			}
			return g, nil
		}, "work")
	}),
	"send_from_node": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type who struct {
			Who string `json:"who"`
		}
		b := treadle.New[logState](graphName)
		treadle.AddNode(b, "a", func(context.Context, logState) (treadle.Goto, error) { return treadle.Send("b", who{"a"}), nil })
		treadle.AddNode(b, "b", func(_ context.Context, in who) (entries, error) { return logged("b " + in.Who), nil })
		b.Edge(start, "a")
		return b.Compile(o)
	},
	"send_to_end": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a")
		b.Edge(start, "a")
		treadle.AddBranch(b, "a", to[logState](treadle.Send(end, nothing{})))
	}),
	"send_to_unknown": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a")
		b.Edge(start, "a")
		treadle.AddBranch(b, "a", to[logState](treadle.Send("ghost", nothing{})))
	}),
	"send_then_join": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a", "s")
		w := treadle.AddNode(b, "w", numbered)
		add(b, "j")
		edges(b, [2]string{start, "a"}, [2]string{start, "s"})
		treadle.AddBranch(b, "s", to[logState](append(treadle.Send(w, number{1}), treadle.Send(w, number{2})...)), "w")
		b.Join([]any{"a", "w"}, "j")
	}),
}
