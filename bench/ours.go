package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/reduce"
)

// ours is the catalog for Treadle, written as its manual shows: nodes read the
// state and return their updates.
var ours = slices.Concat([]work{
	newWork("chain10", "", ourChain(10)),
	newWork("chain100", "", ourChain(100)),
	newWork("chain1000", "", ourChain(1000)),
	newWork("loop1000", "", ourLoop(1000)),
	newWork("send100", "", ourSend(100)),
	newWork("send1000", "", ourSend(1000)),
	newWork("send5000", "", ourSend(5000)),
	newWork("chain100_memory", "a fresh thread each run", ourMemory(100)),
	newWork("wide_state", "", ourWide),
	newWork("subgraph_fanout100", "", ourFanOut(100)),
	newWork("stream_tokens2000", "", ourStream(2000)),
	newWork("start_to_first_run", "", ourStart(10)),
}, ourSaved, ourHistories, ourAgents, ourStores, []work{ourRecall}, ourServer)

type state struct {
	Count int
	Log   reduce.List[int]
}

func bump(_ context.Context, s state) (bumped, error) {
	n := s.Count + 1
	return bumped{n, reduce.List[int]{n}}, nil
}

// bumped is the update of bump.
type bumped struct {
	Count int
	Log   reduce.List[int]
}

func chainOf(steps int) *treadle.Builder[state] {
	b := treadle.New[state]("chain")
	last := treadle.Start
	for i := range steps {
		name := fmt.Sprintf("n%04d", i)
		treadle.AddNode(b, name, bump)
		b.Edge(last, name)
		last = name
	}
	return b
}

func runner(g *treadle.Graph[state, state], err error) (program, error) {
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (tally, error) {
		out, err := g.Run(ctx, state{})
		return tally{out.Count, out.Log}, err
	}, nil
}

func ourChain(steps int) func(context.Context) (program, error) {
	return func(context.Context) (program, error) {
		return runner(chainOf(steps).Compile(&treadle.Options{StepLimit: steps + 1}))
	}
}

func ourMemory(steps int) func(context.Context) (program, error) {
	return func(context.Context) (program, error) {
		saver := checkpoint.NewMemory()
		g, err := chainOf(steps).Compile(&treadle.Options{StepLimit: steps + 1, Saver: saver})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (tally, error) {
			out, err := g.Thread("t").Run(ctx, state{})
			if err != nil {
				return tally{}, err
			}
			return tally{out.Count, out.Log}, saver.DeleteThread(ctx, "t")
		}, nil
	}
}

func ourLoop(steps int) func(context.Context) (program, error) {
	return func(context.Context) (program, error) {
		b := treadle.New[state]("loop")
		treadle.AddNode(b, "again", bump)
		b.Edge(treadle.Start, "again")
		treadle.AddBranch(b, "again", func(_ context.Context, s state) (treadle.Goto, error) {
			if s.Count < steps {
				return treadle.To("again"), nil
			}
			return treadle.To(treadle.End), nil
		}, "again", treadle.End)
		return runner(b.Compile(&treadle.Options{StepLimit: steps + 1}))
	}
}

type sums struct {
	Count reduce.Sum[int]
	Log   reduce.List[int]
}

type item struct{ N int }

func sumRunner(g *treadle.Graph[sums, sums], err error) (program, error) {
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (tally, error) {
		out, err := g.Run(ctx, sums{})
		return tally{out.Count.N, out.Log}, err
	}, nil
}

// planned is the result of the planning node: an update and one Send per task.
type planned struct {
	Count reduce.Sum[int]
	Log   reduce.List[int]
	Next  treadle.Goto
}

// added is the update of a task.
type added struct {
	Count reduce.Sum[int]
	Log   reduce.List[int]
}

func plan(tasks int, send func(item) treadle.Goto) func(context.Context, sums) (planned, error) {
	return func(context.Context, sums) (planned, error) {
		p := planned{Count: reduce.SumOf(1), Log: reduce.List[int]{0}, Next: make(treadle.Goto, 0, tasks)}
		for i := range tasks {
			p.Next = append(p.Next, send(item{i})...)
		}
		return p, nil
	}
}

func sendGraph(tasks int) *treadle.Builder[sums] {
	b := treadle.New[sums]("send")
	do := treadle.AddNode(b, "do", func(_ context.Context, in item) (added, error) {
		return added{reduce.SumOf(1), reduce.List[int]{in.N}}, nil
	})
	treadle.AddNode(b, "plan", plan(tasks, func(i item) treadle.Goto { return treadle.Send(do, i) }), treadle.Destinations("do"))
	b.Edge(treadle.Start, "plan")
	return b
}

