// Package oteltreadle traces and measures graphs with OpenTelemetry.
//
// A [Telemetry] is attached to a context. Everything that is done in this context has
// spans and is measured: runs, nodes, retries, nested graphs, calls of models and tools,
// and operations of stores and memories, in a graph or outside of one.
//
//	tel, err := oteltreadle.New(nil) // the global providers
//	out, err := g.Run(tel.Context(ctx), in)
//
// A server takes the method: server.Options{Context: tel.Context}. It then makes each
// run a part of the trace that the request for the run belongs to, also if another
// process executes the run. For an HTTP server or client of your own there are
// [Telemetry.Handler] and [Telemetry.Transport].
//
// The names of spans, attributes and metrics are those of OpenTelemetry's semantic
// conventions for generative AI where these have one, and begin with "treadle."
// otherwise; docs/observability.md lists them. What users, models and tools say is not
// recorded, unless [Options].Content asks for it.
//
// The package uses OpenTelemetry's API only. Set up the SDK, its exporters and its
// sampling as for any Go program. A run waits for an exporter only if the SDK does,
// which it does not with a batch processor.
package oteltreadle
