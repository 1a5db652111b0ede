package parity_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// quick retries three times without waiting to speak of.
var quick = treadle.Retry(treadle.RetryPolicy{Initial: time.Microsecond, NoJitter: true, Attempts: 3})

// limited returns a chain from start to end.
func limited(names ...string) build {
	return logGraph(func(b *treadle.Builder[logState]) {
		add(b, names...)
		b.Sequence(treadle.Nodes(append(append([]string{start}, names...), end))...)
	})
}

// recovers answers for a failed node.
func recovers(_ context.Context, _ logState, e *treadle.NodeError) (entries, error) {
	return logged(fmt.Sprintf("recovered %s: %s", e.Node, text(e))), nil
}

// text returns what a node itself said of its failure.
func text(err error) string { return failureOf(err).(string)[len("node: "):] }

// attempts returns a node that counts its attempts in a custom event and fails
// until the given one; 0 means always.
func attempts(succeed int, say string) func(context.Context, logState) (entries, error) {
	tries := 0
	return func(ctx context.Context, _ logState) (entries, error) {
		tries++
		now := fmt.Sprintf("attempt %d", tries)
		treadle.Emit(ctx, now)
		if tries == succeed {
			return logged(now), nil
		}
		if say != "" {
			now = say
		}
		return entries{}, &raised{text: now, temporary: true}
	}
}

