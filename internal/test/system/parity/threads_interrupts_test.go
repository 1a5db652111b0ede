package parity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// item is what workers are sent.
type item struct {
	N int `json:"n"`
}

// itemLog is the state of a graph that is sent items.
type itemLog struct {
	N   int                 `json:"n"`
	Log reduce.List[string] `json:"log"`
}

// person is a state of which parts may be known.
type person struct {
	Log  reduce.List[string] `json:"log"`
	Name string              `json:"name,omitempty"`
	Age  string              `json:"age,omitempty"`
}

// sendAll sends the items from 1 to n.
func sendAll[S any](n int, node treadle.Node[item]) func(context.Context, S) (treadle.Goto, error) {
	var items []item
	for i := range n {
		items = append(items, item{i + 1})
	}
	return func(context.Context, S) (treadle.Goto, error) { return treadle.SendEach(node, items), nil }
}

// callsText returns a node that runs a graph on texts and joins what it gives.
func callsText(tr *trace, name string, g *treadle.Graph[textState, textState], result func(ctx context.Context, text string, run func(string) (string, error)) (string, error)) step[textState] {
	return stepOf(name, func(ctx context.Context, s textState) (textState, error) {
		tr.enter(name)
		out, err := result(ctx, s.Text, func(text string) (string, error) {
			out, err := g.Run(ctx, textState{text})
			return out.Text, err
		})
		return textState{out}, err
	}, treadle.Uses(g))
}

