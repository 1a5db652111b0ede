package parity_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

type fooBars struct {
	Foo string              `json:"foo"`
	Bar reduce.List[string] `json:"bar"`
}

// fooBarLine is the graph of the persistence samples.
var fooBarLine = threadOf(func(tr *trace, b *treadle.Builder[fooBars]) {
	type written struct {
		Foo string
		Bar reduce.List[string]
	}
	writes := func(name, letter string) step[fooBars] {
		return stepOf(name, func(context.Context, fooBars) (written, error) {
			tr.enter(name)
			return written{letter, reduce.List[string]{letter}}, nil
		})
	}
	in(b, writes("node_a", "a"), writes("node_b", "b"))
})

var sampleScripts = map[string]scriptedGraph{
	"b01_checkpoints":     fooBarLine,
	"b04_update_reducers": fooBarLine,
	"b05_fork":            fooBarLine,
	"b07_conditional": func(tr *trace, o *treadle.Options) (played, error) {
		type state struct {
			Input string `json:"input"`
		}
		b := treadle.New[state](graphName)
		in(b,
			stepOf("first", func(context.Context, state) (nothing, error) { tr.enter("first"); return nothing{}, nil }),
			stepOf("my_node", func(ctx context.Context, s state) (state, error) {
				tr.enter("my_node")
				if len(s.Input) > 5 {
					if _, err := ask(ctx, "longer than 5: "+s.Input); err != nil {
						return s, err
					}
				}
				return s, nil
			}),
			stepOf("last", func(_ context.Context, s state) (state, error) { tr.enter("last"); return state{s.Input + "!"}, nil }))
		return playing(b.Compile(o))
	},
	"b08_interrupt": func(tr *trace, o *treadle.Options) (played, error) {
		type state struct {
			Text string `json:"some_text"`
		}
		b := treadle.New[state](graphName)
		in(b, stepOf("human_node", func(ctx context.Context, s state) (state, error) {
			tr.enter("human_node")
			text, err := treadle.Interrupt[string](ctx, map[string]string{"text_to_revise": s.Text})
			return state{text}, err
		}))
		return playing(b.Compile(o))
	},
	"b09_approval": threadOf(func(tr *trace, b *treadle.Builder[logState]) {
		treadle.AddNode(b, "human_approval", func(ctx context.Context, s logState) (treadle.Goto, error) {
			tr.enter("human_approval")
			ok, err := treadle.Interrupt[bool](ctx, map[string]string{"question": "Is this correct?", "output": s.Log[len(s.Log)-1]})
			if ok {
				return treadle.To("some_node"), err
			}
			return treadle.To("another_node"), err
		}, treadle.Destinations("some_node", "another_node"))
		for _, s := range letters("some_node", "another_node")(tr) {
			s.add(b, s.name)
		}
		b.Edge(start, "human_approval")
	}),
	"b11_review": threadOf(func(tr *trace, b *treadle.Builder[logState]) {
		says := func(name, entry string) {
			treadle.AddNode(b, name, func(context.Context, logState) (entries, error) {
				tr.enter(name)
				return logged(entry), nil
			})
		}
		says("call_llm", "call")
		treadle.AddNode(b, "review", func(ctx context.Context, s logState) (c treadle.Command[entries], err error) {
			tr.enter("review")
			answer, err := treadle.Interrupt[[]*string](ctx, map[string]string{"question": "Is this correct?", "tool_call": s.Log[len(s.Log)-1]})
			if err != nil {
				return c, err
			}
			switch *answer[0] {
			case "continue":
				return treadle.Command[entries]{Goto: treadle.To("run_tool")}, nil
			case "update":
				return command(*answer[1], treadle.To("run_tool")), nil
			}
			return command(*answer[1], treadle.To("call_llm")), nil
		}, treadle.Destinations("call_llm", "run_tool"))
		says("run_tool", "tool")
		b.Sequence(start, "call_llm", "review")
	}),
	"b12_human_node": func(tr *trace, o *treadle.Options) (played, error) {
		type state struct {
			Log    reduce.List[string] `json:"log"`
			Active string              `json:"active,omitempty"`
		}
		type written struct {
			Log    reduce.List[string]
			Active string
		}
		b := treadle.New[state](graphName)
		for _, name := range []string{"agent_1", "agent_2"} {
			treadle.AddNode(b, name, func(_ context.Context, s state) (written, error) {
				tr.enter(name)
				return written{reduce.List[string]{name + ": " + s.Log[len(s.Log)-1]}, name}, nil
			})
			b.Edge(name, "human")
		}
		treadle.AddNode(b, "human", func(ctx context.Context, s state) (treadle.Command[entries], error) {
			tr.enter("human")
			text, err := treadle.Interrupt[string](ctx, "Ready for user input.")
			if text == "to agent_2" {
				s.Active = "agent_2"
			}
			return command(text, treadle.To(s.Active)), err
		}, treadle.Destinations("agent_1", "agent_2"))
		b.Edge(start, "agent_1")
		return playing(b.Compile(o))
	},
	"b13_validation": func(tr *trace, o *treadle.Options) (played, error) {
		type state struct {
			Age int `json:"age"`
		}
		b := treadle.New[state](graphName)
		in(b, stepOf("human", func(ctx context.Context, _ state) (state, error) {
			tr.enter("human")
			question := "What is your age?"
			for {
				answer, err := ask(ctx, question)
				if err != nil {
					return state{}, err
				}
				if age, ok := answer.(float64); ok && age >= 0 {
					return state{int(age)}, nil
				}
				question = fmt.Sprintf("'%v' is not a valid age. What is your age?", answer)
			}
		}))
		return playing(b.Compile(o))
	},
	"b15_state": threadOf(func(tr *trace, b *treadle.Builder[fooBars]) {
		in(b, stepOf("node_foo", func(ctx context.Context, _ fooBars) (struct{ Foo string }, error) {
			tr.enter("node_foo")
			answer, err := treadle.Interrupt[map[string]string](ctx, "value_in_interrupt")
			return struct{ Foo string }{"aged " + answer["age"]}, err
		}))
	}),
	"b17_side_effects": line(func(tr *trace) []step[logState] {
		return []step[logState]{
			stepOf("human", func(ctx context.Context, _ logState) (entries, error) {
				tr.enter("before")
				answer, err := treadle.Interrupt[string](ctx, "question")
				if err != nil {
					return entries{}, err
				}
				tr.enter("after")
				return logged(answer), nil
			}),
			stepOf("api", func(context.Context, logState) (entries, error) {
				tr.enter("separate")
				return logged("api"), nil
			}),
		}
	}),
	"b18_called_counters": func(tr *trace, o *treadle.Options) (played, error) {
		type state struct {
			Counter int `json:"state_counter"`
		}
		inner := child(func(b *treadle.Builder[state]) {
			in(b,
				stepOf("some_node", func(context.Context, state) (nothing, error) { tr.enter("some_node"); return nothing{}, nil }),
				stepOf("human_node", func(ctx context.Context, _ state) (nothing, error) {
					tr.enter("human_node")
					_, err := ask(ctx, "what is your name?")
					return nothing{}, err
				}))
		})
		b := treadle.New[state](graphName)
		in(b, stepOf("parent_node", func(ctx context.Context, s state) (state, error) {
			tr.enter("parent_node")
			return inner.Run(ctx, s)
		}, treadle.Uses(inner)))
		return playing(b.Compile(o))
	},
}