var flowCases = map[string]build{
	"defer_without_join": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a", "b", "b2", "c")
		treadle.AddNode(b, "d", writes[logState]("d"), treadle.Defer())
		b.Sequence(start, "a", "b", "b2", "d", end)
		b.Sequence("a", "c", "d")
	}),
	"defer_with_join": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a", "b", "c", "x", "x2", "x3")
		treadle.AddNode(b, "d", writes[logState]("d"), treadle.Defer())
		b.Join([]any{"b", "c"}, "d")
		b.Sequence(start, "a", "x", "x2", "x3")
		edges(b, [2]string{"a", "b"}, [2]string{"a", "c"}, [2]string{"d", end})
	}),
	"defer_loop": graphOf(func(b *treadle.Builder[counted]) {
		add(b, "a", "b")
		type out struct {
			Log reduce.List[string]
			N   int
		}
		treadle.AddNode(b, "d", func(_ context.Context, s counted) (out, error) { return out{reduce.List[string]{"d"}, s.N + 1}, nil }, treadle.Defer())
		b.Sequence(start, "a", "b")
		b.Edge("a", "d")
		treadle.AddBranch(b, "d", func(_ context.Context, s counted) (treadle.Goto, error) {
			if s.N < 2 {
				return treadle.To("a"), nil
			}
			return treadle.To(end), nil
		}, treadle.Label("a", "again"), treadle.Label(end, "done"))
	}),
	"defer_two": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a")
		treadle.AddNode(b, "d1", writes[logState]("d1"), treadle.Defer())
		treadle.AddNode(b, "d2", writes[logState]("d2"), treadle.Defer())
		edges(b, [2]string{start, "a"}, [2]string{start, "d1"}, [2]string{start, "d2"}, [2]string{"d1", "d2"})
	}),
	"limit_one_node":    limited("a"),
	"limit_two_nodes":   limited("a", "b"),
	"limit_three_nodes": limited("a", "b", "c"),
	"limit_loop": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a", "b")
		b.Sequence(start, "a", "b")
		b.Edge("b", "a")
	}),
	"node_fails": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a")
		treadle.AddNode(b, "bad", fails[logState]("no luck"))
		add(b, "c")
		b.Sequence(start, "a", "bad", "c")
	}),
	"branch_fails": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a", "b")
		b.Edge(start, "a")
		treadle.AddBranch(b, "a", func(context.Context, logState) (treadle.Goto, error) { return nil, &raised{text: "no way"} }, "b")
	}),
	"sibling_fails": logGraph(func(b *treadle.Builder[logState]) {
		done := make(chan struct{})
		treadle.AddNode(b, "early", func(context.Context, logState) (entries, error) {
			close(done)
			return logged("early"), nil
		})
		treadle.AddNode(b, "bad", func(context.Context, logState) (entries, error) {
			<-done
			return entries{}, &raised{text: "no luck"}
		})
		edges(b, [2]string{start, "early"}, [2]string{start, "bad"})
	}),
	"retry_success": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "flaky", attempts(3, "try again"), quick)
		b.Edge(start, "flaky")
	}),
	"retry_exhausted": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "flaky", attempts(0, ""), quick)
		b.Edge(start, "flaky")
	}),
	"retry_not_retryable": logGraph(func(b *treadle.Builder[logState]) {
		tries := 0
		treadle.AddNode(b, "bad", func(context.Context, logState) (entries, error) {
			tries++
			return entries{}, &raised{text: fmt.Sprintf("attempt %d", tries)}
		}, quick)
		b.Edge(start, "bad")
	}),
	"retry_choice": logGraph(func(b *treadle.Builder[logState]) {
		tries := 0
		kind := func(temporary bool) func(error) bool {
			return func(err error) bool {
				r, ok := errors.AsType[*raised](err)
				return ok && r.temporary == temporary
			}
		}
		treadle.AddNode(b, "bad", func(_ context.Context, s logState) (entries, error) {
			tries++
			return entries{}, &raised{text: fmt.Sprintf("attempt %d", tries), temporary: len(s.Log) > 0}
		}, treadle.Retry(
			treadle.RetryPolicy{Initial: time.Microsecond, NoJitter: true, Attempts: 2, On: kind(true)},
			treadle.RetryPolicy{Initial: time.Microsecond, NoJitter: true, Attempts: 4, On: kind(false)}))
		b.Edge(start, "bad")
	}),
	"error_handler": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a")
		treadle.AddNode(b, "bad", fails[logState]("no luck"), treadle.OnError(recovers))
		add(b, "c")
		b.Sequence(start, "a", "bad", "c")
	}),
	"error_handler_goto": logGraph(func(b *treadle.Builder[logState]) {
		add(b, "a")
		treadle.AddNode(b, "bad", fails[logState]("no luck"),
			treadle.OnError(func(context.Context, logState, *treadle.NodeError) (treadle.Command[entries], error) {
				return command("recovered", treadle.To("c")), nil
			}))
		add(b, "c")
		b.Sequence(start, "a", "bad")
	}),
	"error_handler_sibling": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "bad", fails[logState]("no luck"), treadle.OnError(recovers))
		add(b, "slow", "end")
		b.Edge(start, "bad")
		b.Sequence(start, "slow", "end")
	}),
	"error_handler_fails": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "bad", fails[logState]("no luck"),
			treadle.OnError(func(context.Context, logState, *treadle.NodeError) (entries, error) {
				return entries{}, &raised{text: "worse"}
			}))
		b.Edge(start, "bad")
	}),
	"error_handler_after_retry": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "flaky", attempts(0, ""), quick, treadle.OnError(recovers))
		b.Edge(start, "flaky")
	}),
	"error_handler_default": logGraph(func(b *treadle.Builder[logState]) {
		b.Defaults(treadle.OnError(recovers))
		treadle.AddNode(b, "bad", fails[logState]("no luck"))
		b.Edge(start, "bad")
	}),
	"error_handler_subgraph": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddGraph(b, "sub", child(func(b *treadle.Builder[logState]) {
			treadle.AddNode(b, "bad", fails[logState]("no luck"))
			b.Edge(start, "bad")
		}), treadle.OnError(recovers))
		b.Edge(start, "sub")
	}),
	"node_cache": graphOf(func(b *treadle.Builder[counted]) {
		calls := 0
		treadle.AddNode(b, "slow", func(_ context.Context, s struct{ N int }) (entries, error) {
			calls++
			return logged(fmt.Sprintf("slow %d call %d", s.N, calls)), nil
		}, treadle.Cache(0))
		add(b, "after")
		b.Sequence(start, "slow", "after")
	}),
	"node_metadata": logGraph(func(b *treadle.Builder[logState]) {
		treadle.AddNode(b, "a", writes[logState]("a"), treadle.Metadata(map[string]any{"kind": "first", "level": 1}))
		add(b, "b")
		b.Sequence(start, "a", "b", end)
	}),
	"two_turns": limited("a"),
}
