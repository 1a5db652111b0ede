// Package oteltreadle traces and measures graphs with OpenTelemetry.
//
// A [Telemetry] is attached to a context. Everything that happens in this context is traced and
// measured: runs, nodes, retries, subgraphs, model calls, tool calls, and store and memory
// operations, inside and outside of graphs.
//
//	tel, err := oteltreadle.New(nil) // the global providers
//	out, err := g.Run(tel.Context(ctx), in)
//
// A server takes the method: server.Options{Context: tel.Context}. Each run then belongs to the
// trace of the request that created it, even if another process executes the run. For your own
// HTTP server or client, use [Telemetry.Handler] and [Telemetry.Transport].
//
// Spans, attributes, and metrics are named after OpenTelemetry's semantic conventions for
// generative AI where these define a name, and start with "treadle." otherwise;
// docs/observability.md lists them. The content of messages, tool calls, and results is not
// recorded unless [Options].Content is set.
//
// The package uses only OpenTelemetry's API. Set up the SDK, its exporters, and its sampling as
// for any Go program. A run waits for an exporter only if the SDK does; with a batch processor,
// it does not.
package oteltreadle
