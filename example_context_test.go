package treadle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/reduce"
)

// A run receives a value that its nodes can read, here the model to use. A run without a
// value uses the default.
//
// Sample: A11.
func ExampleContextFrom() {
	type State struct{ Answer string }
	type Config struct{ LLM string }

	b := treadle.New[State]("configured")
	treadle.AddNode(b, "node_a", func(ctx context.Context, _ State) (State, error) {
		config, ok := treadle.ContextFrom[Config](ctx)
		if !ok {
			config.LLM = "openai"
		}
		return State{"answered by " + config.LLM}, nil
	})
	b.Edge(treadle.Start, "node_a")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.With(treadle.Context(Config{LLM: "anthropic"})).Run(context.Background(), State{}))
	fmt.Println(g.Run(context.Background(), State{}))
	// Output:
	// {answered by anthropic} <nil>
	// {answered by openai} <nil>
}

// Run options are bound to the graph, for one run or for many: a step limit and a context
// value. At the limit, the run returns a typed error and the state so far.
//
// Sample: A12.
func ExampleGraph_With() {
	type State struct{ Calls reduce.List[string] }
	type call struct{ Calls reduce.List[string] }
	type Config struct{ LLM string }

	b := treadle.New[State]("loop")
	treadle.AddNode(b, "node_a", func(ctx context.Context, _ State) (call, error) {
		config, _ := treadle.ContextFrom[Config](ctx)
		return call{reduce.List[string]{config.LLM}}, nil
	})
	b.Edge(treadle.Start, "node_a")
	b.Edge("node_a", "node_a") // forever
	g := treadle.Must(b.Compile(nil))

	out, err := g.With(treadle.StepLimit(5), treadle.Context(Config{LLM: "anthropic"})).Run(context.Background(), State{})
	limit, ok := errors.AsType[*treadle.StepLimitError](err)
	fmt.Println(ok, limit.Limit, limit.Next)
	fmt.Println(out.Calls)
	// Output:
	// true 5 [node_a]
	// [anthropic anthropic anthropic anthropic anthropic]
}

// A program finds the data of an error.
func ExampleStepLimitError() {
	g := treadle.Must(treadle.NewWorkflow("essay", func(context.Context, string) (string, error) { return "", nil }, nil))
	ctx, in := context.Background(), "owls"
	out, err := g.Run(ctx, in)
	if limit, ok := errors.AsType[*treadle.StepLimitError](err); ok {
		log.Printf("stopped before %v", limit.Next)
	}
	fmt.Println(out, err)
	// Output: <nil>
}

// A graph that declares the type of its context value rejects other types and accepts
// JSON.
func ExampleContextType() {
	type State struct{ Greeting string }
	type User struct {
		Name string `json:"name"`
	}

	b := treadle.New[State]("greet")
	treadle.ContextType[User](b)
	treadle.AddNode(b, "greet", func(ctx context.Context, _ State) (State, error) {
		user, _ := treadle.ContextFrom[User](ctx)
		return State{"Hello, " + user.Name}, nil
	})
	b.Edge(treadle.Start, "greet")
	g := treadle.Must(b.Compile(nil))

	ctx := context.Background()
	fmt.Println(g.With(treadle.Context(json.RawMessage(`{"name": "Ada"}`))).Run(ctx, State{}))
	_, err := g.With(treadle.Context("Ada")).Run(ctx, State{})
	fmt.Println(err)
	// Output:
	// {Hello, Ada} <nil>
	// graph "greet": context: got string, want treadle_test.User
}

// A node can read information about its run.
func ExampleInfoFrom() {
	type State struct{ Where string }

	b := treadle.New[State]("info")
	treadle.AddNode(b, "look", func(ctx context.Context, _ State) (State, error) {
		info := treadle.InfoFrom(ctx)
		fmt.Println(info.RunID, info.Graph, info.Node, info.Tags, info.Metadata)
		return State{fmt.Sprintf("step %d, attempt %d, %d steps left", info.Step, info.Attempt, info.RemainingSteps)}, nil
	})
	b.Edge(treadle.Start, "look")
	g := treadle.Must(b.Compile(nil))

	out, err := g.With(
		treadle.RunID("run-7"),
		treadle.Tags("nightly"),
		treadle.Metadata(map[string]any{"author": "ada"}),
		treadle.StepLimit(10),
	).Run(context.Background(), State{})
	fmt.Println(out.Where, err)
	// Output:
	// run-7 info look [nightly] map[author:ada]
	// step 1, attempt 1, 9 steps left <nil>
}

// Code without access to the graph's options, such as a library, logs to the logger of the run.
func ExampleLoggerFrom() {
	type State struct{ Text string }

	b := treadle.New[State]("draft")
	treadle.AddNode(b, "shorten", func(ctx context.Context, s State) (State, error) {
		treadle.LoggerFrom(ctx).WarnContext(ctx, "text shortened", "bytes", len(s.Text))
		return State{s.Text[:5]}, nil
	})
	b.Edge(treadle.Start, "shorten")
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: noTime}))
	g := treadle.Must(b.Compile(&treadle.Options{Logger: logger}))

	out, err := g.Run(context.Background(), State{"Hello, world"})
	fmt.Println(out.Text, err)
	// Output:
	// level=WARN msg="text shortened" bytes=12
	// Hello <nil>
}

// A batch runs in parallel and keeps the order of its inputs. One failure does
// not stop the others.
func ExampleGraph_RunAll() {
	type State struct{ N int }

	b := treadle.New[State]("inverse")
	treadle.AddNode(b, "invert", func(_ context.Context, s State) (State, error) {
		if s.N == 0 {
			return State{}, errors.New("division by zero")
		}
		return State{100 / s.N}, nil
	})
	b.Edge(treadle.Start, "invert")
	g := treadle.Must(b.Compile(nil))

	outs, err := g.With(treadle.MaxConcurrency(2)).RunAll(context.Background(), []State{{10}, {0}, {4}})
	fmt.Println(outs)
	fmt.Println(err)
	// Output:
	// [{10} {0} {25}]
	// input 1: graph "inverse": node "invert" (step 1): division by zero
}

// A server that shuts down lets its runs finish the step they are in. On a
// thread they can be continued later.
func ExampleDrain() {
	type State struct{ N int }
	quit := make(chan struct{})

	b := treadle.New[State]("drain")
	treadle.AddNode(b, "first", func(_ context.Context, s State) (State, error) {
		close(quit) // the signal arrives while this node runs
		return State{s.N + 1}, nil
	})
	treadle.AddNode(b, "second", func(_ context.Context, s State) (State, error) { return State{s.N + 1}, nil })
	b.Sequence(treadle.Start, "first", "second")
	g := treadle.Must(b.Compile(nil))

	out, err := g.With(treadle.Drain(quit)).Run(context.Background(), State{})
	fmt.Println(out, errors.Is(err, treadle.ErrDrained))
	// Output:
	// {1} true
}
