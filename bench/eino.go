package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
)

// einoWorks is the catalog for cloudwego/eino, written as its manual shows: the
// state is a local state that nodes change with ProcessState, and the value on
// an edge is the running int, because an eino branch decides on the edge value.
var einoWorks = []work{
	newWork("chain10", "", einoChain(10)),
	newWork("chain100", "", einoChain(100)),
	newWork("chain1000", "", einoChain(1000)),
	newWork("loop1000", "", einoLoop(1000)),
	newWork("wide_state", "", einoWide),
	newWork("subgraph_fanout100", "the 100 subgraphs are static nodes: eino has no Send", einoFanOut(100)),
	newWork("stream_tokens2000", "", einoStream(2000)),
	newWork("start_to_first_run", "", einoStart(10)),
}

// einoLacks explains why jobs are missing above.
var einoLacks = withServers(withStores(map[string]string{
	"send100":         einoNoSend,
	"send1000":        einoNoSend,
	"send5000":        einoNoSend,
	"chain100_memory": einoNoSteps,

	"chain100_sqlite":         einoNoSteps,
	"chain100_postgres":       einoNoSteps,
	"send1000_sqlite":         einoNoSend,
	"history500_memory":       einoNoThreads,
	"history500_sqlite":       einoNoThreads,
	"history500_postgres":     einoNoThreads,
	"interrupt_resume_memory": "not measured: eino's interrupt stops before or after a node or reruns it, and passes an answer through the state",
	"interrupt_resume_sqlite": "eino has no saver for SQLite",
	"get_state_1000":          einoNoThreads,
	"threads10k_rss":          einoNoThreads,
	"concurrent1000":          einoNoSteps,
	"react10":                 einoOtherAgent,
	"react100":                einoOtherAgent,
	"react10_memory":          einoNoSteps,
	"react100_memory":         einoNoSteps,
	"tool_parallel50":         einoOtherAgent,
	"message_reduce_10k":      "not measured: no graph is involved",
	"trim_10k":                "not measured: no graph is involved",
}))

const einoOtherAgent = "not measured: its agent is not part of the comparison"

const einoNoSteps = "eino saves a checkpoint only when a run is interrupted, not after a step"

const einoNoThreads = "eino has no threads: a finished run leaves no state to continue from"

const einoNoSend = "eino has no Send: the number of tasks is fixed when the graph is compiled"

type einoStateKey struct{}

// einoState returns the run's state from the context. Eino creates and owns the
// local state; the context gives the caller access to it.
func einoState[S any](ctx context.Context) *S { return ctx.Value(einoStateKey{}).(*S) }

func withEinoState[S any](ctx context.Context, s *S) context.Context {
	return context.WithValue(ctx, einoStateKey{}, s)
}

func (t *tally) bump() int {
	t.count++
	t.log = append(t.log, t.count)
	return t.count
}

func einoBump(ctx context.Context, _ int) (n int, err error) {
	err = compose.ProcessState(ctx, func(_ context.Context, t *tally) error {
		n = t.bump()
		return nil
	})
	return n, err
}

func newEinoGraph() *compose.Graph[int, int] {
	return compose.NewGraph[int, int](compose.WithGenLocalState(einoState[tally]))
}

func einoChain(steps int) func(context.Context) (program, error) {
	return func(ctx context.Context) (program, error) {
		g := newEinoGraph()
		last := compose.START
		var errs []error
		for i := range steps {
			name := "n" + strconv.Itoa(i)
			errs = append(errs, g.AddLambdaNode(name, compose.InvokableLambda(einoBump)), g.AddEdge(last, name))
			last = name
		}
		errs = append(errs, g.AddEdge(last, compose.END))
		return einoProgram(ctx, g, steps, errs)
	}
}

func einoLoop(steps int) func(context.Context) (program, error) {
	return func(ctx context.Context) (program, error) {
		g := newEinoGraph()
		return einoProgram(ctx, g, steps, []error{
			g.AddLambdaNode("again", compose.InvokableLambda(einoBump)),
			g.AddEdge(compose.START, "again"),
			g.AddBranch("again", einoUntil(steps, "again")),
		})
	}
}

// einoUntil returns a branch that repeats node until the int reaches limit.
func einoUntil(limit int, node string) *compose.GraphBranch {
	return compose.NewGraphBranch(func(_ context.Context, n int) (string, error) {
		if n < limit {
			return node, nil
		}
		return compose.END, nil
	}, map[string]bool{node: true, compose.END: true})
}

// einoProgram compiles a graph over a tally and returns the program that runs it.
func einoProgram(ctx context.Context, g *compose.Graph[int, int], steps int, built []error) (program, error) {
	if err := errors.Join(built...); err != nil {
		return nil, err
	}
	// The default limit is ten more steps than nodes, too few for a loop.
	r, err := g.Compile(ctx, compose.WithMaxRunSteps(steps+10))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (tally, error) {
		var t tally
		_, err := r.Invoke(withEinoState(ctx, &t), 0)
		return t, err
	}, nil
}

func einoStart(steps int) func(context.Context) (program, error) {
	build := einoChain(steps)
	return func(context.Context) (program, error) {
		return func(ctx context.Context) (tally, error) {
			run, err := build(ctx)
			if err != nil {
				return tally{}, err
			}
			return run(ctx)
		}, nil
	}
}

// einoWideState has thirty fields: the tally's two and twenty-eight that the
// input sets and no node writes.
type einoWideState struct {
	tally
	S01, S02, S03, S04, S05, S06, S07 string
	S08, S09, S10, S11, S12, S13, S14 string
	S15, S16, S17, S18, S19, S20, S21 string
	S22, S23, S24, S25, S26, S27, S28 string
}

