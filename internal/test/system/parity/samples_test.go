package parity_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

type trailState struct {
	OK    bool                `json:"ok"`
	Trail reduce.List[string] `json:"trail"`
}

type trail struct{ Trail reduce.List[string] }

func visit[S any](name string) func(context.Context, S) (trail, error) {
	return func(context.Context, S) (trail, error) { return trail{reduce.List[string]{name}}, nil }
}

func visits(b *treadle.Builder[trailState], names ...string) {
	for _, name := range names {
		treadle.AddNode(b, name, visit[trailState](name))
	}
}

func byOK(_ context.Context, s trailState) (treadle.Goto, error) {
	if s.OK {
		return treadle.To("node_b"), nil
	}
	return treadle.To("node_c"), nil
}

// okLabels are the destinations of byOK.
var okLabels = []treadle.NodeRef{treadle.Label("node_b", "true"), treadle.Label("node_c", "false")}

type fooState struct {
	Foo string `json:"foo"`
}

type fooBar struct {
	Foo string `json:"foo"`
	Bar string `json:"bar"`
}

type keyState struct {
	MyStateKey string `json:"my_state_key"`
}

// keepRange, as an update of a windowed list, keeps a part of it.
type keepRange struct {
	Type string `json:"type"`
	From int    `json:"from"`
	To   *int   `json:"to"`
}

// windowed appends lists and cuts itself by ranges.
type windowed []any

func (w windowed) Reduce(u any) windowed {
	if k, ok := u.(keepRange); ok {
		return w[max(0, len(w)+k.From):]
	}
	return append(slices.Clip(w), u.([]any)...)
}

// series appends numbers.
type series []float64

func (s series) Reduce(x float64) series { return append(slices.Clip(s), x) }

type jokeState struct {
	Topic string `json:"topic"`
	Joke  string `json:"joke"`
}

type topicOf struct{ Topic string }
type jokeOf struct{ Joke string }

type queryState struct {
	Query  string `json:"query"`
	Answer string `json:"answer"`
}

func alice() *treadle.Graph[keyState, keyState] {
	return child(func(b *treadle.Builder[keyState]) {
		treadle.AddNode(b, "some_node", func(context.Context, keyState) (treadle.Command[keyState], error) {
			return treadle.Command[keyState]{Update: &keyState{"from alice"}, Goto: treadle.To("bob"), Parent: true}, nil
		}, treadle.Handoff("bob"))
		b.Edge(start, "some_node")
	})
}

func bob(_ context.Context, s keyState) (keyState, error) {
	return keyState{s.MyStateKey + ", bob"}, nil
}