var interruptScripts = map[string]scriptedGraph{
	"interrupt_single":  line(aAskB),
	"interrupt_streams": line(func(tr *trace) []step[logState] { return []step[logState]{tr.logs("a"), tr.asks("ask")} }),
	"interrupt_two_in_node": line(func(tr *trace) []step[logState] {
		return []step[logState]{stepOf("ask", func(ctx context.Context, _ logState) (entries, error) {
			tr.enter("ask")
			a, err := ask(ctx, "first?")
			if err != nil {
				return entries{}, err
			}
			b, err := ask(ctx, "second?")
			return logged(fmt.Sprintf("%v+%v", a, b)), err
		})}
	}),
	"interrupt_falsy_answers": line(func(tr *trace) []step[logState] {
		return []step[logState]{stepOf("ask", func(ctx context.Context, _ logState) (entries, error) {
			tr.enter("ask")
			var all []string
			for n := 1; n <= 4; n++ {
				answer, err := ask(ctx, fmt.Sprint(n))
				if err != nil {
					return entries{}, err
				}
				raw, err := json.Marshal(answer)
				if err != nil {
					return entries{}, err
				}
				all = append(all, string(raw))
			}
			return logged(strings.Join(all, " ")), nil
		})}
	}),
	"interrupt_null_answer":         line(func(tr *trace) []step[logState] { return []step[logState]{tr.asks("ask")} }),
	"interrupt_parallel":            pair(bothAsk),
	"interrupt_parallel_one_by_one": pair(bothAsk),
	"interrupt_unknown_id":          line(func(tr *trace) []step[logState] { return []step[logState]{tr.asks("ask")} }),
	"interrupt_sibling_done":        pair(func(tr *trace) (first, second step[logState]) { return tr.logs("p"), tr.asks("q") }),
	"interrupt_sibling_fails": pair(func(tr *trace) (first, second step[logState]) {
		return tr.asks("p"), tr.failsUntil("q", 2, "p")
	}),
	"interrupt_sends": threadOf(func(tr *trace, b *treadle.Builder[logState]) {
		w := treadle.AddNode(b, "w", func(ctx context.Context, i item) (entries, error) {
			name := fmt.Sprintf("w%d", i.N)
			tr.enter(name)
			answer, err := ask(ctx, name+"?")
			return logged(fmt.Sprintf("%s:%v", name, answer)), err
		})
		treadle.AddBranch(b, start, sendAll[logState](5, w), "w")
	}),
	"interrupt_sends_subgraph": threadOf(func(tr *trace, b *treadle.Builder[logState]) {
		c := treadle.New[itemLog](graphName)
		treadle.AddNode(c, "prep", func(_ context.Context, s itemLog) (entries, error) {
			tr.enter(fmt.Sprintf("prep%d", s.N))
			return logged(fmt.Sprintf("prep%d", s.N)), nil
		})
		treadle.AddNode(c, "ask", func(ctx context.Context, s itemLog) (entries, error) {
			tr.enter(fmt.Sprintf("ask%d", s.N))
			answer, err := ask(ctx, fmt.Sprintf("sub%d?", s.N))
			return logged(fmt.Sprintf("ask%d:%v", s.N, answer)), err
		})
		c.Sequence(start, "prep", "ask")
		sub := treadle.AddGraph(b, "sub", treadle.Must(treadle.Compile[item, logState](c, nil)))
		treadle.AddBranch(b, start, sendAll[logState](5, sub), "sub")
	}),
	"interrupt_nested": textLine(func(tr *trace) []step[textState] {
		return []step[textState]{tr.texts("a"), sub("sub", nest(tr.texts("c"), tr.textAsks("ask"), tr.texts("d"))), tr.texts("b")}
	}),
	"interrupt_nested_deep": textLine(func(tr *trace) []step[textState] {
		inner := nest(tr.texts("c"), tr.textAsks("ask"))
		return []step[textState]{tr.texts("a"), sub("middle", nest(tr.texts("m"), sub("inner", inner), tr.texts("n")))}
	}),
	"interrupt_nested_twice": textLine(func(tr *trace) []step[textState] {
		return []step[textState]{sub("sub", nest(tr.textAsks("ask1"), tr.textAsks("ask2")))}
	}),
	"interrupt_called": textLine(func(tr *trace) []step[textState] {
		return []step[textState]{callsText(tr, "caller", nest(tr.texts("c"), tr.textAsks("ask")), func(_ context.Context, text string, run func(string) (string, error)) (string, error) {
			out, err := run(text)
			return out + " done", err
		})}
	}),
	"interrupt_called_twice": textLine(func(tr *trace) []step[textState] {
		return []step[textState]{callsText(tr, "caller", nest(tr.textAsks("ask")), func(_ context.Context, _ string, run func(string) (string, error)) (string, error) {
			x, err := run("x")
			if err != nil {
				return "", err
			}
			y, err := run("y")
			return x + "+" + y, err
		})}
	}),
	"interrupt_nested_sibling": func(tr *trace, o *treadle.Options) (played, error) {
		type parent struct {
			Log  reduce.List[string] `json:"log"`
			Text string              `json:"text"`
		}
		c := treadle.New[logState](graphName)
		for _, s := range []step[logState]{tr.logs("done"), tr.asks("ask")} {
			s.add(c, s.name)
			c.Edge(start, s.name)
		}
		b := treadle.New[parent](graphName)
		treadle.AddGraph(b, "sub", treadle.Must(treadle.Compile[unused, logState](c, nil)))
		b.Edge(start, "sub")
		return playing(b.Compile(o))
	},
	"interrupt_resume_update": threadOf(func(tr *trace, b *treadle.Builder[person]) {
		treadle.AddNode(b, "a", tracedLog[person](tr, "a"))
		treadle.AddNode(b, "ask", func(ctx context.Context, s person) (entries, error) {
			tr.enter("ask")
			answer, err := ask(ctx, "ask?")
			if s.Name == "" {
				s.Name = "-"
			}
			return logged(fmt.Sprintf("ask:%v:%s", answer, s.Name)), err
		})
		treadle.AddNode(b, "b", tracedLog[person](tr, "b"))
		b.Sequence(start, "a", "ask", "b")
	}),
	"interrupt_resume_goto": line(func(tr *trace) []step[logState] { return append(aAskB(tr), tr.logs("c")) }),
	"interrupt_command":     line(aAskB),
	"interrupt_order_changed": threadOf(func(tr *trace, b *treadle.Builder[person]) {
		type known struct{ Name, Age string }
		treadle.AddNode(b, "human", func(ctx context.Context, s person) (known, error) {
			tr.enter("human")
			out := known{"N/A", "N/A"}
			for _, part := range []struct {
				have, question string
				to             *string
			}{{s.Name, "what is your name?", &out.Name}, {s.Age, "what is your age?", &out.Age}} {
				if part.have != "" {
					continue
				}
				answer, err := treadle.Interrupt[string](ctx, part.question)
				if err != nil {
					return known{}, err
				}
				*part.to = answer
			}
			return out, nil
		})
		b.Edge(start, "human")
	}),
	"interrupt_new_input":    line(aAskB),
	"interrupt_continue":     line(func(tr *trace) []step[logState] { return aAskB(tr)[:2] }),
	"interrupt_update_state": line(aAskB),
	"interrupt_skip":         line(aAskB),
	"interrupt_then_fails": line(func(tr *trace) []step[logState] {
		tries := 0
		return []step[logState]{stepOf("ask", func(ctx context.Context, _ logState) (entries, error) {
			tr.enter("ask")
			answer, err := ask(ctx, "ask?")
			if err != nil {
				return entries{}, err
			}
			if tries++; tries < 2 {
				return entries{}, &raised{text: "not yet"}
			}
			return logged(fmt.Sprintf("ask:%v", answer)), nil
		})}
	}),
	"interrupt_loop": threadOf(func(tr *trace, b *treadle.Builder[logState]) {
		s := tr.asks("ask")
		s.add(b, s.name)
		b.Edge(start, "ask")
		treadle.AddBranch(b, "ask", func(_ context.Context, s logState) (treadle.Goto, error) {
			if s.Log[len(s.Log)-1] == "ask:more" {
				return treadle.To("ask"), nil
			}
			return treadle.To(end), nil
		}, "ask", end)
	}),
	"interrupt_goto": threadOf(func(tr *trace, b *treadle.Builder[logState]) {
		treadle.AddNode(b, "ask", func(ctx context.Context, _ logState) (treadle.Command[entries], error) {
			tr.enter("ask")
			to, err := treadle.Interrupt[string](ctx, "where?")
			return command("ask", treadle.To(to)), err
		}, treadle.Destinations("a", "b"))
		for _, s := range []step[logState]{tr.logs("a"), tr.logs("b")} {
			s.add(b, s.name)
		}
		b.Edge(start, "ask")
	}),
	"interrupt_object": line(func(tr *trace) []step[logState] {
		return []step[logState]{stepOf("ask", func(ctx context.Context, s logState) (entries, error) {
			tr.enter("ask")
			edited, err := treadle.Interrupt[struct {
				Text string `json:"edited_text"`
				N    []int  `json:"n"`
			}](ctx, map[string]any{"task": "review", "entries": s.Log})
			return logged(edited.Text), err
		})}
	}),
	"interrupt_deferred": threadOf(func(tr *trace, b *treadle.Builder[logState]) {
		for _, s := range []step[logState]{tr.logs("p"), tr.asks("ask")} {
			s.add(b, s.name)
			b.Edge(start, s.name)
		}
		treadle.AddNode(b, "last", tracedLog[logState](tr, "last"), treadle.Defer())
		b.Edge("p", "last")
	}),
}

func bothAsk(tr *trace) (first, second step[logState]) { return tr.asks("p"), tr.asks("q") }

// tracedLog returns a node function that appends its name to the log.
func tracedLog[S any](tr *trace, name string) func(context.Context, S) (entries, error) {
	return func(context.Context, S) (entries, error) {
		tr.enter(name)
		return logged(name), nil
	}
}
