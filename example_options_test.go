package treadle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
)

// A failed node is retried. The writes of failed attempts are dropped.
func ExampleRetry() {
	type State struct{ Page string }
	errBusy := errors.New("busy")

	b := treadle.New[State]("fetch")
	treadle.AddNode(b, "fetch", func(ctx context.Context, _ State) (State, error) {
		attempt := treadle.InfoFrom(ctx).Attempt
		fmt.Println("attempt", attempt)
		if attempt < 3 {
			return State{}, errBusy
		}
		return State{"<html>"}, nil
	}, treadle.Retry(treadle.RetryPolicy{
		Initial:  time.Millisecond,
		NoJitter: true,
		On:       func(err error) bool { return errors.Is(err, errBusy) }, // the default is treadle.Transient
	}))
	b.Edge(treadle.Start, "fetch")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{}))
	// Output:
	// attempt 1
	// attempt 2
	// attempt 3
	// {<html>} <nil>
}

// Timeout bounds each attempt of a node.
func ExampleTimeout() {
	type State struct{ Answer string }

	b := treadle.New[State]("slow")
	treadle.AddNode(b, "ask", func(ctx context.Context, _ State) (State, error) {
		<-ctx.Done() // a server that never answers
		return State{}, ctx.Err()
	}, treadle.Timeout(time.Millisecond))
	b.Edge(treadle.Start, "ask")
	g := treadle.Must(b.Compile(nil))

	_, err := g.Run(context.Background(), State{})
	late, ok := errors.AsType[*treadle.TimeoutError](err)
	fmt.Println(ok, late.Node, late.Limit, late.Idle)
	// Output:
	// true ask 1ms false
}

// IdleTimeout bounds the silence of a node instead of its work. With
// HeartbeatOnly, only Heartbeat breaks the silence.
func ExampleIdleTimeout() {
	type State struct{ Answer string }

	b := treadle.New[State]("silent")
	treadle.AddNode(b, "download", func(ctx context.Context, _ State) (State, error) {
		treadle.Heartbeat(ctx) // the first bytes have arrived
		<-ctx.Done()           // and nothing after them
		return State{}, ctx.Err()
	}, treadle.IdleTimeout(time.Millisecond), treadle.HeartbeatOnly())
	b.Edge(treadle.Start, "download")
	g := treadle.Must(b.Compile(nil))

	_, err := g.Run(context.Background(), State{})
	late, ok := errors.AsType[*treadle.TimeoutError](err)
	fmt.Println(ok, late.Node, late.Limit, late.Idle)
	// Output:
	// true download 1ms true
}

// An error handler replaces the result of a node that failed after its last attempt. The
// node's edges are not followed: the handler selects the next node.
func ExampleOnError() {
	type State struct {
		City    string
		Weather string
	}
	type weather struct{ Weather string }
	type fallback struct {
		Weather string
		Next    treadle.Goto
	}

	b := treadle.New[State]("weather")
	treadle.AddNode(b, "ask", func(context.Context, State) (weather, error) {
		return weather{}, errors.New("503")
	}, treadle.OnError(func(_ context.Context, s State, failure *treadle.NodeError) (fallback, error) {
		return fallback{fmt.Sprintf("%s: unknown (%v)", s.City, failure.Err), treadle.To("report")}, nil
	}))
	treadle.AddNode(b, "report", func(_ context.Context, s State) (weather, error) {
		return weather{strings.ToUpper(s.Weather)}, nil
	})
	b.Edge(treadle.Start, "ask")
	b.Edge("ask", "report")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{City: "Oslo"}))
	// Output:
	// {Oslo OSLO: UNKNOWN (503)} <nil>
}

// A cached node does not run twice for the same input.
func ExampleCache() {
	type Word struct{ Text string }
	type State struct {
		Text   string
		Length int
	}
	type length struct{ Length int }

	b := treadle.New[State]("expensive")
	treadle.AddNode(b, "measure", func(_ context.Context, w Word) (length, error) {
		fmt.Println("measuring", w.Text)
		return length{len(w.Text)}, nil
	}, treadle.Cache(time.Hour))
	b.Edge(treadle.Start, "measure")
	g := treadle.Must(b.Compile(nil))

	ctx := context.Background()
	fmt.Println(g.Run(ctx, State{Text: "owl"}))
	fmt.Println(g.Run(ctx, State{Text: "owl"}))
	fmt.Println(g.ClearCache(ctx, "measure"))
	fmt.Println(g.Run(ctx, State{Text: "owl"}))
	// Output:
	// measuring owl
	// {owl 3} <nil>
	// {owl 3} <nil>
	// <nil>
	// measuring owl
	// {owl 3} <nil>
}

