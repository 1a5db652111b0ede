package parity_test

import (
	"context"

	"github.com/treadle-go/treadle"
)

// nestedAround is a, then a graph, then b.
func nestedAround(inner func(tr *trace) []step[textState]) scriptedGraph {
	return textLine(func(tr *trace) []step[textState] {
		return []step[textState]{tr.texts("a"), sub("sub", nest(inner(tr)...)), tr.texts("b")}
	})
}

func cAsk(tr *trace) []step[textState] { return []step[textState]{tr.texts("c"), tr.textAsks("ask")} }

var travelScripts = map[string]scriptedGraph{
	"update_as_node":   line(letters("a", "b", "c")),
	"update_inferred":  line(letters("a", "b")),
	"update_ambiguous": pair(bothLog),
	"update_end":       line(letters("a", "b")),
	"update_input":     line(letters("a", "b")),
	"update_branch": threadOf(func(tr *trace, b *treadle.Builder[logState]) {
		for _, s := range letters("a", "l", "r")(tr) {
			s.add(b, s.name)
		}
		b.Edge(start, "a")
		treadle.AddBranch(b, "a", func(_ context.Context, s logState) (treadle.Goto, error) {
			if s.Log[len(s.Log)-1] == "left" {
				return treadle.To("l"), nil
			}
			return treadle.To("r"), nil
		}, "l", "r")
	}),
	"update_bulk":             pair(bothLog),
	"replay_middle":           line(letters("a", "b", "c")),
	"replay_first":            line(letters("a", "b")),
	"replay_finished":         line(letters("a", "b")),
	"replay_head":             line(letters("a", "b")),
	"replay_before_interrupt": line(aAskB),
	"replay_at_interrupt":     line(aAskB),
	"replay_after_interrupt":  line(aAskB),
	"replay_parallel":         pair(bothAsk),
	"resume_old":              line(aAskB),
	"fork_update":             line(letters("a", "b", "c")),
	"fork_input":              line(letters("a", "b")),
	"fork_at_interrupt":       line(aAskB),
	"fork_skip":               line(aAskB),
	"fork_branches":           line(letters("a", "b")),
	"history_filters":         line(letters("a", "b")),
	"replay_nested":           nestedAround(func(tr *trace) []step[textState] { return []step[textState]{tr.texts("c"), tr.texts("d")} }),
	"replay_nested_interrupt": nestedAround(cAsk),
	"update_nested":           nestedAround(cAsk),
	"update_nested_skip":      nestedAround(func(tr *trace) []step[textState] { return append(cAsk(tr), tr.texts("d")) }),
	"command_turns":           line(letters("a", "b")),
}