func ourSend(tasks int) func(context.Context) (program, error) {
	return func(context.Context) (program, error) { return sumRunner(sendGraph(tasks).Compile(nil)) }
}

func ourFanOut(graphs int) func(context.Context) (program, error) {
	return func(context.Context) (program, error) {
		inner := treadle.New[sums]("inner")
		for _, name := range []string{"a", "b"} {
			treadle.AddNode(inner, name, func(context.Context, sums) (added, error) {
				return added{reduce.SumOf(1), reduce.List[int]{1}}, nil
			})
		}
		inner.Edge(treadle.Start, "a")
		inner.Edge("a", "b")
		child, err := inner.Compile(nil)
		if err != nil {
			return nil, err
		}
		b := treadle.New[sums]("fanout")
		sub := treadle.AddGraph(b, "sub", child)
		treadle.AddNode(b, "plan", plan(graphs, func(item) treadle.Goto { return treadle.Send(sub, sums{}) }), treadle.Destinations("sub"))
		b.Edge(treadle.Start, "plan")
		return sumRunner(b.Compile(nil))
	}
}

// wide is a state of 30 fields, as for the peers: 28 of them are strings that the
// input sets and no node changes.
type wide struct {
	Count                                            int
	Log                                              reduce.List[int]
	F00, F01, F02, F03, F04, F05, F06, F07, F08, F09 string
	F10, F11, F12, F13, F14, F15, F16, F17, F18, F19 string
	F20, F21, F22, F23, F24, F25, F26, F27           string
}

func ourWide(context.Context) (program, error) {
	b := treadle.New[wide]("wide")
	last := treadle.Start
	for i := range wideNodes {
		name := fmt.Sprintf("n%d", i)
		treadle.AddNode(b, name, func(_ context.Context, s wide) (bumped, error) {
			return bumped{s.Count + 1, reduce.List[int]{s.Count + 1}}, nil
		})
		b.Edge(last, name)
		last = name
	}
	treadle.AddBranch(b, last, func(_ context.Context, s wide) (treadle.Goto, error) {
		if s.Count < wideNodes*wideRounds {
			return treadle.To("n0"), nil
		}
		return treadle.To(treadle.End), nil
	}, "n0", treadle.End)
	g, err := b.Compile(&treadle.Options{StepLimit: wideNodes*wideRounds + 1})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (tally, error) {
		in := wide{F00: "x", F01: "x", F02: "x", F03: "x", F04: "x", F05: "x", F06: "x", F07: "x", F08: "x", F09: "x",
			F10: "x", F11: "x", F12: "x", F13: "x", F14: "x", F15: "x", F16: "x", F17: "x", F18: "x", F19: "x",
			F20: "x", F21: "x", F22: "x", F23: "x", F24: "x", F25: "x", F26: "x", F27: "x"}
		out, err := g.Run(ctx, in)
		return tally{out.Count, out.Log}, err
	}, nil
}

// ourStream streams tokens as models do.
func ourStream(tokens int) func(context.Context) (program, error) {
	return func(context.Context) (program, error) {
		b := treadle.New[state]("stream")
		treadle.AddNode(b, "talk", func(ctx context.Context, s state) (bumped, error) {
			_, span := observe.Begin(ctx, observe.Call{Kind: observe.Model, Name: "bench"})
			for range tokens {
				span.Chunk("token ")
			}
			span.End(nil, nil)
			return bump(ctx, s)
		})
		b.Edge(treadle.Start, "talk")
		g, err := b.Compile(nil)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (tally, error) {
			var out tally
			n := 0
			for ev, err := range g.Stream(ctx, state{}, treadle.Modes(treadle.ModeMessages)) {
				if err != nil {
					return out, err
				}
				switch ev := ev.(type) {
				case treadle.Token:
					n++
				case treadle.Finished[state]:
					out = tally{ev.Output.Count, ev.Output.Log}
				}
			}
			if n != tokens {
				return out, fmt.Errorf("%d tokens arrived, want %d", n, tokens)
			}
			return out, nil
		}, nil
	}
}

func ourStart(steps int) func(context.Context) (program, error) {
	return func(context.Context) (program, error) {
		return func(ctx context.Context) (tally, error) {
			run, err := runner(chainOf(steps).Compile(nil))
			if err != nil {
				return tally{}, err
			}
			return run(ctx)
		}, nil
	}
}
