package oteltreadle_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/catalog"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/oteltreadle"
)

// This example traces an agent with a tool and prints the spans. A program would export
// them, for example with otlptracehttp.
func Example() {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	tel, err := oteltreadle.New(&oteltreadle.Options{TracerProvider: provider, Prices: catalog.Default(), Agents: []string{"agent"}})
	if err != nil {
		fmt.Println(err)
		return
	}

	type place struct {
		City string `json:"city"`
	}
	weather := llm.NewTool("weather", "Tell the weather in a city.",
		func(_ context.Context, p place) (string, error) { return "rain in " + p.City, nil })
	said := llm.Assistant("Take an umbrella.")
	said.Usage = &llm.Usage{Input: 1000, Output: 100, Total: 1100}
	said.Metadata = map[string]any{"model_name": "gpt-4o"}
	model := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("weather", place{"Oslo"})), llmtest.Turn{Message: said})
	g := treadle.Must(agent.New(model, &agent.Options{Tools: []*llm.Tool{weather}}))

	if _, err := g.Run(tel.Context(context.Background()), agent.Ask("Umbrella?")); err != nil {
		fmt.Println(err)
		return
	}

	spans := exporter.GetSpans()
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	for _, s := range spans {
		fmt.Println(s.Name)
		for _, a := range s.Attributes {
			if slices.Contains([]attribute.Key{"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "treadle.usage.cost", "gen_ai.tool.call.id"}, a.Key) {
				fmt.Printf("  %s=%s\n", a.Key, a.Value.String())
			}
		}
	}
	// Output:
	// invoke_agent agent
	// node model
	// chat script
	// node tools
	// execute_tool weather
	//   gen_ai.tool.call.id=call_1
	// node model
	// chat script
	//   gen_ai.usage.input_tokens=1000
	//   gen_ai.usage.output_tokens=100
	//   treadle.usage.cost=0.0035
}

// An HTTP client sends the trace context with its requests.
func ExampleTelemetry_Transport() { //nolint:testableexamples // requires a server
	tel, err := oteltreadle.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: tel.Transport(nil)}
	resp, err := client.Get("http://localhost:2024/ok") //nolint:noctx // a short example
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	fmt.Println(resp.Status)
}

// Log records of a node contain the node and, if available, its run, thread, and span.
func ExampleLogHandler() {
	plain := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	log := slog.New(oteltreadle.LogHandler(plain))

	type state struct{ N int }
	b := treadle.New[state]("counter")
	treadle.AddNode(b, "count", func(ctx context.Context, s state) (state, error) {
		log.InfoContext(ctx, "counting", "from", s.N)
		return state{s.N + 1}, nil
	})
	b.Edge(treadle.Start, "count")
	g := treadle.Must(b.Compile(nil)).With(treadle.RunID("r1"))
	if _, err := g.Run(context.Background(), state{1}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// level=INFO msg=counting from=1 run=r1 node=count
}
