package parity_test

import (
	"context"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// counted is a log and a number.
type counted struct {
	Log reduce.List[string] `json:"log"`
	N   int                 `json:"n"`
}

// leader returns a graph of one node that commands its parent graph.
func leader(node, entry string, g treadle.Goto, names ...string) *treadle.Graph[logState, logState] {
	return child(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, node, commands(entry, g), treadle.Handoff(treadle.Nodes(names)...))
		b.Edge(start, node)
	})
}

// commands returns a node that commands the parent graph.
func commands(entry string, g treadle.Goto) func(context.Context, logState) (treadle.Command[entries], error) {
	return func(context.Context, logState) (treadle.Command[entries], error) {
		c := command(entry, g)
		c.Parent = true
		return c, nil
	}
}

var commandCases = map[string]build{
	// The recorded graph has a node c that nothing leads to, which Compile
	// rejects; see unreachable_node.
	"goto": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "a", goes[logState]("a", treadle.To("b")), treadle.Destinations("b"))
		add(b, "b")
		b.Edge(start, "a")
	}),
	"goto_several": logGraph(func(b *treadle.Builder[logState]) {
		var w treadle.Node[number]
		treadle.AddNode(b, "a", func(context.Context, logState) (treadle.Command[entries], error) {
			return command("a", append(treadle.To("c", "b"), treadle.Send(w, number{1})...)), nil
		}, treadle.Destinations("b", "c", "w"))
		add(b, "b", "c")
		w = treadle.AddNode(b, "w", numbered)
		b.Edge(start, "a")
	}),
	"goto_labels": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "a", to[logState](treadle.To("b")), treadle.Destinations(treadle.Label("b", "go on"), treadle.Label(end, "stop")))
		add(b, "b")
		b.Edge(start, "a")
	}),
	"goto_and_edge": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "a", goes[logState]("a", treadle.To("c")), treadle.Destinations("c"), treadle.Additive())
		add(b, "b", "c")
		b.Sequence(start, "a", "b")
	}),
	"goto_same_as_edge": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "a", goes[logState]("a", treadle.To("b")), treadle.Destinations("b"), treadle.Additive())
		add(b, "b")
		b.Sequence(start, "a", "b")
	}),
	"goto_end": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Log  reduce.List[string] `json:"log"`
			Stop bool                `json:"stop"`
		}
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "a", func(_ context.Context, s state) (treadle.Command[entries], error) {
			if s.Stop {
				return command("a", treadle.To(end)), nil
			}
			return command("a", treadle.To("b")), nil
		}, treadle.Destinations("b", end))
		add(b, "b")
		b.Edge(start, "a")
		return b.Compile(o)
	},
	"goto_end_with_edge": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "a", goes[logState]("a", treadle.To(end)), treadle.Additive())
		add(b, "b")
		b.Sequence(start, "a", "b")
	}),
	"goto_unknown": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "a", goes[logState]("a", treadle.To("ghost")))
		b.Edge(start, "a")
	}),
	"command_list": graphOf(func(b *treadle.Builder[counted]) {
		treadle.AddNode(b, "a", func(context.Context, counted) ([]treadle.Command[treadle.Update], error) {
			return []treadle.Command[treadle.Update]{
				{Update: &treadle.Update{"log": reduce.List[string]{"one"}}, Goto: treadle.To("b")},
				{Update: &treadle.Update{"log": reduce.List[string]{"two"}, "n": 7}},
				{Update: &treadle.Update{"log": reduce.List[string]{"three"}}},
			}, nil
		}, treadle.Destinations("b"))
		add(b, "b")
		b.Edge(start, "a")
	}),
	"command_list_root": graphOf(func(b *treadle.Builder[rootList]) {
		treadle.AddNode(b, "a", func(context.Context, rootList) (out []treadle.Command[rootList], err error) {
			for _, s := range []string{"one", "two", "three"} {
				out = append(out, treadle.Command[rootList]{Update: &rootList{s}})
			}
			return out, nil
		}, treadle.Additive())
		treadle.AddNode(b, "b", says("b"))
		b.Sequence(start, "a", "b")
	}),
	"command_last_value_twice": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			V string `json:"v"`
		}
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "a", func(context.Context, state) ([]treadle.Command[state], error) {
			return []treadle.Command[state]{{Update: &state{"one"}}, {Update: &state{"two"}}}, nil
		})
		b.Edge(start, "a")
		return b.Compile(o)
	},
	// A list of pairs is a list of commands here.
	"command_pairs": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "a", func(context.Context, logState) ([]treadle.Command[entries], error) {
			return []treadle.Command[entries]{command("one", nil), command("two", nil)}, nil
		})
		b.Edge(start, "a")
	}),
	// The recorded update has a field more that the state does not know, which
	// Compile rejects; see returns_empty.
	"command_struct": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "a", goes[logState]("from a struct", nil))
		b.Edge(start, "a")
	}),
	"command_empty": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "a", func(context.Context, logState) (c treadle.Command[entries], err error) { return c, nil }, treadle.Additive())
		add(b, "b")
		b.Sequence(start, "a", "b")
	}),
	"planner_loop": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Plan []any               `json:"plan"`
			Log  reduce.List[string] `json:"log"`
		}
		type out struct {
			Plan *[]any
			Log  reduce.List[string]
			Next treadle.Goto
		}
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "planner", func(_ context.Context, s state) (out, error) {
			if len(s.Plan) == 0 {
				return out{Log: reduce.List[string]{"done"}, Next: treadle.To(end)}, nil
			}
			rest := append([]any{}, s.Plan[1:]...)
			o := out{Plan: &rest, Log: reduce.List[string]{"plan"}}
			switch first := s.Plan[0].(type) {
			case string:
				o.Next = treadle.To(first)
			case []any:
				for _, name := range first {
					o.Next = append(o.Next, treadle.To(name.(string))...)
				}
			}
			return o, nil
		})
		add(b, "one", "two", "three", "four")
		b.Edge(start, "planner")
		for _, name := range []string{"one", "two", "three", "four"} {
			b.Edge(name, "planner")
		}
		return b.Compile(o)
	},
	"parent_one_level": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddGraph(b, "sub", child(func(b *treadle.Builder[logState]) {
			add(b, "c1")
			treadle.AddNode(b, "c2", commands("c2", treadle.To("target")), treadle.Handoff("target"))
			add(b, "c3")
			b.Sequence(start, "c1", "c2", "c3")
		}))
		add(b, "after", "target")
		b.Sequence(start, "sub", "after")
	}),
	// top_target, which nothing leads to, is left out.
	"parent_two_levels": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddGraph(b, "middle", child(func(b *treadle.Builder[logState]) {
			treadle.AddGraph(b, "inner", leader("leaf", "leaf", treadle.To("mid_target"), "mid_target"))
			add(b, "mid_target")
			b.Edge(start, "inner")
		}))
		b.Edge(start, "middle")
	}),
	"parent_relay": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddGraph(b, "middle", child(func(b *treadle.Builder[logState]) {
			treadle.AddGraph(b, "inner", leader("leaf", "leaf", treadle.To("relay"), "relay"))
			treadle.AddNode(b, "relay", commands("relay", treadle.To("top_target")), treadle.Handoff("top_target"))
			b.Edge(start, "inner")
		}))
		add(b, "top_target")
		b.Edge(start, "middle")
	}),
	"parent_sends": logGraph(func(b *treadle.Builder[logState]) {
		next := append(append(treadle.Send("w", number{1}), treadle.Send("w", number{2})...), treadle.To("z")...)
		treadle.AddGraph(b, "sub", leader("c", "c", next, "w", "z"))
		treadle.AddNode(b, "w", numbered)
		add(b, "z")
		b.Edge(start, "sub")
	}),
	// The recorded command also has a key that no graph knows, which Compile
	// rejects; see returns_empty.
	"parent_unknown_key": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type shared struct {
			Shared string `json:"shared"`
		}
		type parent struct {
			Shared     string `json:"shared"`
			OnlyParent string `json:"only_parent"`
		}
		type upward struct{ OnlyParent string }
		inner := child(func(b *treadle.Builder[shared]) {
			treadle.AddNode(b, "c", func(context.Context, shared) (treadle.Command[upward], error) {
				return treadle.Command[upward]{Update: &upward{"set by the child"}, Parent: true}, nil
			}, treadle.Handoff())
			b.Edge(start, "c")
		})
		b := treadle.New[parent](graphName)
		treadle.AddGraph(b, "sub", inner)
		treadle.AddNode(b, "end", func(_ context.Context, s parent) (shared, error) { return shared{s.Shared + "!"}, nil })
		b.Sequence(start, "sub", "end")
		return b.Compile(o)
	},
	"parent_from_call": logGraph(func(b *treadle.Builder[logState]) {
		inner := leader("c", "c", treadle.To("target"), "target")
		treadle.AddNode(b, "caller", func(ctx context.Context, s logState) (entries, error) {
			if _, err := inner.Run(ctx, s); err != nil {
				return entries{}, err
			}
			return logged("not reached"), nil
		}, treadle.Uses(inner))
		add(b, "after", "target")
		b.Sequence(start, "caller", "after")
	}),
	"parent_at_root": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "a", func(context.Context, logState) (treadle.Command[entries], error) {
			return treadle.Command[entries]{Goto: treadle.To("b"), Parent: true}, nil
		})
		add(b, "b")
		b.Edge(start, "a")
	}),
	"parent_list": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddGraph(b, "sub", child(func(b *treadle.Builder[logState]) {
			treadle.AddNode(b, "c", func(context.Context, logState) ([]treadle.Command[entries], error) {
				up := command("to the parent", treadle.To("target"))
				up.Parent = true
				return []treadle.Command[entries]{command("kept in the child", nil), up}, nil
			}, treadle.Handoff("target"))
			b.Edge(start, "c")
		}))
		add(b, "target")
		b.Edge(start, "sub")
	}),
}
