package oteltreadle

import (
	"context"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/llm/catalog"
)

// scope is the instrumentation scope of all spans and metrics.
const scope = "github.com/treadle-go/treadle/oteltreadle"

// Options configures a [Telemetry]. The zero value and a nil *Options mean the defaults.
type Options struct {
	// TracerProvider and MeterProvider receive spans and metrics; nil means the global
	// providers of package otel.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// Propagator reads and writes the trace context that connects processes; nil means the W3C
	// fields traceparent, tracestate, and baggage.
	Propagator propagation.TextMapPropagator
	// Content records messages, tool arguments and results, the inputs and outputs of graphs
	// and nodes, and store keys. The data can be large and personal. The SDK's limit on
	// attribute length applies.
	Content bool
	// Prices lists model prices; nil means that costs are not recorded. The cost of a model
	// that is missing from the table is recorded as unknown.
	Prices *catalog.Table
	// Agents lists the names of graphs that are agents. Their runs have the operation
	// invoke_agent; the runs of other graphs have invoke_workflow.
	Agents []string
}

// Telemetry traces and measures operations. It is safe for concurrent use.
type Telemetry struct {
	tracer   *tracer
	observer *observe.Tracer
}

// New returns a Telemetry. It returns an error if the meter provider rejects an instrument.
func New(opts *Options) (*Telemetry, error) {
	if opts == nil {
		opts = &Options{}
	}
	t := &tracer{content: opts.Content, prices: opts.Prices, agents: slices.Clone(opts.Agents), propagator: opts.Propagator}
	if t.propagator == nil {
		t.propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	}
	provider := opts.TracerProvider
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	t.tracer = provider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))
	meters := opts.MeterProvider
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	var err error
	if t.metrics, err = newMetrics(meters.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))); err != nil {
		return nil, fmt.Errorf("oteltreadle: %w", err)
	}
	return &Telemetry{t, &observe.Tracer{Start: t.start, Inject: t.inject, Extract: t.extract, IDs: ids, Fields: t.propagator.Fields()}}, nil
}

// Context returns ctx with the telemetry attached: operations in it are traced and measured.
// Spans are children of the span in ctx, if there is one.
func (t *Telemetry) Context(ctx context.Context) context.Context {
	return observe.WithTracer(ctx, t.observer)
}

// tracer implements the functions of an [observe.Tracer].
type tracer struct {
	tracer     trace.Tracer
	metrics    *metrics
	propagator propagation.TextMapPropagator
	content    bool
	prices     *catalog.Table
	agents     []string
}

// inject implements Inject of [observe.Tracer].
func (t *tracer) inject(ctx context.Context) (fields map[string]string) {
	defer caught("inject", func() { fields = nil })
	carrier := propagation.MapCarrier{}
	t.propagator.Inject(ctx, carrier)
	return carrier
}

// extract implements Extract of [observe.Tracer].
func (t *tracer) extract(ctx context.Context, fields map[string]string) (out context.Context) {
	defer caught("extract", func() { out = ctx }) //nolint:fatcontext // the given context
	if len(fields) == 0 {
		return ctx
	}
	return t.propagator.Extract(ctx, propagation.MapCarrier(fields))
}

// ids implements IDs of [observe.Tracer].
func ids(ctx context.Context) (traceID, spanID string) {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return "", ""
	}
	return sc.TraceID().String(), sc.SpanID().String()
}

// caught recovers from panics in calls to the SDK, whose processors, samplers, and exporters
// may be third-party code, so the run continues. It passes the panic to OpenTelemetry's error
// handler and calls undo, which may be nil, to set the result.
func caught(what string, undo func()) {
	p := recover()
	if p == nil {
		return
	}
	if undo != nil {
		undo()
	}
	defer func() { _ = recover() }() // the error handler may be third-party code, too
	otel.Handle(fmt.Errorf("oteltreadle: %s: panic: %v", what, p))
}