var sampleCases = map[string]build{
	"a01_multiple_schemas": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Foo         string `json:"foo"`
			UserInput   string `json:"user_input"`
			GraphOutput string `json:"graph_output"`
		}
		type in struct{ UserInput string }
		type out struct{ GraphOutput string }
		type private struct {
			Bar string `json:"bar"`
		}
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "node_1", func(_ context.Context, s in) (struct{ Foo string }, error) {
			return struct{ Foo string }{s.UserInput + " name"}, nil
		})
		treadle.AddNode(b, "node_2", func(_ context.Context, s state) (private, error) { return private{s.Foo + " is"}, nil })
		treadle.AddNode(b, "node_3", func(_ context.Context, s private) (out, error) { return out{s.Bar + " Lance"}, nil })
		b.Sequence(start, "node_1", "node_2", "node_3", end)
		return treadle.Compile[in, out](b, o)
	},
	"a02_default_reducer": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Foo int      `json:"foo"`
			Bar []string `json:"bar"`
		}
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "node_1", func(context.Context, state) (struct{ Foo int }, error) { return struct{ Foo int }{2}, nil })
		treadle.AddNode(b, "node_2", func(context.Context, state) (struct{ Bar []string }, error) {
			return struct{ Bar []string }{[]string{"bye"}}, nil
		})
		b.Sequence(start, "node_1", "node_2")
		return b.Compile(o)
	},
	"a03_add_reducer": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Foo int                 `json:"foo"`
			Bar reduce.List[string] `json:"bar"`
		}
		type bar struct{ Bar reduce.List[string] }
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "node_1", func(context.Context, state) (struct{ Foo int }, error) { return struct{ Foo int }{2}, nil })
		treadle.AddNode(b, "node_2", func(context.Context, state) (bar, error) { return bar{reduce.List[string]{"bye"}}, nil })
		b.Sequence(start, "node_1", "node_2")
		return b.Compile(o)
	},
	"a06_untyped_state": graphOf(func(b *treadle.Builder[map[string]any]) {
		treadle.ContextType[map[string]any](b)
		treadle.AddNode(b, "my_node", func(ctx context.Context, s map[string]any) (map[string]any, error) {
			c, _ := treadle.ContextFrom[map[string]any](ctx)
			return map[string]any{"results": fmt.Sprintf("Hello, %s!", s["input"]), "user": c["user_id"]}, nil
		})
		treadle.AddNode(b, "other_node", func(_ context.Context, s map[string]any) (map[string]any, error) { return s, nil })
		b.Sequence(start, "my_node", "other_node", end)
	}),
	"a07_named_after_function": increment("my_node"),
	"a07_named_explicitly":     increment("my_fair_node"),
	"a08_plain_edges": graphOf(func(b *treadle.Builder[trailState]) {
		visits(b, "node_a", "node_b")
		b.Sequence(start, "node_a", "node_b", end)
	}),
	"a08_conditional": graphOf(func(b *treadle.Builder[trailState]) {
		visits(b, "node_a", "node_b", "node_c")
		b.Edge(start, "node_a")
		treadle.AddBranch(b, "node_a", byOK)
	}),
	"a08_conditional_map": graphOf(func(b *treadle.Builder[trailState]) {
		visits(b, "node_a", "node_b", "node_c")
		b.Edge(start, "node_a")
		treadle.AddBranch(b, "node_a", byOK, okLabels...)
	}),
	"a08_conditional_entry": graphOf(func(b *treadle.Builder[trailState]) {
		visits(b, "node_b", "node_c")
		treadle.AddBranch(b, start, byOK)
	}),
	"a08_conditional_entry_map": graphOf(func(b *treadle.Builder[trailState]) {
		visits(b, "node_b", "node_c")
		treadle.AddBranch(b, start, byOK, okLabels...)
	}),
	"a09_send_jokes": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Subjects []string            `json:"subjects"`
			Jokes    reduce.List[string] `json:"jokes"`
		}
		type subject struct {
			Subject string `json:"subject"`
		}
		type joke struct{ Jokes reduce.List[string] }
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "node_a", silent[state])
		generate := treadle.AddNode(b, "generate_joke", func(_ context.Context, s subject) (joke, error) {
			return joke{reduce.List[string]{"Joke about " + s.Subject}}, nil
		})
		b.Edge(start, "node_a")
		treadle.AddBranch(b, "node_a", func(_ context.Context, s state) (g treadle.Goto, err error) {
			g = treadle.Goto{} // nothing to send is nowhere to go, not an oversight
			for _, name := range s.Subjects {
				g = append(g, treadle.Send(generate, subject{name})...)
			}
			return g, nil
		})
		return b.Compile(o)
	},
	"a10_command": graphOf(func(b *treadle.Builder[fooState]) {
		treadle.AddNode(b, "my_node", func(context.Context, fooState) (treadle.Command[fooState], error) {
			return treadle.Command[fooState]{Update: &fooState{"bar"}, Goto: treadle.To("my_other_node")}, nil
		}, treadle.Destinations("my_other_node"))
		treadle.AddNode(b, "my_other_node", exclaim)
		b.Edge(start, "my_node")
	}),
	"a10_command_conditional": graphOf(func(b *treadle.Builder[fooState]) {
		treadle.AddNode(b, "my_node", func(_ context.Context, s fooState) (c treadle.Command[fooState], err error) {
			if s.Foo == "bar" {
				c = treadle.Command[fooState]{Update: &fooState{"baz"}, Goto: treadle.To("my_other_node")}
			}
			return c, nil
		}, treadle.Destinations("my_other_node"))
		treadle.AddNode(b, "my_other_node", exclaim)
		b.Edge(start, "my_node")
	}),
	"a11_context": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Answer string `json:"answer"`
		}
		type settings struct {
			LLM string `json:"llm"`
		}
		b := treadle.New[state](graphName)
		treadle.ContextType[settings](b)
		treadle.AddNode(b, "node_a", func(ctx context.Context, _ state) (state, error) {
			if c, ok := treadle.ContextFrom[settings](ctx); ok {
				return state{c.LLM}, nil
			}
			return state{"openai"}, nil
		})
		b.Edge(start, "node_a")
		return b.Compile(o)
	},
	"a13_subgraph_node": graphOf(func(b *treadle.Builder[fooState]) {
		treadle.AddGraph(b, "subgraph", child(func(b *treadle.Builder[fooBar]) {
			treadle.AddNode(b, "subgraph_node", func(_ context.Context, s fooBar) (fooBar, error) {
				return fooBar{s.Foo + "bar", "kept in the child"}, nil
			})
			b.Edge(start, "subgraph_node")
		}))
		b.Edge(start, "subgraph")
	}),
	"a14_subgraph_call": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Bar string `json:"bar"`
			Baz string `json:"baz"`
		}
		inner := child(func(b *treadle.Builder[state]) {
			treadle.AddNode(b, "subgraph_node", func(_ context.Context, s state) (struct{ Bar string }, error) {
				return struct{ Bar string }{s.Bar + "baz"}, nil
			})
			b.Edge(start, "subgraph_node")
		})
		b := treadle.New[fooState](graphName)
		treadle.AddNode(b, "node", func(ctx context.Context, s fooState) (fooState, error) {
			out, err := inner.Run(ctx, state{Bar: s.Foo})
			return fooState{out.Bar}, err
		}, treadle.Uses(inner))
		b.Edge(start, "node")
		return b.Compile(o)
	},
	"a15_keep_range": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			MyList windowed `json:"my_list"`
		}
		type out struct{ MyList any }
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "my_node", func(context.Context, state) (out, error) { return out{keepRange{Type: "keep", From: -5}}, nil })
		treadle.AddNode(b, "more", func(context.Context, state) (out, error) { return out{[]any{"x"}}, nil })
		b.Sequence(start, "my_node", "more")
		return b.Compile(o)
	},
	"a16_logistic_map": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			X series `json:"x"`
		}
		type settings struct {
			R     *float64 `json:"r"`
			Other int      `json:"other"` // given in one run and read by nobody
		}
		type out struct{ X float64 }
		b := treadle.New[state](graphName)
		treadle.ContextType[settings](b)
		treadle.AddNode(b, "A", func(ctx context.Context, s state) (out, error) {
			c, ok := treadle.ContextFrom[settings](ctx)
			if !ok {
				return out{}, &raised{text: "NoneType' object has no attribute 'get"}
			}
			r, last := 1.0, s.X[len(s.X)-1]
			if c.R != nil {
				r = *c.R
			}
			return out{last * r * (1 - last)}, nil
		})
		b.Sequence(start, "A", end)
		return b.Compile(o)
	},
	"a17_join": graphOf(func(b *treadle.Builder[trailState]) {
		visits(b, "a", "b", "c")
		edges(b, [2]string{start, "a"}, [2]string{start, "b"}, [2]string{"c", end})
		b.Join([]any{"a", "b"}, "c")
	}),
	"a17_sequence": graphOf(func(b *treadle.Builder[trailState]) {
		visits(b, "one", "second", "three")
		b.Sequence(start, "one", "second", "three")
	}),
	"a17_sequence_empty": graphOf(func(b *treadle.Builder[trailState]) { b.Sequence() }),
	"a17_sequence_duplicate": graphOf(func(b *treadle.Builder[trailState]) {
		visits(b, "one")
		b.Edge(start, "one")
		b.Sequence("one", "one")
	}),
	"a18_handoff_self": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			N     int                 `json:"n"`
			Trail reduce.List[string] `json:"trail"`
		}
		type out struct {
			N     int
			Trail reduce.List[string]
		}
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "agent", func(_ context.Context, s state) (treadle.Command[out], error) {
			next := "another_agent"
			if s.N < 2 {
				next = "agent"
			}
			return treadle.Command[out]{Update: &out{s.N + 1, reduce.List[string]{"agent"}}, Goto: treadle.To(next)}, nil
		}, treadle.Destinations("agent", "another_agent"))
		treadle.AddNode(b, "another_agent", visit[state]("another_agent"))
		b.Edge(start, "agent")
		return b.Compile(o)
	},
	"a18_parent_handoff": graphOf(func(b *treadle.Builder[keyState]) {
		treadle.AddGraph(b, "alice", alice())
		treadle.AddNode(b, "bob", bob)
		b.Edge(start, "alice")
	}),
	"a18_parent_handoff_drawn": graphOf(func(b *treadle.Builder[keyState]) {
		inner := alice()
		treadle.AddNode(b, "alice", inner.Run, treadle.Destinations("bob"), treadle.Uses(inner))
		treadle.AddNode(b, "bob", bob)
		b.Edge(start, "alice")
	}),
	"a19_jokes": graphOf(func(b *treadle.Builder[jokeState]) {
		treadle.AddNode(b, "refine_topic", func(_ context.Context, s jokeState) (topicOf, error) { return topicOf{s.Topic + " and cats"}, nil })
		treadle.AddNode(b, "generate_joke", func(_ context.Context, s jokeState) (jokeOf, error) {
			return jokeOf{"This is a joke about " + s.Topic}, nil
		})
		b.Sequence(start, "refine_topic", "generate_joke", end)
	}),
	"a22_subgraph_stream": graphOf(func(b *treadle.Builder[fooState]) {
		treadle.AddNode(b, "node_1", func(_ context.Context, s fooState) (fooState, error) { return fooState{"hi! " + s.Foo}, nil })
		treadle.AddGraph(b, "node_2", child(func(b *treadle.Builder[fooBar]) {
			treadle.AddNode(b, "subgraph_node_1", func(context.Context, fooBar) (struct{ Bar string }, error) {
				return struct{ Bar string }{"bar"}, nil
			})
			treadle.AddNode(b, "subgraph_node_2", func(_ context.Context, s fooBar) (fooState, error) { return fooState{s.Foo + s.Bar}, nil })
			b.Sequence(start, "subgraph_node_1", "subgraph_node_2")
		}))
		b.Sequence(start, "node_1", "node_2")
	}),
	"a24_custom": graphOf(func(b *treadle.Builder[queryState]) {
		treadle.AddNode(b, "node", func(ctx context.Context, _ queryState) (struct{ Answer string }, error) {
			treadle.Emit(ctx, map[string]any{"custom_key": "Generating custom data inside node"})
			return struct{ Answer string }{"some data"}, nil
		})
		b.Edge(start, "node")
	}),
	"a24_custom_writer_parameter": graphOf(func(b *treadle.Builder[queryState]) {
		treadle.AddNode(b, "generate", func(ctx context.Context, _ queryState) (struct{ Answer string }, error) {
			treadle.Emit(ctx, map[string]any{"custom_key": "one"})
			treadle.Emit(ctx, "two")
			return struct{ Answer string }{"some data"}, nil
		})
		b.Edge(start, "generate")
	}),
	"a25_any_client": func(o *treadle.Options) (treadle.AnyGraph, error) {
		type state struct {
			Topic  string `json:"topic"`
			Result string `json:"result"`
		}
		b := treadle.New[state](graphName)
		treadle.AddNode(b, "call_arbitrary_model", func(ctx context.Context, s state) (struct{ Result string }, error) {
			for _, piece := range []string{"About ", s.Topic, "."} {
				treadle.Emit(ctx, map[string]any{"custom_llm_chunk": piece})
			}
			return struct{ Result string }{"completed"}, nil
		})
		b.Edge(start, "call_arbitrary_model")
		return b.Compile(o)
	},
}

func exclaim(_ context.Context, s fooState) (fooState, error) { return fooState{s.Foo + "!"}, nil }

func increment(node string) build {
	type state struct {
		X int `json:"x"`
	}
	return graphOf(func(b *treadle.Builder[state]) {
		treadle.AddNode(b, node, func(_ context.Context, s state) (state, error) { return state{s.X + 1}, nil })
		b.Edge(start, node)
	})
}