// CacheBy says itself which inputs are the same.
func ExampleCacheBy() {
	type State struct{ Name, Greeting string }
	type greeting struct{ Greeting string }

	b := treadle.New[State]("greet")
	treadle.AddNode(b, "greet", func(_ context.Context, s State) (greeting, error) {
		fmt.Println("thinking about", s.Name)
		return greeting{"Hello, " + s.Name}, nil
	}, treadle.CacheBy(0, func(s State) string { return strings.ToLower(s.Name) }))
	b.Edge(treadle.Start, "greet")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{Name: "Ada"}))
	fmt.Println(g.Run(context.Background(), State{Name: "ADA"}))
	// Output:
	// thinking about Ada
	// {Ada Hello, Ada} <nil>
	// {ADA Hello, Ada} <nil>
}

// Defaults sets options for all nodes that do not set them.
func ExampleBuilder_Defaults() {
	type State struct{ N int }
	errFlaky := errors.New("flaky")

	b := treadle.New[State]("defaults")
	b.Defaults(treadle.Retry(treadle.RetryPolicy{Initial: time.Millisecond, NoJitter: true, On: func(error) bool { return true }}))
	for _, name := range []string{"one", "two"} {
		treadle.AddNode(b, name, func(ctx context.Context, s State) (State, error) {
			if treadle.InfoFrom(ctx).Attempt == 1 {
				return State{}, errFlaky
			}
			return State{s.N + 1}, nil
		})
	}
	b.Sequence(treadle.Start, "one", "two")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.Run(context.Background(), State{}))
	// Output:
	// {2} <nil>
}

// Strict turns what Compile would only warn about into an error.
func ExampleOptions() {
	type State struct{ N int }

	b := treadle.New[State]("strict")
	treadle.AddNode(b, "ask", func(context.Context, State) (treadle.Goto, error) {
		return treadle.To("more"), nil
	}, treadle.Destinations("more"))
	treadle.AddNode(b, "more", func(_ context.Context, s State) (State, error) { return State{s.N + 1}, nil })
	b.Sequence(treadle.Start, "ask", "more") // an edge where a goto leads already

	g, err := b.Compile(&treadle.Options{StepLimit: 10, MaxConcurrency: 4})
	fmt.Println(len(g.Warnings()), "warning,", err)
	_, err = b.Compile(&treadle.Options{Strict: true})
	fmt.Println("strict:", err != nil)
	// Output:
	// 1 warning, <nil>
	// strict: true
}

// The metadata of a node appears in diagrams, and a run's metadata is visible to its
// nodes.
func ExampleMetadata() {
	type State struct{ Owner string }

	b := treadle.New[State]("meta")
	treadle.AddNode(b, "bill", func(ctx context.Context, _ State) (State, error) {
		info := treadle.InfoFrom(ctx)
		return State{fmt.Sprint(info.Metadata["team"], " for ", info.Metadata["customer"])}, nil
	}, treadle.Metadata(map[string]any{"team": "billing"}))
	b.Edge(treadle.Start, "bill")
	g := treadle.Must(b.Compile(nil))

	fmt.Println(g.With(treadle.Metadata(map[string]any{"customer": "Acme"})).Run(context.Background(), State{}))
	// Output:
	// {billing for Acme} <nil>
}

// StepTimeout limits a step as a whole, regardless of the number of nodes in it.
func ExampleOptions_stepTimeout() {
	type State struct{ N int }

	b := treadle.New[State]("step")
	treadle.AddNode(b, "hang", func(ctx context.Context, s State) (State, error) {
		<-ctx.Done()
		return s, ctx.Err()
	})
	b.Edge(treadle.Start, "hang")
	g := treadle.Must(b.Compile(&treadle.Options{StepTimeout: time.Millisecond}))

	_, err := g.Run(context.Background(), State{})
	late, ok := errors.AsType[*treadle.TimeoutError](err)
	fmt.Println(ok, late.Limit)
	// Output:
	// true 1ms
}
