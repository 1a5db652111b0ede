package oteltest

import (
	"context"
	"fmt"
	"io"
	"os"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/catalog"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/oteltreadle"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/server/standalone"
)

// A program exports spans over OTLP and serves an agent. Its runs join the traces of its
// callers.
func Example_program() { //nolint:testableexamples // serves until canceled
	run := func(ctx context.Context, args []string, out io.Writer, g *treadle.Graph[agent.State, agent.State]) error {
		exporter, err := otlptracehttp.New(ctx) // reads OTEL_EXPORTER_OTLP_ENDPOINT
		if err != nil {
			return err
		}
		provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
		defer func() { _ = provider.Shutdown(context.WithoutCancel(ctx)) }()

		tel, err := oteltreadle.New(&oteltreadle.Options{TracerProvider: provider, Prices: catalog.Default()})
		if err != nil {
			return err
		}
		_, err = g.Run(tel.Context(ctx), agent.Ask("Do I need an umbrella in Oslo?"))
		if err != nil {
			return err
		}
		err = standalone.Serve(ctx, args, out, &server.Options{Context: tel.Context}, g)
		return err
	}
	table := catalog.Default()
	table.Models["mine"] = llm.Info{Price: &llm.Price{Input: 0.5, Output: 2}}
	budget := agent.Budget(&agent.BudgetOptions{RunCost: 0.50, Cost: table.Cost})
	g := treadle.Must(agent.New(llmtest.NewScript(llmtest.Say("Yes.")), &agent.Options{Middleware: []*agent.Middleware{budget}}))
	if err := run(context.Background(), os.Args[1:], os.Stdout, g); err != nil {
		fmt.Println(err)
	}
}