func einoWideBump(ctx context.Context, _ int) (n int, err error) {
	err = compose.ProcessState(ctx, func(_ context.Context, s *einoWideState) error {
		n = s.bump()
		return nil
	})
	return n, err
}

func einoWide(ctx context.Context) (program, error) {
	const steps = wideNodes * wideRounds
	g := compose.NewGraph[int, int](compose.WithGenLocalState(einoState[einoWideState]))
	last := compose.START
	var errs []error
	for i := range wideNodes {
		name := "n" + strconv.Itoa(i)
		errs = append(errs, g.AddLambdaNode(name, compose.InvokableLambda(einoWideBump)), g.AddEdge(last, name))
		last = name
	}
	errs = append(errs, g.AddBranch(last, einoUntil(steps, "n0")))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	r, err := g.Compile(ctx, compose.WithMaxRunSteps(steps+10))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (tally, error) {
		s := einoWideInput()
		_, err := r.Invoke(withEinoState(ctx, &s), 0)
		return s.tally, err
	}, nil
}

func einoWideInput() einoWideState {
	return einoWideState{
		S01: "v", S02: "v", S03: "v", S04: "v", S05: "v", S06: "v", S07: "v",
		S08: "v", S09: "v", S10: "v", S11: "v", S12: "v", S13: "v", S14: "v",
		S15: "v", S16: "v", S17: "v", S18: "v", S19: "v", S20: "v", S21: "v",
		S22: "v", S23: "v", S24: "v", S25: "v", S26: "v", S27: "v", S28: "v",
	}
}

// einoFanOut runs width subgraphs concurrently. Each returns its own state, and a
// post handler, eino's way to write the parent's state, adds it there. Fan-in
// requires an output key per branch; otherwise, eino does not merge.
func einoFanOut(width int) func(context.Context) (program, error) {
	return func(ctx context.Context) (program, error) {
		g := compose.NewGraph[int, map[string]any](compose.WithGenLocalState(einoState[tally]))
		errs := []error{
			g.AddLambdaNode("plan", compose.InvokableLambda(einoBump)),
			g.AddEdge(compose.START, "plan"),
		}
		for i := range width {
			name := "part" + strconv.Itoa(i)
			part, err := einoPart()
			errs = append(errs, err,
				g.AddGraphNode(name, part, compose.WithOutputKey(name), compose.WithStatePostHandler(einoAdd(name))),
				g.AddEdge("plan", name),
				g.AddEdge(name, compose.END))
		}
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		r, err := g.Compile(ctx)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (tally, error) {
			var t tally
			_, err := r.Invoke(withEinoState(ctx, &t), 0)
			return t, err
		}, nil
	}
}

// einoPart returns the subgraph: two nodes, the second of which returns the state.
func einoPart() (*compose.Graph[int, *tally], error) {
	g := compose.NewGraph[int, *tally](compose.WithGenLocalState(func(context.Context) *tally { return &tally{} }))
	return g, errors.Join(
		g.AddLambdaNode("first", compose.InvokableLambda(einoBump)),
		g.AddLambdaNode("second", compose.InvokableLambda(einoLast)),
		g.AddEdge(compose.START, "first"),
		g.AddEdge("first", "second"),
		g.AddEdge("second", compose.END),
	)
}

func einoLast(ctx context.Context, _ int) (out *tally, err error) {
	err = compose.ProcessState(ctx, func(_ context.Context, t *tally) error {
		t.bump()
		out = t
		return nil
	})
	return out, err
}

func einoAdd(key string) compose.StatePostHandler[map[string]any, *tally] {
	return func(_ context.Context, out map[string]any, t *tally) (map[string]any, error) {
		part, ok := out[key].(*tally)
		if !ok {
			return nil, fmt.Errorf("subgraph %s returned %T", key, out[key])
		}
		t.count += part.count
		t.log = append(t.log, part.log...)
		return out, nil
	}
}

// einoStream reads tokens that a node writes into a pipe while the caller reads, as
// eino's streaming nodes do. The pipe has a large buffer; with a buffer of one, a
// token costs about twice as much.
func einoStream(tokens int) func(context.Context) (program, error) {
	return func(ctx context.Context) (program, error) {
		g := compose.NewGraph[int, string](compose.WithGenLocalState(einoState[tally]))
		err := errors.Join(
			g.AddLambdaNode("talk", compose.StreamableLambda(einoTalk(tokens))),
			g.AddEdge(compose.START, "talk"),
			g.AddEdge("talk", compose.END),
		)
		if err != nil {
			return nil, err
		}
		r, err := g.Compile(ctx)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (tally, error) {
			var t tally
			stream, err := r.Stream(withEinoState(ctx, &t), 0)
			if err != nil {
				return t, err
			}
			return t, drain(stream, tokens)
		}, nil
	}
}

func einoTalk(tokens int) func(context.Context, int) (*schema.StreamReader[string], error) {
	return func(ctx context.Context, in int) (*schema.StreamReader[string], error) {
		if _, err := einoBump(ctx, in); err != nil {
			return nil, err
		}
		out, pipe := schema.Pipe[string](64)
		go func() {
			defer pipe.Close()
			for range tokens {
				if pipe.Send("token ", nil) {
					return // the reader is closed
				}
			}
		}()
		return out, nil
	}
}

func drain(stream *schema.StreamReader[string], want int) error {
	defer stream.Close()
	for got := 0; ; got++ {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if got != want {
				return fmt.Errorf("%d tokens arrived, want %d", got, want)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// withServers adds the server jobs to the jobs that eino lacks.
func withServers(lacks map[string]string) map[string]string {
	_, servers := apart(catalogue)
	for _, j := range servers {
		lacks[j.name] = "eino has no server"
	}
	return lacks
}
