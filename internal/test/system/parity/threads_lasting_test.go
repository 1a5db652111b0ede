package parity_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// countState is what a counting child keeps: how often it ran and what it saw.
type countState struct {
	Text string              `json:"text"`
	N    reduce.Sum[int]     `json:"n"`
	Seen reduce.List[string] `json:"seen"`
}

// counter returns the counting child; it may ask before it tells.
func counter(tr *trace, asks bool) *treadle.Graph[textState, textState] {
	b := treadle.New[countState](graphName)
	type noted struct {
		N    reduce.Sum[int]
		Seen reduce.List[string]
	}
	treadle.AddNode(b, "note", func(_ context.Context, s countState) (noted, error) {
		tr.enter("note")
		return noted{reduce.SumOf(1), reduce.List[string]{s.Text}}, nil
	})
	treadle.AddNode(b, "tell", func(ctx context.Context, s countState) (textState, error) {
		tr.enter("tell")
		text := fmt.Sprintf("%v %s", s.N, strings.Join(s.Seen, ","))
		if asks {
			answer, err := ask(ctx, "go on?")
			if err != nil {
				return textState{}, err
			}
			text += fmt.Sprintf(" %v", answer)
		}
		return textState{text}, nil
	})
	b.Sequence(start, "note", "tell")
	return treadle.Must(treadle.Compile[textState, textState](b, nil))
}

// counting returns a graph whose only node is a counting child.
func counting(asks bool, opts ...treadle.NodeOption) scriptedGraph {
	return textLine(func(tr *trace) []step[textState] {
		return []step[textState]{sub("sub", counter(tr, asks), opts...)}
	})
}

// mentions returns a node that logs its name and a word, or "-".
func mentions[S any](tr *trace, name string, word func(S) string) step[S] {
	return stepOf(name, func(_ context.Context, s S) (entries, error) {
		tr.enter(name)
		w := word(s)
		if w == "" {
			w = "-"
		}
		return logged(name + " " + w), nil
	})
}

type topicLog struct {
	Log   reduce.List[string] `json:"log"`
	Topic string              `json:"topic,omitempty"`
}

type scratchLog struct {
	Log     reduce.List[string] `json:"log"`
	Scratch string              `json:"scratch,omitempty" treadle:"untracked"`
}

type hintLog struct {
	Log  reduce.List[string] `json:"log"`
	Hint string              `json:"hint,omitempty" treadle:"ephemeral"`
}

var lastingScripts = map[string]scriptedGraph{
	"conversation": threadOf(func(tr *trace, b *treadle.Builder[topicLog]) {
		in(b, stepOf("reply", func(_ context.Context, s topicLog) (entries, error) {
			tr.enter("reply")
			return logged(fmt.Sprintf("%s %d", s.Topic, len(s.Log))), nil
		}))
	}),
	"nested_turns":         counting(false),
	"nested_turns_lasting": counting(false, treadle.PerThread()),
	"nested_turns_called": textLine(func(tr *trace) []step[textState] {
		lasting := counter(tr, false).With(treadle.PerThread())
		return []step[textState]{callsText(tr, "caller", lasting, func(_ context.Context, text string, run func(string) (string, error)) (string, error) {
			return run(text)
		})}
	}),
	"nested_turns_unsaved":     counting(false, treadle.NoCheckpoints()),
	"nested_lasting_interrupt": counting(true, treadle.PerThread()),
	"nested_interrupt_turns":   counting(true),
	"nested_lasting_replay":    counting(false, treadle.PerThread()),
	"nested_two_lasting": textLine(func(tr *trace) []step[textState] {
		return []step[textState]{sub("one", counter(tr, false), treadle.PerThread()), sub("two", counter(tr, false), treadle.PerThread())}
	}),
	"nested_loop": threadOf(func(tr *trace, b *treadle.Builder[textState]) {
		treadle.AddGraph(b, "sub", counter(tr, false), treadle.PerThread())
		b.Edge(start, "sub")
		treadle.AddBranch(b, "sub", func(_ context.Context, s textState) (treadle.Goto, error) {
			if len(s.Text) < 8 {
				return treadle.To("sub"), nil
			}
			return treadle.To(end), nil
		}, "sub", end)
	}),
	"untracked_turns": threadOf(func(tr *trace, b *treadle.Builder[scratchLog]) {
		word := func(s scratchLog) string { return s.Scratch }
		in(b, mentions(tr, "a", word), mentions(tr, "b", word))
	}),
	"ephemeral_turns": threadOf(func(tr *trace, b *treadle.Builder[hintLog]) {
		word := func(s hintLog) string { return s.Hint }
		in(b, mentions(tr, "a", word), mentions(tr, "b", word))
	}),
	"durable_sync":           line(letters("a", "b")),
	"durable_async":          line(letters("a", "b")),
	"durable_exit":           line(letters("a", "b")),
	"durable_exit_interrupt": line(aAskB),
	"durable_exit_fails":     pair(func(tr *trace) (first, second step[logState]) { return tr.logs("p"), tr.failsUntil("q", 2, "p") }),
	"durable_exit_nested":    nestedAround(cAsk),
}
