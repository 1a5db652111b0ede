package parity_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
)

// stops sets breakpoints of every run.
func stops(before, after []string) func(o *treadle.Options) {
	return func(o *treadle.Options) { o.Before, o.After = treadle.Nodes(before), treadle.Nodes(after) }
}

var breakScripts = map[string]scriptedGraph{
	"break_before":  lineWith(letters("a", "b", "c"), stops([]string{"b"}, nil)),
	"break_after":   lineWith(letters("a", "b", "c"), stops(nil, []string{"b"})),
	"break_both":    lineWith(letters("a", "b", "c"), stops([]string{"a"}, []string{"b", "c"})),
	"break_per_run": line(letters("a", "b", "c")),
	"break_update":  lineWith(letters("a", "b", "c"), stops([]string{"b"}, nil)),
	"break_loop": threadWith(func(tr *trace, b *treadle.Builder[number]) {
		treadle.AddNode(b, "inc", func(_ context.Context, s number) (number, error) {
			tr.enter("inc")
			return number{s.N + 1}, nil
		})
		b.Edge(start, "inc")
		treadle.AddBranch(b, "inc", func(_ context.Context, s number) (treadle.Goto, error) {
			if s.N < 3 {
				return treadle.To("inc"), nil
			}
			return treadle.To(end), nil
		}, "inc", end)
	}, stops([]string{"inc"}, nil)),
	"break_parallel":  pairWith(bothLog, stops([]string{"q"}, []string{"p"})),
	"break_new_input": lineWith(letters("a", "b"), stops([]string{"b"}, nil)),
	"break_nested": textLine(func(tr *trace) []step[textState] {
		c := treadle.New[textState](graphName)
		in(c, tr.texts("c"), tr.texts("d"))
		return []step[textState]{tr.texts("a"), sub("sub", treadle.Must(c.Compile(&treadle.Options{Before: []any{"d"}}))), tr.texts("b")}
	}),
	"break_goto": lineWith(letters("a", "b", "c"), stops([]string{"b"}, nil)),
	"fail_continue": line(func(tr *trace) []step[logState] {
		return []step[logState]{tr.logs("a"), tr.failsUntil("bad", 3), tr.logs("b")}
	}),
	"fail_sibling": pair(func(tr *trace) (first, second step[logState]) { return tr.logs("p"), tr.failsUntil("q", 2, "p") }),
	"fail_sibling_update": pair(func(tr *trace) (first, second step[logState]) {
		return tr.logs("p"), tr.failsUntil("q", 9, "p")
	}),
	"fail_new_input": line(func(tr *trace) []step[logState] { return []step[logState]{tr.logs("a"), tr.failsUntil("bad", 2)} }),
	"fail_nested": textLine(func(tr *trace) []step[textState] {
		tries := 0
		bad := stepOf("bad", func(_ context.Context, s textState) (textState, error) {
			tr.enter("bad")
			if tries++; tries < 2 {
				return textState{}, &raised{text: "bad failed"}
			}
			return textState{s.Text + " bad"}, nil
		})
		return []step[textState]{tr.texts("a"), sub("sub", nest(tr.texts("c"), bad, tr.texts("d"))), tr.texts("b")}
	}),
	"fail_sends": threadOf(func(tr *trace, b *treadle.Builder[logState]) {
		tries := 0
		w := treadle.AddNode(b, "w", func(_ context.Context, i item) (entries, error) {
			name := fmt.Sprintf("w%d", i.N)
			tr.enter(name)
			if i.N == 2 {
				tr.wait("w1")
				tr.wait("w3")
				if tries++; tries < 2 {
					return entries{}, &raised{text: "no luck"}
				}
			}
			tr.done(name)
			return logged(name), nil
		})
		treadle.AddBranch(b, start, sendAll[logState](3, w), "w")
	}),
	"fail_branch": threadOf(func(tr *trace, b *treadle.Builder[logState]) {
		tries := 0
		for _, s := range []step[logState]{tr.logs("a"), tr.logs("b")} {
			s.add(b, s.name)
		}
		b.Edge(start, "a")
		treadle.AddBranch(b, "a", func(context.Context, logState) (treadle.Goto, error) {
			if tries++; tries < 2 {
				return nil, &raised{text: "no way"}
			}
			return treadle.To("b"), nil
		}, "b")
	}),
	"fail_conflict": threadOf(func(tr *trace, b *treadle.Builder[number]) {
		for i, name := range []string{"p", "q"} {
			treadle.AddNode(b, name, func(context.Context, number) (treadle.Update, error) {
				tr.enter(name)
				return treadle.Update{"n": i + 1}, nil
			})
			b.Edge(start, name)
		}
	}),
	"limit_continue": line(letters("a", "b", "c", "d")),
	"join_turns": threadWith(func(tr *trace, b *treadle.Builder[logState]) {
		for _, s := range letters("p", "q", "q2", "end")(tr) {
			s.add(b, s.name)
		}
		edges(b, [2]string{start, "p"}, [2]string{start, "q"}, [2]string{"q", "q2"})
		b.Join([]any{"p", "q2"}, "end")
	}, stops([]string{"q2"}, nil)),
	"no_thread": line(letters("a", "b")),
}

func bothLog(tr *trace) (first, second step[logState]) { return tr.logs("p"), tr.logs("q") }
